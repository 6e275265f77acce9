"""Functions of the host decide loops and branches (`control_flow/host`, `graph/ops/silent_bodies`).

What is called, how often, and in which order is that of the loop written in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import (
    BatchingError,
    DTypeError,
    GraphError,
    OnnxError,
    OperatorError,
    RunError,
    ShapeError,
    TracingError,
)

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
HOW: tuple[dict[str, Any], ...] = (
    {}, {"max_iterations": 9}, {"max_iterations": 9, "checkpoint": "sqrt"}, {"max_iterations": 9, "checkpoint": 2},
    {"max_iterations": 9, "checkpoint": "budget:1kB"}, {"checkpoint": 3},
)  # fmt: skip


class Asked:
    """A predicate that notes what it was asked about."""

    def __init__(self, decide: Callable[..., Any]) -> None:
        self.decide, self.about = decide, list[Any]()

    def __call__(self, x: Any) -> Any:
        assert isinstance(x, np.ndarray)
        assert not x.flags.writeable
        self.about.append(x.tolist())
        return self.decide(x)

    def while_it(self, f: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """What a function gives, and what is asked meanwhile."""
        self.about.clear()
        return f(), [*self.about]


def below(limit: float) -> Asked:
    return Asked(lambda x: bool(np.max(x) < limit))


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> bool:
        return True


# --- while loops -------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("how", HOW)
def test_asked_once_before_and_once_after_each_time(stack: Any, how: Any) -> None:
    """Values, gradients of first order, and tangents ask no more often than the value alone."""
    small = below(10)

    def powers(a: Any) -> Any:
        outs, (x,), times = stack.while_loop(nnc.host(small), lambda x: (x, (x * a,)), (a,), **how)
        return outs.sum() + x + 0 * times

    about = [2.0, 4.0, 8.0, 16.0]
    assert small.while_it(lambda: powers(stack.asarray(2.0)).item()) == (2 + 4 + 8 + 16, about)
    slope = 1 + 4 + 12 + 32
    transformed = {"grad": lambda: stack.grad(powers)(2.0).item()}
    transformed["jvp"] = lambda: stack.jvp(powers, (2.0,), (1.0,))[1].item()
    if "max_iterations" in how:
        jitted = stack.jit(stack.grad(powers))
        transformed |= {"jit": lambda: jitted(2.0).item(), "jit again": lambda: jitted(2.0).item()}
        jitted_value = stack.jit(powers)
        assert small.while_it(lambda: jitted_value(2.0).item()) == (30, about)
    for name, f in transformed.items():
        assert small.while_it(f) == (slope, about), name
    assert stack.hessian(powers)(2.0).item() == pytest.approx(0 + 2 + 12 + 48)


@every
def test_the_arrays_are_those_of_trees(stack: Any) -> None:
    def goes(state: Any) -> bool:
        assert state["x"].shape == (2,)
        return bool(state["i"] < 3)

    state = {"i": 0, "x": np.ones(2)}
    found = stack.while_loop(nnc.host(goes), lambda s: (None, {"i": s["i"] + 1, "x": s["x"] * 2}), state)[1]
    assert found["i"].item() == 3
    np.testing.assert_array_equal(found["x"].numpy(), [8, 8])


@every
def test_a_predicate_of_nothing(stack: Any) -> None:
    """It is part of no tensor, and is asked each time all the same: nothing is evaluated, merged or moved out."""
    left = [True, True, True, False] * 2
    goes = nnc.host(lambda: left.pop(0))
    assert stack.while_loop(goes, lambda: (None, ()), ())[2].item() == 3
    jitted = stack.jit(lambda: stack.while_loop(goes, lambda: (None, ()), ())[2])
    assert jitted().item() == 3
    assert left == []
    answers = [1, 0]
    asked = nnc.host(lambda x: bool(answers.pop(0)))
    both = stack.jit(lambda x: asked(x).astype("int64") * 10 + asked(x))  # equal, and not the same
    assert both(stack.asarray(1.0)).item() == 10


@every
def test_in_the_order_of_effects(stack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def asked(x: Any) -> bool:
        print("asked", x)
        return bool(x < 3)

    def f(x: Any) -> Any:
        def body(x: Any) -> Any:
            stack.ops.print(x, text="body")
            return x, (x + 1,)

        outs, (x,), _ = stack.while_loop(nnc.host(asked), body, (x,), 9)
        stack.ops.print(x, text="after")
        return outs.sum()

    lines = ["asked 1.0", "body 1.0", "asked 2.0", "body 2.0", "asked 3.0", "after 3.0"]
    for g in (f, stack.jit(f), stack.grad(f)):
        capsys.readouterr()
        g(stack.asarray(1.0)).numpy()
        assert capsys.readouterr().out.splitlines() == lines


@every
def test_rows_that_are_counted_first_are_asked_for_once(stack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    small = below(3)

    def body(x: Any) -> Any:
        stack.ops.print(x)
        return x, (x + 1,)

    (outs, _, _), about = small.while_it(lambda: stack.while_loop(nnc.host(small), body, (0.0,), exact=True))
    assert (outs.numpy().tolist(), about) == ([0, 1, 2], [0, 1, 2, 3])
    assert capsys.readouterr().out.splitlines() == ["0.0", "1.0", "2.0"]


@every
def test_at_the_limit(stack: Any) -> None:
    small = nnc.host(below(1e9))
    assert stack.while_loop(small, lambda x: (None, (x + 1,)), (0,), 5)[2].item() == 5
    for how in ({}, {"exact": True}):
        with pytest.raises(RunError, match=r"the condition still holds after max_iterations=5"):
            stack.while_loop(small, lambda x: (x, (x + 1,)), (0,), 5, on_limit="raise", **how)


@every
def test_loops_within_loops(stack: Any) -> None:
    """Of both, and gradients, through the row of an outer loop."""
    inner, outer = below(4), below(20)

    def f(a: Any) -> Any:
        def body(x: Any) -> Any:
            (y,) = stack.while_loop(nnc.host(inner), lambda y: (None, (y * a,)), (x / x,), 9)[1]
            return None, (x + y,)

        return stack.while_loop(nnc.host(outer), body, (a,), 9)[1][0]

    def plain(a: float) -> float:
        x = a
        while x < 20:
            y = x / x
            while y < 4:
                y = y * a
            x = x + y
        return x

    step = 1e-6
    slope = (plain(3 + step) - plain(3 - step)) / (2 * step)
    for g in (f, stack.jit(f)):
        assert g(stack.asarray(3.0)).item() == plain(3.0)
    for h in (stack.grad(f), stack.jit(stack.grad(f))):
        assert h(3.0).item() == pytest.approx(slope, rel=1e-7)


@every
def test_segments_of_a_loop_that_asks(stack: Any) -> None:
    """Of effects in segments the last application is one that puts rows together."""

    def f(xs: Any) -> Any:
        def body(x: Any, c: Any) -> Any:
            (y,) = stack.while_loop(nnc.host(below(4)), lambda y: (None, (y * 1.5,)), (x * c,), 9)[1]
            return y, c + y

        rows, last = stack.foreach(body, xs, 1.0, checkpoint="sqrt")
        return (rows * rows).sum() + last

    def plain(xs: np.ndarray) -> float:
        c, total = 1.0, 0.0
        for x in xs:
            y = x * c
            while y < 4:
                y *= 1.5
            total, c = total + y * y, c + y
        return total + c

    xs, step = np.array([0.7, 0.9, 1.3, 2.0]), 1e-6 * np.eye(4)
    slope = [(plain(xs + each) - plain(xs - each)) / 2e-6 for each in step]
    np.testing.assert_allclose(stack.grad(f)(xs).numpy(), slope, rtol=1e-6)


@every
def test_nothing_is_asked_while_a_function_is_traced(stack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even of what is known then; how many rows there are is known if a function of tensors decides."""
    small = below(10)

    def rows(condition: Any) -> Any:
        def f() -> Any:
            stack.ops.print(stack.asarray(0.5))
            return stack.while_loop(condition, lambda x: (x, (x * 2,)), (1.0,))[0]

        return stack.jit(f)

    assert small.while_it(lambda: _refused(rows(nnc.host(small)))) == (True, [])
    assert rows(lambda x: x < 10)().numpy().tolist() == [1, 2, 4, 8]
    assert capsys.readouterr().out.splitlines() == ["0.5"]


def _refused(f: Callable[[], Any]) -> bool:
    with pytest.raises(TracingError, match=r"is asked of a host predicate while the program runs, .* max_iterations="):
        f()
    return True


@every
def test_converted_statements(stack: Any) -> None:
    small = below(3)
    goes = nnc.host(small)

    @stack.jit(control_flow=True)
    def f(n: Any) -> Any:
        while goes(n):
            n = n + 1
        return n

    assert small.while_it(lambda: f(stack.asarray(1.0)).item()) == (3.0, [1, 2, 3])


# --- branches ----------------------------------------------------------------------------------------------------


@every
def test_branches(stack: Any) -> None:
    positive = nnc.host(lambda x, y: x.sum() + y > 0)
    number = nnc.host(lambda x: int(x.sum()))

    def chosen(x: Any, y: Any) -> Any:
        return stack.cond(positive, lambda x, y: x * 2 + y, lambda x, y: x * 3, x, y).sum()

    def which(x: Any) -> Any:
        return stack.case_of(number, [lambda x: x * 2, lambda x: x * 3], x, default=nnc.bypass).sum()

    for sign, factor in ((1.0, 2), (-1.0, 3)):
        x = sign * np.ones(2)
        for g in (stack.grad(chosen), stack.jit(stack.grad(chosen))):
            np.testing.assert_array_equal(g(x, 0.5).numpy(), [factor] * 2)
    for total, factor in ((0, 2), (1, 3), (2, 1), (-1, 1)):
        for g in (stack.grad(which), stack.jit(stack.grad(which))):
            np.testing.assert_array_equal(g(np.array([total, 0.0])).numpy(), [factor] * 2)
    with pytest.raises(RunError, match="index 5 chooses none of 1 branches"):
        stack.case_of(nnc.host(lambda: 5), [lambda: 1.0]).item()


@every
def test_a_branch_in_a_loop(stack: Any) -> None:
    large = Asked(lambda x: bool(x > 2))
    f = lambda xs: stack.map(lambda x: stack.cond(nnc.host(large), lambda x: x * x, lambda x: 5 * x, x), xs)  # noqa: E731
    xs = np.array([1.0, 3.0, 2.0])
    for g in (f, stack.jit(f)):
        found, about = large.while_it(lambda g=g: g(stack.asarray(xs)).numpy().tolist())
        assert (found, about) == ([5, 9, 10], [1, 3, 2])
    found, about = large.while_it(lambda: stack.grad(lambda xs: f(xs).sum())(xs).numpy().tolist())
    assert (found, about) == ([5, 6, 5], [1, 3, 2])


# --- exits -------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("how", [{}, {"exact": True}, {"endless": True}])
def test_exits(stack: Any, how: Any, capsys: pytest.CaptureFixture[str]) -> None:
    large = Asked(lambda mid: bool(mid > 5))
    xs = None if how.get("endless") else np.array([0.0, 1, 2, 3, 4])

    def f(start: Any) -> Any:
        def after(mid: Any, x: Any) -> Any:
            stack.ops.print(x)
            return mid, x

        return stack.loop_until(
            [lambda total, x: (total + x, total), nnc.host(large), after], start, xs, exact=how.get("exact", False)
        )

    found, about = large.while_it(lambda: f(1.0))
    assert about == [1, 2, 4, 7]
    assert [float(x) for x in capsys.readouterr().out.split()] == [0, 1, 2]
    assert (found.carry.item(), found.mids[0].item(), found.times.item(), found.exit.item()) == (4, 7, 3, 0)
    rows = [y.numpy().tolist() for y in found.outputs]
    assert rows == ([[1, 1, 2, 4], [0, 1, 2]] if how else [[1, 1, 2, 4, 0], [0, 1, 2, 0, 0]])
    squared = lambda a: (f(a).carry * a).sum()  # noqa: E731
    assert large.while_it(lambda: stack.grad(squared)(1.0).item()) == (5.0, about)


# --- programs ----------------------------------------------------------------------------------------------------


def _compiled(goes: Any, **how: Any) -> tuple[Any, Any]:
    x = LAZY.input("x", (), "float64")
    y = LAZY.while_loop(nnc.host(goes), lambda x: (None, (x * 2,)), (x,), **how)[1][0]
    return x, y


def test_compiled() -> None:
    """The loop belongs to whoever wants its results: no token is to be given."""
    small = below(10)
    x, y = _compiled(small)
    program = LAZY.compile([x], y)
    for start, wanted in ((1.0, [1, 2, 4, 8, 16]), (6.0, [6, 12]), (11.0, [11])):
        assert small.while_it(lambda start=start: float(program(start))) == (wanted[-1], wanted)
    slope = LAZY.compile(
        [x], LAZY.grad(lambda x: LAZY.while_loop(nnc.host(small), lambda x: (None, (x * 2,)), (x,))[1][0])(x)
    )
    assert small.while_it(lambda: float(slope(6.0))) == (2.0, [6, 12])


def test_files_and_other_programs_have_none(tmp_path: Any) -> None:
    x, y = _compiled(below(10))
    program = LAZY.compile([x], y)
    refusal = r"callback \(test_host_predicates.py.*host\(.*function of this process.*operators of the stack"
    with pytest.raises(GraphError, match=refusal):
        program.save(tmp_path / "program")
    with pytest.raises(OnnxError, match=r"calls a function of the host .*test_host_predicates.py.*host predicate"):
        LAZY.graph.close([x.value], [y.value]).to_onnx()
    direct = nnc.host(below(10))(x)
    with pytest.raises(OnnxError, match=r"calls a function of the host .*host predicate"):
        LAZY.graph.close([x.value], [direct.value]).to_onnx()


# --- what fails, and what is refused -----------------------------------------------------------------------------


@every
def test_what_it_raises_names_the_time(stack: Any) -> None:
    def fails(x: Any) -> bool:
        if x > 3:
            raise KeyError("no such thing")
        return True

    def f(x: Any) -> Any:
        return stack.while_loop(nnc.host(fails), lambda x: (None, (x + 1,)), (x,), 9)[1][0]

    told = r"host predicate \(host of fails at .*\) raised KeyError: 'no such thing' in time 2 of the loop"
    for g in (f, stack.jit(f), stack.grad(f)):
        with pytest.raises(RunError, match=told) as found:
            g(stack.asarray(1.0)).item()
        causes, error = list[type](), found.value
        while error is not None:
            causes.append(type(error))
            error = error.__cause__
        assert KeyError in causes


ANSWERS = (
    (lambda x: None, OperatorError, r"returns one truth value, given None: is there a return\?"),
    (lambda x: np.array([True, False]), ShapeError, r"given an array of shape \(2,\); take all\(\) or any\(\)"),
    (lambda x: 0.5, DTypeError, r"given float64; compare it with something"),
    (lambda x: "yes", OperatorError, "given a str"),
    (lambda x: (True,), OperatorError, "given a tuple of 1"),
    (lambda x: object(), OperatorError, "given a object"),
)


@every
@pytest.mark.parametrize(("answer", "kind", "told"), ANSWERS)
def test_answers_that_decide_nothing(stack: Any, answer: Any, kind: Any, told: str) -> None:
    def f(x: Any) -> Any:
        return stack.while_loop(nnc.host(answer), lambda x: (None, (x + 1,)), (x,), 9)[1][0]

    where = r"host predicate \(host of <lambda> at test_host_predicates.py:\d+\) "
    for g in (f, stack.jit(f)):
        with pytest.raises(kind, match=where + ".*" + told):
            g(stack.asarray(1.0)).item()
    later = [True, True, answer]  # in the loop, too
    with pytest.raises(kind, match=told + ".* in time 1 of the loop"):
        stack.jit(
            lambda x: stack.while_loop(nnc.host(lambda x: _next(later, x)), lambda x: (None, (x + 1,)), (x,))[1][0]
        )(1.0).item()
    with pytest.raises(DTypeError, match=r"returns one integer, given float64; round it"):
        stack.case_of(nnc.host(lambda x: 1.0), [lambda x: x], 1.0).item()
    for answer in (2**70, np.uint64(2**64 - 1)):
        with pytest.raises(DTypeError, match=rf"returns one integer of 64 bits, given {answer}"):
            stack.case_of(nnc.host(lambda x, a=answer: a), [lambda x: x], 1.0, default=nnc.bypass).item()
        assert stack.cond(nnc.host(lambda x, a=answer: a), lambda x: x, lambda x: -x, 1.0).item() == 1


def _next(answers: list[Any], x: Any) -> Any:
    found = answers.pop(0)
    return found(x) if callable(found) else found


@every
def test_what_is_refused(stack: Any) -> None:
    x = stack.asarray(1.0)
    with pytest.raises(OperatorError, match="host wants a function of NumPy arrays, given a int"):
        nnc.host(3)  # type: ignore[arg-type]
    with pytest.raises(OperatorError, match="host wants a function that has a hash, given a Unhashable, which"):
        nnc.host(Unhashable())
    with pytest.raises(OperatorError, match=r"is called with tensors, given none"):
        nnc.host(lambda x: True)(1.0)
    with pytest.raises(OperatorError, match=r"the condition of while_loop is called with \(v0\), and takes \(x, y\)"):
        stack.while_loop(nnc.host(lambda x, y: True), lambda x: (None, (x,)), (x,))
    with pytest.raises(OperatorError, match=r"called with \(operand0\), and takes \(\)"):
        stack.cond(nnc.host(lambda: True), lambda x: x, lambda x: x, x)
    with pytest.raises(RunError, match="raised ValueError: assignment destination is read-only"):
        stack.cond(nnc.host(lambda x: x.fill(0)), lambda x: x, lambda x: x, np.ones(2)).numpy()
    once = r"host predicate \(host of .*\) is called once, and not for each row of a vmap: write it with operators"
    with pytest.raises(BatchingError, match=once):
        stack.vmap(lambda x: stack.while_loop(nnc.host(below(9)), lambda x: (None, (x + 1,)), (x,), 9)[1][0])(
            np.ones(3)
        )
    with pytest.raises(BatchingError, match=once):
        stack.vmap(lambda y: stack.while_loop(nnc.host(below(9)), lambda x: (None, (x + y,)), (0.0,), 9)[1][0])(
            np.ones(3)
        )

    def grown(x: Any) -> Any:
        return None, (stack.ops.concat(x, x[-1:], axis=0),)

    def halved(x: Any) -> Any:
        return stack.cond(nnc.host(lambda x: x < 2), lambda x: x / 2, lambda x: x, x)

    with pytest.raises(OperatorError, match="dynamic=True has an effect, or a host predicate"):
        stack.while_loop(nnc.host(lambda x: len(x) < 5), grown, (np.ones(2),), dynamic=True)
    with pytest.raises(GraphError, match=r"an effect, or a host predicate, stands in .* fixed_point, whose derivative"):
        stack.fixed_point(halved, 1.0)


def test_a_host_of_a_host_is_that_host() -> None:
    goes = nnc.host(bool)
    assert nnc.host(goes) is goes
    assert repr(goes) == "host(bool)"


# --- callbacks that are pure -------------------------------------------------------------------------------------


@every
def test_pure_callbacks_may_be_called_again(stack: Any) -> None:
    """Others are refused where they would be (see `test_effects_in_bodies`)."""

    def doubled(a: Any) -> Any:
        def body(a: Any) -> Any:
            (t,) = stack.ops.callback(
                stack.ops.stop_gradient(a), function=np.abs, shapes=((),), dtypes=("float64",), pure=True
            )
            return a, (a * t,)

        outs, (a,), _ = stack.while_loop(lambda a: a < 10, body, (a,))
        return outs.sum() + a

    assert doubled(2.0).item() == 2 + 4 + 16
    assert stack.grad(doubled)(2.0).item() == 1 + 2 + 8  # each factor counts as constant
