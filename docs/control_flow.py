"""Control flow: loops and branches on tensors, one operator each, whatever the number of times.

Run it: python docs/control_flow.py. It asserts what it says.
"""

import numpy as np

import nnc_func as nnc

eager, lazy = nnc.eager(), nnc.lazy()
draw = np.random.default_rng(0)

# --- 1. Along an axis ----------------------------------------------------------------------------------------------
#
# `foreach` gives a body one slice after the other, and what it carries; `scan` has its arguments the other way round.
# The body is traced once, on every engine: what stands in the graph is one operator, `loop`, that holds it.

for stack in (eager, lazy):
    outs, total = stack.foreach(lambda x, total: (x * total, total + x), [1.0, 2.0, 3.0], 10.0)
    assert outs.numpy().tolist() == [10, 22, 39]
    assert total.item() == 16

# A Python number takes the dtype that it has after the body. Trees of tensors come back as they were given.

x = lazy.input("x", ("n", 4), "float32")  # of any length: traced once, optimised once
_, state = lazy.foreach(
    lambda x, s: (None, {"sum": s["sum"] + x, "count": s["count"] + 1}), x, {"sum": np.zeros(4, "float32"), "count": 0}
)
program = lazy.compile([x], state)
for n in (3, 7):
    found = program(np.ones((n, 4), "float32"))
    assert found["count"] == n
    assert found["sum"].tolist() == [n] * 4

# --- 2. Derivatives --------------------------------------------------------------------------------------------
#
# What a body captures is differentiated too. The loop backwards reads what the first one stacks; of an LSTM that is
# seven values a step. `checkpoint="sqrt"` keeps the carries of about √n steps and the tape of √n steps, for one more
# evaluation a step. A number holds so many carries, and computes the others again about as seldom as can be.
# `"budget:64MB"` takes the first of these that fits. A policy says it of each result that the derivative reads: a
# function, or "products", "costly", "carries"; all else is computed again.


def cell(stack, x, h, w, u):
    return stack.ops.tanh(x @ w + h @ u)


def loss(stack, w, u, xs, **how):
    def body(x, h):
        h = cell(stack, x, h, w, u)
        return h, h

    outs, _ = stack.foreach(body, xs, np.zeros((2, 8)), **how)
    return (outs * outs).sum()


w, u, xs = draw.normal(size=(4, 8)), draw.normal(size=(8, 8)) / 4, draw.normal(size=(100, 2, 4))
wanted = eager.grad(lambda w, u: loss(eager, w, u, xs, unroll=True), argnums=(0, 1))(w, u)  # written out, step by step
ways = (None, "sqrt", 5, "budget:4kB", "products", lambda made: made.name == "tanh")
for how in ({"checkpoint": way} for way in ways):
    for found, each in zip(
        lazy.grad(lambda w, u, how=how: loss(lazy, w, u, xs, **how), argnums=(0, 1))(w, u), wanted, strict=True
    ):
        np.testing.assert_allclose(found.numpy(), each.numpy(), rtol=1e-9)

# --- 3. While a condition holds -----------------------------------------------------------------------------
#
# `while_loop` returns outputs, the last variables, and how often it went. `max_iterations` bounds the rows of outputs:
# those of times that did not happen are zeros. Without it nothing bounds the loop. It is differentiated all the same,
# in compiled programs and other loops too: its derivative holds 100 carries, or as many as `checkpoint=` says, and need
# not know how often it goes.


def newton(stack, a):
    _, (root, _), times = stack.while_loop(
        lambda root, step: stack.ops.abs(step) > 1e-12,
        lambda root, step: (None, (root - (root * root - a) / (2 * root), (root * root - a) / (2 * root))),
        (a, a * 0 + 1.0),
    )
    return root, times


for stack in (eager, lazy):
    root, times = newton(stack, stack.asarray(2.0))
    assert abs(root.item() - 2**0.5) < 1e-15
    assert times.item() < 10
    slope = stack.grad(lambda a, stack=stack: newton(stack, a)[0])(2.0)
    assert abs(slope.item() - 0.5 / 2**0.5) < 1e-12

# A function of NumPy arrays may decide, too: it is called during the run, before each time. It has no derivative; the
# loop has one. `vmap`, ONNX and files refuse it.

small = nnc.host(lambda x: float(abs(x).max()) < 10)
for stack in (eager, lazy):
    _, x, times = stack.while_loop(small, lambda x: (None, x * 2), stack.asarray([1.0, 3.0]))
    assert (x.numpy().tolist(), times.item()) == ([4, 12], 2)

# --- 4. One of several ----------------------------------------------------------------------------------------
#
# `cond` and `case_of` trace every branch and compute one. The others give zeros for gradients, never a NaN.

for stack in (eager, lazy):
    safe = stack.grad(lambda x, stack=stack: stack.cond(x == 0, lambda: 0 * x, lambda: 1 / x))
    assert safe(0.0).item() == 0.0
    assert safe(2.0).item() == -0.25
    kinds = [lambda x: x + 1, lambda x: x * x]
    assert [stack.case_of(k, kinds, 5.0, default=nnc.bypass).item() for k in (0, 1, 9)] == [6, 25, 5]

# --- 5. Sequences of different lengths ------------------------------------------------------------------------
#
# A masked recurrence over a padded batch: a finished sequence keeps its state, and its outputs are zeros.

lengths = np.array([[3], [1], [5]])


def masked(stack, w, u, xs):
    kept = stack.asarray(lengths)

    def body(x, carried):
        h, t = carried
        after = cell(stack, x, h, w, u)
        return stack.ops.where(kept > t, after, 0), (stack.ops.where(kept > t, after, h), t + 1)

    return stack.foreach(body, xs, (np.zeros((3, 8)), 0))


batch = draw.normal(size=(5, 3, 4))
outs, (last, _) = masked(lazy, w, u, batch)
for row, length in enumerate(lengths[:, 0]):
    h = np.zeros(8)
    for t in range(length):
        h = np.tanh(batch[t, row] @ w + h @ u)
    np.testing.assert_allclose(last.numpy()[row], h)
    assert not outs.numpy()[length:, row].any()

# --- 6. Decoding until an end is found ---------------------------------------------------------------------------
#
# A greedy decoder with a cache that it writes into, one row a token: what it attends to are the rows so far.

SIZE, END, MOST = 12, 0, 20
keys, table = draw.normal(size=(SIZE, 6)), draw.normal(size=(SIZE, 6)) * 2


def decoded(stack, first):
    ops = stack.ops
    rows = stack.asarray(np.arange(MOST))

    def step(token, cache, n):
        cache = ops.where((rows == n)[:, None], ops.take(stack.asarray(table), token, axis=0), cache)
        scores = ops.where(rows <= n, cache @ cache[n], -np.inf)
        found = ops.softmax(scores, axis=0) @ cache
        token = ops.argmax(stack.asarray(keys) @ found, axis=0)
        return token, (token, cache, n + 1)

    tokens, _, times = stack.while_loop(
        lambda token, cache, n: token != END, step, (first, np.zeros((MOST, 6)), 0), max_iterations=MOST
    )
    return tokens, times


def by_hand(token):
    cache, found = [], []
    while token != END and len(found) < MOST:
        cache.append(table[token])
        scores = np.array(cache) @ cache[-1]
        weights = np.exp(scores - scores.max())
        token = int(np.argmax(keys @ (weights / weights.sum() @ np.array(cache))))
        found.append(token)
    return found


program = lazy.compile([first := lazy.input("first", (), "int64")], list(decoded(lazy, first)))
for token in range(1, SIZE):
    tokens, times = program(token)
    assert tokens[:times].tolist() == by_hand(token)

# --- 7. What is planned ------------------------------------------------------------------------------------------
#
# A loop is one instruction, whose body is planned by the same passes; no byte is copied a carry, and the arena does not
# depend on the number of times. `print(program.plan)` shows the body's plan in braces, and where its values lie, time
# after time. Programs with loops are saved, loaded and verified as any other.

plans = []
for n in (10, 10_000):
    xs = lazy.input("xs", (n, 8), "float64")
    _, h = lazy.foreach(lambda x, h: (None, lazy.ops.tanh(x + h)), xs, np.zeros(8))
    plans.append(lazy.compile([xs], h).plan)
assert plans[0].arena_bytes == plans[1].arena_bytes
assert len(plans[0].instructions) == len(plans[1].instructions)

# A branch that passes an operand on costs nothing where that is not needed afterwards: the result is the operand's
# memory. To write `x[i] = f(x[i - 1])` on a carried tensor is one row's work a time, forward and under `grad`.

# --- 8. Carries that grow ------------------------------------------------------------------------------------------
#
# With `dynamic=True` a carry may have another extent each time, along axes that it has. How large it ends is a matter
# of values, so the loop is computed at once. Its body is traced as any, with symbols; a lazy stack plans it for
# capacities that double, and takes views with the extents that there are. What is put behind a carry is written behind
# it. A slice whose bounds are not all within an extent that differs from time to time is refused when it comes to that:
# `x[-3:]` of two elements has no shape that could be told before.

for stack in (eager, lazy):

    def longer(x, stack=stack):
        return stack.while_loop(
            lambda x: x.shape[0] < 5, lambda x: (None, stack.ops.concat(x, 2 * x[-1:], axis=0)), x, dynamic=True
        )[1]

    assert longer(stack.asarray([1.0, 3.0])).numpy().tolist() == [1, 3, 6, 12, 24]
    assert stack.grad(lambda x, f=longer: f(x).sum())([1.0, 3.0]).numpy().tolist() == [1, 15]

# Such a loop may stand in the body of another one, and in a branch, whose results may grow; what is not taken is not
# computed. Extents of what is in a body may depend on elements, too. `vmap` computes row after row, whose results have
# one shape.

for stack in (eager, lazy):

    def longer(x, stack=stack):
        more = lambda x: (None, stack.ops.concat(x, x[x > 0] + 1, axis=0))  # noqa: E731
        return stack.while_loop(lambda x: x.shape[0] < 6, more, x, dynamic=True)[1]

    def chosen(x, stack=stack, longer=longer):
        return stack.cond(x.sum() > -10, lambda: longer(x), lambda: x)

    assert chosen(stack.asarray([1.0, -3.0])).tolist() == [1, -3, 2, 2, 3, 2, 3, 3, 4]
    assert chosen(stack.asarray([1.0, -30.0])).tolist() == [1, -30]
    rows = stack.vmap(lambda x, f=chosen: f(x).sum())(stack.asarray([[1.0, -3.0], [2.0, -1.0]]))
    assert rows.tolist() == [17, 27]

# Under `jit` extents may depend on elements if one says so: the function is a program of regions, and loops with
# carries that grow are computed between them. Such a program is not saved, and `stack.compile` makes none.

rows = lazy.jit(lambda x: x[x > 0] * 2, dynamic=True)
assert rows(np.array([1.0, -1.0, 3.0])).numpy().tolist() == [2, 6]
assert len(rows.program(np.ones(3)).regions) == 2

# --- 9. Solving, prefixes, and leaving in the middle ---------------------------------------------------------------
#
# `fixed_point` solves x = f(x, …), and its gradient solves a fixed point of its own; what does not converge is NaN.
# `associative_scan` gives prefixes of any function that associates, in logarithmically many turns. `loop_until` ends in
# the middle of its body, as NNC's loops do.

for stack in (eager, lazy):

    def cosine(a, stack=stack):
        return stack.fixed_point(lambda x: stack.ops.cos(x * a), 0.5)

    found = cosine(stack.asarray(1.0)).item()
    slope = stack.grad(cosine)(1.0).item()
    assert abs(np.cos(found) - found) < 1e-9
    assert abs(slope + found * np.sin(found) / (1 + np.sin(found))) < 1e-6
    products = stack.associative_scan(stack.ops.multiply, stack.asarray([1.0, 2.0, 3.0, 4.0]))
    assert products.numpy().tolist() == [1, 2, 6, 24]

# --- 10. Effects, random numbers, lengths ----------------------------------------------------------------------------
#
# `ops.print` in a body of `foreach`, `scan`, `while_loop`, `cond` … prints each time, in order, and no derivative
# prints again; `fixed_point`, `associative_scan` and `vmap` refuse it, and say why. A captured key
# repeats its numbers; `ops.random_fold_in(key, i)` gives others, and `nn` layers do that themselves. `layer(x,
# lengths=lengths)` of a recurrent layer computes hardly more than the sum of lengths. `program.first_nonfinite(…)`
# names the operator and the time.

# --- 11. Python's own if, while and for ------------------------------------------------------------------------------
#
# `jit(control_flow=True)` makes them branches and loops where a tensor decides. A block is traced on the objects that
# there are, so that each name of a list, a dict, an attribute or a tensor sees what is written into it. Which tensor a
# name is may be decided by a tensor: what is written into it is written into that one. Which *list* it is may not, if
# it is written into, nor which array of NumPy: that is refused, with file and line. So is what no tensor can be, such
# as a text, where it is read after a tensor has decided it; a number that a tensor decides, as a key of a dict, or in a
# text that is looked into; an iterator from which a block takes; a tensor that a loop appends, and that is written into
# later. A `try` of your own hides none of that.
#
# A number that a tensor decides takes the dtype of what it meets, and is an `int` or a `float` for `isinstance`, as in
# Python. A variable may be None before a loop, and `x is None` is then a tensor; who reads it where it is None, or
# where the loop that assigns it first went no time, gets a RunError with its name and line. An error of Python on a
# side that is not taken says that both are traced.
#
# Some things are other than in Python. Blocks are traced whether they are taken or not, so printing, files and
# whatever no Python object holds happens while they are. Numbers that a tensor decides have 64 bits, and nothing is
# raised where Python would (`7 // 0`). What code computes of one that is not converted is a tensor with a dtype of its
# own: functions of libraries, what is left to Python with a warning, and what Python itself calls, such as
# `__init__`, `__add__`, `__enter__` and the bodies of classes.


@lazy.jit(control_flow=True)
def raised(x, y, n):
    larger = x if x.sum() > y.sum() else y
    first = larger
    for i in range(n):
        larger[0] = larger[0] + i + 1
        larger = larger * 2
    return x, y, first, larger


@lazy.jit(control_flow=True)
def named(x):
    kind = "small"
    for k in range(3):
        if x.sum() > k:
            break
        kind = "large"
    return x if kind == "small" else -x


said = ""
try:
    named(np.array([1.0]))
except nnc.errors.UndefinedVariableError as error:
    said = str(error)
assert "kind is 'small' where the condition" in said


@lazy.jit(control_flow=True)
def weighted(x, n):
    total = x * 0
    for i in range(n):
        total = total + x * i if isinstance(i, int) else total
    return total


assert weighted(np.ones(2, "float32"), np.asarray(4)).tolist() == [6, 6]
assert weighted(np.ones(2, "float32"), np.asarray(4)).dtype == np.float32

for n, wanted, last in ((0, [5, 6], [5, 6]), (1, [6, 6], [12, 12]), (3, [6, 6], [62, 48])):
    x, y, first, larger = raised(np.array([1.0, 2.0]), np.array([5.0, 6.0]), np.asarray(n))
    assert x.tolist() == [1, 2]
    assert y.tolist() == first.tolist() == wanted
    assert larger.tolist() == last
