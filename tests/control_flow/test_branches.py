"""Branches: one of several functions is computed (`control_flow/branches`, `graph/ops/branch`)."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DTypeError, NncError, OperatorError, RunError, ShapeError

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


class Counting(nnc.NumPy):
    """A device that notes what it computes."""

    calls: ClassVar[list[str]] = []

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        self.calls.append(op.name)
        return super().bind(op, *args, **params)


def agree(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=rtol)


# --- what is computed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_the_untaken_branch_is_not_computed_whatever_it_is_made_of(make: Any) -> None:
    device = Counting()
    stack = make(device)
    x, y = stack.variable("x", 2.0), stack.variable("y", 3.0)
    sin, exp = stack.ops.sin, stack.ops.exp
    for branches, operands in (
        ((lambda: exp(y), lambda: sin(y)), ()),  # of what it captures alone
        ((lambda z: exp(z), lambda z: sin(z)), (y,)),
        ((lambda: exp(stack.asarray(3.0)), lambda: sin(stack.asarray(3.0))), ()),  # of numbers alone
    ):
        device.calls.clear()
        agree(stack.cond(x > 5, *branches, *operands), np.sin(3.0))
        assert {"branch", "loop"}.intersection(device.calls)
        is_folded = make is nnc.lazy and "y" not in branches[0].__code__.co_freevars and not operands
        assert is_folded or not {"sin", "exp"}.intersection(device.calls)  # numbers are folded when it is compiled


def test_what_was_computed_around_a_branch_is_not_computed_in_it() -> None:
    x = LAZY.input("x", (), "float64")
    outer = LAZY.ops.tanh(x)
    program = LAZY.compile([x], [LAZY.cond(x > 0, lambda: outer * 2, lambda: outer * 3), outer])
    assert sum(i.op.name == "tanh" for i in program.plan.instructions) == 1
    assert program.plan.text().count(" = tanh(") == 1


@every
def test_what_fails_in_the_untaken_branch_does_not_fail(stack: Any) -> None:
    v, i = stack.asarray(np.arange(3.0)), stack.asarray(10)
    agree(stack.cond(i < 3, lambda: v[i], lambda: stack.asarray(-1.0)), -1.0)
    singular = stack.asarray(np.zeros((2, 2)))
    inv = stack.ops.inv
    agree(stack.cond(stack.asarray(0), lambda: inv(singular).sum(), lambda: singular.sum()), 0.0)
    found = stack.grad(lambda a: stack.cond(a[0, 0] > 0, lambda: inv(a).sum(), lambda: a.sum()))(singular)
    agree(found, np.ones((2, 2)))
    with pytest.raises(NncError):  # and the other does
        stack.cond(stack.asarray(1), lambda: inv(singular).sum(), lambda: singular.sum()).numpy()


@every
def test_the_untaken_branch_gives_no_nan(stack: Any) -> None:
    def f(x: Any) -> Any:
        return stack.cond(x > 0, lambda: stack.ops.log(x) / x, lambda: x * 3)

    agree(stack.grad(f)(0.0), 3.0)
    agree(stack.grad(stack.grad(f))(0.0), 0.0)
    value, slope = stack.jvp(f, (0.0,), (1.0,))
    agree(value, 0.0)
    agree(slope, 3.0)


@every
def test_transformations_and_jit_within(stack: Any) -> None:
    """Of what the branch captures, and of nothing else, too."""
    if stack is STACKS["eager over lazy"]:
        return
    k, square = stack.asarray(3.0), stack.jit(lambda a: a * a + 1)
    agree(stack.cond(k > 0, lambda: square(k), lambda: k), 10.0)
    square(stack.asarray(1.0))  # it is compiled now
    agree(stack.cond(k > 0, lambda: square(k), lambda: k), 10.0)
    agree(stack.grad(lambda x: stack.cond(k > 0, lambda: square(x), lambda: x))(2.0), 4.0)
    agree(stack.cond(k > 0, lambda: stack.grad(lambda z: z**3)(k), lambda: k), 27.0)
    agree(stack.cond(k > 0, lambda: stack.jvp(lambda z: z**3, (k,), (k,))[1], lambda: k), 81.0)
    agree(stack.grad(lambda x: stack.cond(x > 0, lambda: stack.grad(lambda z: z**3 * x)(x), lambda: x))(2.0), 36.0)


# --- results -------------------------------------------------------------------------------------------------


@every
def test_trees_come_back_as_they_are(stack: Any) -> None:
    for p in (True, False):
        found = stack.cond(
            stack.asarray(p), lambda a, b: {"x": [a["p"] + b, None], "y": (2.0,)},
            lambda a, b: {"x": [a["p"] - b, None], "y": (stack.asarray(np.float32(3.0)),)},
            {"p": stack.asarray(1.0)}, 5.0,
        )  # fmt: skip
        assert {*found} == {"x", "y"}
        assert found["x"][1] is None
        assert found["y"][0].dtype == np.float32  # a number has the dtype that the others have there
        agree(found["x"][0], 6.0 if p else -4.0)
        agree(found["y"][0], 2.0 if p else 3.0)


@every
def test_conditions_of_any_number(stack: Any) -> None:
    for p in (True, 1, 0.5, float("nan"), -2, np.int8(3), np.array(True), stack.asarray(0.25)):
        agree(stack.cond(p, lambda: 1.0, lambda: 2.0), 1.0)
    for p in (False, 0, 0.0, -0.0, np.array(0), stack.asarray(0)):
        agree(stack.cond(p, lambda: 1.0, lambda: 2.0), 2.0)


@every
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool", "uint64"])
def test_the_branch_of_that_number_or_the_default(stack: Any, dtype: str) -> None:
    branches = [lambda x: x + 1, lambda x: x * 2, lambda x: x * x]
    for n in (0, 1, 2, 3, 200, 2**63 + 5, -1, -3):
        if not (0 if dtype[0] in "bu" else -200) <= n <= {"bool": 1, "int8": 127, "uint8": 255}.get(dtype, 2**64):
            continue
        if dtype == "int64" and n >= 2**63:
            continue
        index = stack.asarray(np.asarray(n, dtype))
        wanted = [6.0, 10.0, 25.0][n] if 0 <= n < 3 else 5.0
        agree(stack.case_of(index, branches, 5.0, default=nnc.bypass), wanted)
        agree(stack.grad(lambda x, i=index: stack.case_of(i, branches, x, default=nnc.bypass))(5.0),
              [1.0, 2.0, 10.0][n] if 0 <= n < 3 else 1.0)  # fmt: skip
        if not 0 <= n < 3:
            with pytest.raises(RunError, match="no default"):
                stack.case_of(index, branches, 5.0).numpy()


@every
def test_bypass_gives_operands_as_they_are(stack: Any) -> None:
    """As NNC's piecewise function, of which one piece is the argument."""

    def f(x: Any) -> Any:
        index = stack.ops.where(x < 0, 0, stack.ops.where(x < 1, 1000, stack.ops.where(x < 2, 1, 2)))
        return stack.case_of(
            index, [lambda x: 0.0 * x, lambda x: 0.5 * x + 0.5, lambda x: 0 * x + 1.5], x, default=nnc.bypass
        )

    for x, y, slope in ((-1.0, 0.0, 0.0), (0.76, 0.76, 1.0), (1.226, 1.113, 0.5), (2.1, 1.5, 0.0)):
        agree(f(stack.asarray(x)), y)
        agree(stack.grad(f)(x), slope)
    found = stack.case_of(9, [lambda a, b: (b, a)], 1.0, np.ones(()), default=nnc.bypass)
    assert [each.item() for each in found] == [1.0, 1.0]


@every
def test_results_that_are_operands_constants_and_the_same_twice(stack: Any) -> None:
    k = stack.asarray(np.array([1.0, 2.0]))
    x = stack.asarray(np.array([3.0, 4.0]))
    for p in (True, False):
        found = stack.cond(stack.asarray(p), lambda a: (a, k, k, a * 1), lambda a: (k, a, a, k), x)
        first, second = (x, k) if p else (k, x)
        for one, other in zip(found, (first, second, second, first), strict=True):
            agree(one, other.numpy())

    def f(x: Any, k: Any) -> Any:
        found = stack.cond(True, lambda a: (a, k, k, a * 1), lambda a: (k, a, a, k), x)
        return sum((n + 1) * each.sum() for n, each in enumerate(found))

    for g, wanted in zip(stack.grad(f, argnums=(0, 1))(x, k), (5.0, 5.0), strict=True):
        agree(g, [wanted, wanted])


@every
@pytest.mark.parametrize(
    ("then", "otherwise", "error", "said"),
    [
        (lambda x: x, lambda x: (x, x), OperatorError, "give alike: else gives .*, then gives"),
        (lambda x: {"a": [x, x]}, lambda x: {"a": [x, x[:1]]}, OperatorError, r"at a\.1 is \(1,\) in else, \(2,\) in"),
        (lambda x: {"a": x}, lambda x: {"a": x.astype("float32")}, OperatorError, "at a is float32 in else, float64"),
        (lambda x: x, lambda x: None, OperatorError, "give alike"),
    ],
)  # fmt: skip
def test_branches_that_differ_are_refused_with_the_leaf(
    stack: Any, then: Any, otherwise: Any, error: Any, said: str
) -> None:
    with pytest.raises(error, match=said):
        stack.cond(True, then, otherwise, stack.asarray(np.ones(2)))


@every
def test_what_chooses_nothing_is_refused(stack: Any) -> None:
    for call, error, said in (
        (lambda: stack.cond(np.ones(1), lambda: 1, lambda: 2), ShapeError, r"shape \(1,\); take all\(\) or any\(\)"),
        (lambda: stack.cond("x", lambda: 1, lambda: 2), OperatorError, "given a str"),
        (lambda: stack.cond(True, 1, lambda: 2), NncError, "cond"),
        (lambda: stack.case_of(1.5, [lambda: 1]), DTypeError, "the index of case_of is an integer"),
        (lambda: stack.case_of(np.zeros(2, "int64"), [lambda: 1]), DTypeError, "the index of case_of is an integer"),
        (lambda: stack.case_of(0, []), OperatorError, "a list of functions"),
        (lambda: stack.case_of(0, lambda: 1), OperatorError, "a list of functions"),
    ):
        with pytest.raises(error, match=said):
            call()


# --- derivatives, nesting ------------------------------------------------------------------------------------


@every
def test_branches_in_loops_in_branches(stack: Any) -> None:
    ops = stack.ops

    def f(x: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            inner = stack.cond(
                c.sum() > 0, lambda: stack.fori(0, 2, lambda j, d: ops.sin(d * x) + j, c), lambda: c**2 + x
            )
            return stack.case_of(i, [lambda c: c, lambda c: c * x], inner, default=lambda c: c - 1.5), c

        return stack.cond(x[0] > 0, lambda: sum_of(*stack.scan(step, x, np.arange(4))), lambda: x.sum() ** 3)

    def sum_of(c: Any, rows: Any) -> Any:
        return c.sum() + (rows * rows).sum()

    def plain(x: Any) -> Any:
        if x[0] <= 0:
            return x.sum() ** 3
        c, total = x, 0.0
        for i in range(4):
            total += (c * c).sum()
            if c.sum() > 0:
                for j in range(2):
                    c = np.sin(c * x) + j
            else:
                c = c**2 + x
            c = [c, c * x][i] if i < 2 else c - 1.5
        return c.sum() + total

    for x in (np.array([0.7, -0.4]), np.array([-0.7, 0.4])):
        agree(f(stack.asarray(x)), plain(x))
        wanted = np.array([(plain(x + d) - plain(x - d)) / 2e-6 for d in np.eye(2) * 1e-6])
        agree(stack.grad(f)(x), wanted, 1e-6)
        slopes = [stack.jvp(f, (x,), (d,))[1].numpy() for d in np.eye(2)]
        np.testing.assert_allclose(slopes, wanted, rtol=1e-6)
        second = [(stack.grad(f)(x + d).numpy() - stack.grad(f)(x - d).numpy()) / 2e-5 for d in np.eye(2) * 1e-5]
        np.testing.assert_allclose(stack.hessian(f)(x).numpy(), second, rtol=1e-5, atol=1e-6)


def test_gradients_are_written_over_whatever_is_in_a_buffer() -> None:
    """Of what only the other branch reads they are zeros."""
    x, y, z = (LAZY.input(name, (2,), "float64") for name in "xyz")

    def loss(x: Any, y: Any, z: Any) -> Any:
        return LAZY.cond(z.sum() > 0, lambda: (x * x).sum(), lambda: (y**3).sum())

    program = LAZY.compile([x, y, z], list(LAZY.grad(loss, argnums=(0, 1, 2))(x, y, z)))
    one = np.array([2.0, 3.0])
    for sign in (1, -1):
        outs = [np.full(2, np.nan) for _ in range(3)]
        program(one, one, sign * one, out=outs)
        np.testing.assert_array_equal(
            outs, [2 * one if sign > 0 else 0 * one, 3 * one**2 if sign < 0 else 0 * one, 0 * one]
        )


@every
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex128"])
def test_dtypes_are_kept(stack: Any, dtype: str) -> None:
    x = stack.asarray([1.0, 2.0]).astype(dtype)
    found = stack.cond(True, lambda x: (x * x, x.shape[0]), lambda x: (x, 1), x)
    assert found[0].dtype.name == dtype
    if dtype != "complex128":
        assert stack.grad(lambda x: stack.cond(True, lambda: x * x, lambda: x).sum())(x).dtype.name == dtype


@every
def test_integers_pass_beside_what_is_differentiated(stack: Any) -> None:
    def f(x: Any) -> Any:
        n, y = stack.cond(x > 0, lambda: (3, x * x), lambda: (stack.asarray(4), x))
        assert n.dtype == np.int64
        return y * n.astype("float64")

    agree(stack.grad(f)(2.0), 12.0)
    agree(stack.grad(f)(-2.0), 4.0)


def test_threads_trace_branches_at_the_same_time() -> None:
    wrong: list[Any] = []

    def work(stack: Any, k: float) -> None:
        try:
            for _ in range(8):
                found = stack.grad(lambda x: stack.cond(x > 2, lambda: x**3, lambda: stack.ops.exp(x)))(k)
                if abs(found.item() - (3 * k**2 if k > 2 else np.exp(k))) > 1e-9:
                    wrong.append(found)
                if (stack.asarray(k) * 2).item() != 2 * k:
                    wrong.append(k)
        except Exception as error:  # what a thread raises is seen by nobody else
            wrong.append(error)

    threads = [threading.Thread(target=work, args=((EAGER, LAZY)[k % 2], k + 0.5)) for k in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@every
def test_operands_that_are_all_numbers_are_no_list_of_numbers(stack: Any) -> None:
    one, other = stack.cond(True, lambda i, x: (i, x), lambda i, x: (i * 2, x), 3, 2.5)
    assert (one.dtype.name, one.item(), other.item()) == ("int64", 3, 2.5)
    assert stack.map(lambda row: row.sum(), [[1.0, 2.0], [3.0, 4.0]], batch=2).numpy().tolist() == [3.0, 7.0]
