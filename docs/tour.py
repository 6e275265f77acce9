# # A tour of nnc_func
#
# This file runs (`python docs/tour.py`) and is meant to be read from top to bottom. It builds the stack from
# nothing, one layer at a time, and at each layer shows what flows through it. The idea is Owl's: a *functor* is a
# module made from a module. A tensor library is ten of them, and each is a few hundred lines because it knows only
# the one below.
#
#     Device → Type → Shape → Symbol → Operator → Optimiser → Graph → Engine → Autodiff → NN
#
# There is one entry to every layer: `bind(op, *args, **params)`. An operator is data: a record with one *facet* for
# each layer that has a say. What differs from layer to layer is what the arguments are. So "the shape rule of add",
# "the kernel of add", "the node of add" and "the derivative of add" are four interpretations of one thing, and that
# they agree is a law which the tests check for every operator.

import numpy as np

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE

add, multiply, tanh = CATALOGUE["add"], CATALOGUE["multiply"], CATALOGUE["tanh"]
print(add.signature(), "-", add.doc)

# ## 1. Device: arrays
#
# A device owns memory and runs kernels. Here an operator means: compute it, now.

device = nnc.NumPy()
x = np.float32([1, 2, 3])
assert device.bind(add, x, x).tolist() == [2, 4, 6]

# ## 2. Type: dtypes
#
# The same operator, bound to dtypes, gives a dtype. The Type layer also holds the catalogue: which operators there
# are is a value that a stack is given, not something that importing fills.

from nnc_func.graph.type import Type  # noqa: E402

type_ = Type(device)
assert type_.bind(add, np.dtype("int32"), np.dtype("float32")) == np.dtype("float64")  # as NumPy promotes

# ## 3. Shape: avals
#
# An *aval* is what is known of a tensor without its elements. Extents may be symbols, and arithmetic on them is exact.

from nnc_func.graph.shape import Shape  # noqa: E402

shape = Shape(type_)
n_by_3, row = nnc.Aval(("n", 3), "float32"), nnc.Aval((3,), "float32")
assert str(shape.bind(add, n_by_3, row)) == "float32[n, 3]"
assert str(shape.bind(CATALOGUE["concat"], n_by_3, n_by_3, axis=0)) == "float32[2*n, 3]"

# What does not fit is refused here, before anything is computed, with the operator and both shapes named.

try:
    shape.bind(add, row, nnc.Aval((4,), "float32"))
except ValueError as error:
    print(error)

# ## 4. Symbol: nodes
#
# Bound to nodes, an operator gives a node. Nodes are in single assignment and interned: the same application is the
# same object, so common sub-expressions are shared by construction. A node remembers the line that asked for it.

from nnc_func.graph.symbol import Symbol  # noqa: E402

symbol = Symbol(shape)
a = symbol.input("a", row)
assert symbol.bind(multiply, a, a) is symbol.bind(multiply, a, a)

# ## 5. Operator: functions over nodes
#
# It lifts what is no node yet. Python's numbers are weak: `a + 1` stays float32.

from nnc_func.graph.operator import Operator  # noqa: E402

operator = Operator(symbol)
assert str(operator.bind(add, a, 1).aval) == "float32[3]"

# ## 6. Optimiser: rules
#
# A rule is a function of its variables; what it returns is data. Rules are sound up to the numerics they declare.

from nnc_func.graph.optimiser import Optimiser  # noqa: E402

optimiser = Optimiser(operator)
b = operator.bind(multiply, operator.bind(add, a, 0), 1)
assert optimiser.optimise([b]).roots[0] is a  # (a + 0) * 1

# ## 7. Graph: inputs, outputs, feedback
#
# A closed graph is a value. It prints, draws itself, is saved without code, and moves to another stack.

from nnc_func.graph.graph import Graph  # noqa: E402

graph_layer = Graph(optimiser)
y = operator.bind(tanh, operator.bind(add, a, a))
graph = graph_layer.close([a], [y], name="tour")
print(graph)

# ## 8. Engine: when, in which order, where in memory
#
# The eager engine interprets a graph node by node: it is the oracle. The lazy one rewrites it, chooses kernels and an
# order, finds what may be written in place, and packs everything into one arena. The result is a *plan*, which is
# data, and verifies itself by an algorithm that shares no code with the planner.

from nnc_func.engine import Eager, Lazy  # noqa: E402

oracle = Eager(graph_layer).compile(graph)
program = Lazy(graph_layer).compile(graph)
print(program.plan)
program.plan.verify()
np.testing.assert_array_equal(oracle.run([x])[0], program.run([x])[0])

# ## 9. Autodiff: derivatives
#
# It stands on any engine, or on a bare device, and differentiates by interpreting each operator once more.

from nnc_func.autodiff import Autodiff  # noqa: E402

autodiff = Autodiff(device)
o = autodiff.functions
value, back = autodiff.vjp(lambda v: o.sum(o.multiply(v, v), axis=None), [x])
assert back(np.float32(1))[0].tolist() == [2, 4, 6]

# ## 10. NN, and the whole stack
#
# `Stack` flattens the composition for users: the layers by name, and the operators as functions on tensors.

from nnc_func.nn import NN  # noqa: E402

lazy = nnc.Stack(NN(Autodiff(Lazy(graph_layer))))
assert lazy == nnc.lazy()  # equal recipes are equal stacks
eager = nnc.eager()


def loss(stack, w):
    return stack.ops.tanh(w * w).sum()


for stack in (eager, lazy):
    print(stack.grad(lambda w, s=stack: loss(s, w))(stack.asarray(x)))

# ## Swapping a layer
#
# Laziness is one layer. So it can also come from below: a whole lazy stack satisfies the signature of a device, and an
# eager stack over it is lazy. Nothing runs until a value is asked for.

twice = eager.swap(device=lazy)
print(twice.grad(lambda w: loss(twice, w))(twice.asarray(x)).numpy())

# A layer of one's own goes between any two. This one counts what passes.

from typing import Any  # noqa: E402

from nnc_func.layer import PassThrough, layer  # noqa: E402

passed: list[str] = []


@layer(on="operator")
class Noting(PassThrough):
    """Notes the operators that are applied."""

    operator: Any

    def bind(self, op, *args, **params):
        passed.append(op.name)
        return self.operator.bind(op, *args, **params)


noting = lazy.swap(operator=Noting(lazy.operator))
t = noting.input("t", (2,), "float32")
print(noting.compile(inputs=[t], outputs=t * 2 + 1)(np.float32([1, 2])), passed)
assert passed == ["multiply", "add"]

# What a layer says holds on every engine. A Type that narrows, say: kernels compute in their own dtype, and their
# results are cast once, at once in an eager stack and by a node of its own in a recorded one.


@layer(on="type")
class Half(PassThrough):
    """Floating results are float16."""

    type: Any

    def bind(self, op, *dtypes, **params):
        found = self.type.bind(op, *dtypes, **params)
        return np.dtype("float16") if not op.multi_result and found.kind == "f" else found


halves = [each.insert(Half) for each in (nnc.eager(), nnc.lazy())]
print([each.ops.tanh(np.float32([1, 2])).numpy() for each in halves])
assert len({each.ops.tanh(np.float32([1, 2])).numpy().tobytes() for each in halves}) == 1

# ## A rule and an allocator of one's own


@nnc.rule
def cancel_exp_log(v):
    """log(exp(v)) is v, where exp does not overflow: up to rounding, and not for large v."""
    return nnc.rewrite(CATALOGUE["log"](CATALOGUE["exp"](v))).to(v).up_to("rounding").with_fast_math()


mine = lazy.swap(optimiser=Optimiser(lazy.operator, fast_math=True).with_rules(cancel_exp_log))
v = mine.input("v", (2,), "float32")
print(mine.compile(inputs=[v], outputs=mine.ops.log(mine.ops.exp(v))).graph)


def one_after_the_other(problem):
    """Offsets without any reuse: the simplest allocator."""
    offsets, top = [], 0
    for size in problem.rounded:
        offsets.append(top)
        top += size
    return offsets


wasteful = lazy.swap(engine=lazy.engine.with_allocator(one_after_the_other))


def chain(stack):
    h = stack.input("h", (64, 64), "float32")
    out = h
    for _ in range(6):
        out = stack.ops.tanh(out @ h)
    return stack.compile(inputs=[h], outputs=out).plan.verify()


print(repr(chain(lazy)), repr(chain(wasteful)), sep="\n")
