"""Print, check and callbacks happen once, in order, whichever stack runs (`engine/effects`, `graph/ops/effects`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import nn
from nnc_func.engine.planning.layout_pass import relaid
from nnc_func.errors import CheckError, DerivativeError, DTypeError, GraphError, OperatorError, RunError, ShapeError
from nnc_func.graph.text.files import load_graph
from nnc_func.graph.text.parsing import parsed
from nnc_func.testing.programs import INPUT, LARGEST, Program, programs

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {
    "eager": EAGER,
    "lazy": LAZY,
    "eager over lazy": EAGER.swap(device=LAZY),
    "lazy over lazy": LAZY.swap(device=LAZY),
    "lazy on strict": LAZY.swap(device=nnc.Strict()),
}
LINE = r"test_effects.py:\d+"


@pytest.fixture(params=STACKS)
def each(request: pytest.FixtureRequest) -> Any:
    """Every stack."""
    return STACKS[request.param]


def host(stack: Any, x: Any) -> Any:
    return stack.to_numpy(x)


# --- what happens, and when ----------------------------------------------------------------------------------


def told(stack: Any, x: Any) -> Any:
    stack.ops.print(x, text="x is {}")
    y = x * 2
    stack.ops.print(y, x, text="y {} of {}")
    stack.ops.print(y, x, text="y {} of {}")
    stack.ops.check(y.sum() < 100.0, y.sum(), text="too much: {:.1f}")
    stack.ops.print(text="the end")
    return y + 1


LINES = "x is [1. 2.]\ny [2. 4.] of [1. 2.]\ny [2. 4.] of [1. 2.]\nthe end\n"


def test_outside_of_a_trace_they_happen_at_once(each: Any, capsys: pytest.CaptureFixture[str]) -> None:
    y = told(each, each.asarray([1.0, 2.0]))
    assert capsys.readouterr().out == LINES
    assert host(each, y).tolist() == [3, 5]
    assert capsys.readouterr().out == ""


def test_what_happened_at_once_does_not_happen_again_when_its_variable_changes(each: Any) -> None:
    w, log = each.variable("w", np.zeros(2)), []
    (found,) = each.ops.callback(
        w, function=lambda a: log.append(a.tolist()) or a + 1, shapes=((2,),), dtypes=("float64",)
    )
    assert host(each, found).tolist() == [1, 1]
    w.value.assign(np.ones(2))
    assert host(each, found * 2).tolist() == [2, 2]
    assert log == [[0, 0]]


def test_a_jitted_function_has_them_at_each_call(each: Any, capsys: pytest.CaptureFixture[str]) -> None:
    f = each.jit(partial(told, each))
    for _ in range(3):
        assert host(each, f(np.array([1.0, 2.0]))).tolist() == [3, 5]
        assert capsys.readouterr().out == LINES
    with pytest.raises(CheckError, match=rf"check: too much: 122.0 \(built at {LINE}|too much: 122.0.*{LINE}"):
        host(each, f(np.array([60.0, 1.0])))
    assert host(each, f(np.array([1.0, 2.0]))).tolist() == [3, 5]


def test_a_jitted_function_in_another_has_them_at_each_call_too(each: Any, capsys: pytest.CaptureFixture[str]) -> None:
    inner = each.jit(lambda x: (each.ops.print(text="inner"), x + 1)[1])
    outer = each.jit(lambda x: inner(x) + inner(np.ones(1)))
    for _ in range(2):
        host(each, outer(np.ones(1)))
        assert capsys.readouterr().out == "inner\ninner\n"


def test_a_gradient_has_those_of_its_function_once(each: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        each.ops.print(x * x, text="square")
        each.ops.check(x > 0)
        return (x * x).sum()

    for g in (each.grad(f), each.jit(each.grad(f))):
        assert host(each, g(each.asarray([1.0, 2.0]))).tolist() == [2, 4]
        assert capsys.readouterr().out == "square [1. 4.]\n"
    assert host(each, each.jvp(f, (each.asarray([1.0]),), (each.asarray([1.0]),))[1]).item() == 2.0


def test_a_step_of_training_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    for stack in (EAGER, LAZY):

        def loss(outputs: Any, targets: Any, stack: Any = stack) -> Any:
            found = nn.quadratic(outputs, targets)
            stack.ops.print(found, text="loss {:.2f}")
            stack.ops.check(found < 50.0, text="diverged")
            return found

        step = nn.Step(stack, nn.Dense(1).init(0, (None, 2)), loss, nn.SGD())
        x, y = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")
        step(x, y, rate=0.1)
        step(x, y, rate=0.1)
        assert capsys.readouterr().out.count("loss ") == 2
        before = step.state
        with pytest.raises(CheckError, match=rf"diverged \(built at {LINE}"):
            step(x, y + 100, rate=0.1)
        np.testing.assert_array_equal(step.state.model.weight, before.model.weight)
        assert "loss" in capsys.readouterr().out


# --- graphs built by hand ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
def test_tokens_say_which_program_they_belong_to(stack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x = stack.input("x", ("n",), "float64")
    token = stack.ops.print(x, text="first", after=stack.token())
    token, doubled = stack.ops.callback(
        x, function=lambda a: 2 * a, shapes=(x.shape,), dtypes=("float64",), after=token
    )
    token = stack.ops.check(doubled < 10.0, doubled.sum(), text="sum {}", after=token)
    program = stack.compile([x], doubled + 1, effects=[token])
    assert capsys.readouterr().out == ""
    for rows in (1, 3, 1):
        assert program(np.ones(rows)).tolist() == [3.0] * rows
        assert capsys.readouterr().out == f"first {np.ones(rows)}\n"
    with pytest.raises(CheckError, match=rf"check: sum 24.0; it is false at \[0\], 2 of 2 elements \(built at {LINE}"):
        program(np.full(2, 6.0))


def test_what_would_be_lost_is_refused(each: Any) -> None:
    x = each.input("x", (2,), "float64")
    with pytest.raises(GraphError, match=rf"print depends on the input 'x' \(made at {LINE}.*lost.*stack.jit.*after=t"):
        each.ops.print(x)
    with pytest.raises(GraphError, match=r"is no token"):
        each.compile([x], x, effects=[x + 1])


def test_a_failed_check_leaves_variables_as_they_were() -> None:
    for stack in (EAGER, LAZY):
        w, x = stack.variable("w", np.zeros(2)), stack.input("x", (2,), "float64")
        token = stack.ops.check(x > 0, after=stack.token())
        program = stack.compile([x], x * 2, {w: w + x}, effects=[token])
        program(np.ones(2))
        with pytest.raises(CheckError):
            program(np.array([1.0, -1.0]))
        assert w.numpy().tolist() == [1, 1]
        program(np.ones(2))
        assert w.numpy().tolist() == [2, 2]


# --- callbacks -----------------------------------------------------------------------------------------------


def test_a_callback_cannot_touch_the_programs_memory(each: Any) -> None:
    kept = []

    def clobber(a: Any) -> Any:
        kept.append(a)
        a[...] = -1
        return a

    def f(x: Any) -> Any:
        y = each.ops.exp(x * 0)
        (z,) = each.ops.callback(y, function=clobber, shapes=(x.shape,), dtypes=("float64",))
        return y + z, x

    found, x = each.jit(f)(np.arange(3.0))
    assert host(each, found).tolist() == [0, 0, 0]
    assert host(each, x).tolist() == [0, 1, 2]
    kept[0][...] = 7
    assert host(each, found).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda a: 1 / 0, RunError, r"callback.*ZeroDivisionError: division by zero"),
        (lambda a: None, ShapeError, r"<lambda> returned None, callback expects 1 result of shape \(2,\)"),
        (lambda a: a[:1], ShapeError, r"returned an array of shape \(1,\) as result 0, callback expects \(2,\)"),
        (lambda a: a * 1j, DTypeError, r"returned complex128 as result 0, callback expects float64"),
    ],
)
@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
def test_what_a_callback_does_wrong_is_told(stack: Any, function: Any, error: Any, words: str) -> None:
    f = stack.jit(lambda x: stack.ops.callback(x, function=function, shapes=((2,),), dtypes=("float64",)))
    with pytest.raises(error, match=words):
        f(np.ones(2))


def test_after_a_callback_was_interrupted_the_program_runs() -> None:
    left = [1]

    def interrupt(a: Any) -> None:
        if left and left.pop():
            raise KeyboardInterrupt

    f = LAZY.jit(lambda x: (LAZY.ops.callback(x, function=interrupt), x + 1)[1])
    with pytest.raises(KeyboardInterrupt):
        f(np.ones(2))
    assert f(np.ones(2)).numpy().tolist() == [2, 2]


def test_a_callback_is_not_differentiated_in_silence(each: Any) -> None:
    def f(x: Any) -> Any:
        return each.ops.callback(x, function=lambda a: a, shapes=((2,),), dtypes=("float64",))[0].sum()

    with pytest.raises(DerivativeError, match=r"callback has no derivative"):
        each.grad(f)(each.asarray([1.0, 2.0]))
    g = each.grad(lambda x: f(each.ops.stop_gradient(x)) * x.sum())(each.asarray([1.0, 2.0]))
    assert host(each, g).tolist() == [3, 3]


@pytest.mark.parametrize("text", ["{} {}", "{0}", "{x}", "{"])
def test_a_text_that_does_not_fit_is_refused_when_it_is_written(each: Any, text: str) -> None:
    with pytest.raises(OperatorError, match=r"text="):
        each.ops.print(each.asarray(1.0), text=text)


# --- text and files ------------------------------------------------------------------------------------------


def test_graphs_with_effects_are_written_and_read(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x = LAZY.input("x", (2,), "float64")
    token = LAZY.ops.check(x > 0, text="no", after=LAZY.ops.print(x, text="in a file", after=LAZY.token()))
    program = LAZY.compile([x], x + 1, effects=[token])
    assert str(parsed(str(program.source), LAZY)) == str(program.source)
    program.source.save(tmp_path / "told.graph")
    read = LAZY.engine.compile(load_graph(tmp_path / "told.graph", LAZY, allow=("print", "check")))
    moved = EAGER.engine.compile(program.source.to(EAGER))
    for each in (read, moved):
        each(np.ones(2))
        assert capsys.readouterr().out == "in a file [1. 1.]\n"
        with pytest.raises(CheckError, match="no"):
            each(np.zeros(2))
        assert capsys.readouterr().out == "in a file [0. 0.]\n"
    program.plan.verify()


def test_a_function_is_no_data(tmp_path: Any) -> None:
    x = LAZY.input("x", (2,), "float64")
    token, *_ = LAZY.ops.callback(x, function=print, after=LAZY.token())
    with pytest.raises(GraphError, match=rf"callback \({LINE}.*function.*cannot be written as text"):
        LAZY.compile([x], x, effects=[token]).source.save(tmp_path / "no.graph")


# --- random programs -----------------------------------------------------------------------------------------


def watched(found: Program, stack: Any, places: dict[int, int], log: list[Any], feeds: Any) -> list[Any]:
    """The program's outputs on a stack; before some steps a callback logs a value: twice, so that effects are equal."""
    given = iter(feeds)
    values = [next(given) if n.kind == INPUT else stack.asarray(n.value()) for n in found.leaves]

    def log_it(at: int) -> None:
        for _ in range(2):
            stack.ops.callback(values[places[at] % len(values)], function=partial(_logged, log, at))

    for at, step in enumerate(found.steps):
        if at in places and values:  # a program may begin with a constant
            log_it(at)
        results = stack.bind(step.op, *(values[a] for a in step.args), **step.params)
        values += results if step.op.multi_result else [results]
    log_it(len(found.steps))
    return [values[o] for o in found.outputs]


def _logged(log: list[Any], at: int, value: Any) -> None:
    log.append((at, value))


@given(programs(), st.dictionaries(st.integers(0, 11), st.integers(0, 30), max_size=5), st.integers(0, 30))
def test_the_sequence_of_effects_is_the_same_on_every_stack(found: Program, places: Any, last: int) -> None:
    places = places | {len(found.steps): last}
    assume(found.run_numpy(found.feeds(), [v.value() for v in found.variables])[2] <= LARGEST)
    wanted: list[Any] = []
    watched(found, EAGER, places, wanted, map(EAGER.asarray, found.feeds()))
    assert wanted
    for name in ("lazy", "eager", "eager over lazy"):
        stack, log = STACKS[name], []
        f = stack.jit(lambda *feeds, stack=stack, log=log: watched(found, stack, places, log, feeds))
        for _ in range(2):
            log.clear()
            stack.evaluate(*f(*found.feeds()))
            assert [at for at, _ in log] == [at for at, _ in wanted], name
            for (_, a), (_, b) in zip(log, wanted, strict=True):
                assert a.shape == b.shape
                tolerance = 1e3 * max(found.epsilon(), 1e-12) * (1 + np.abs(b[np.isfinite(b)]).max(initial=0))
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=tolerance, err_msg=name)


def test_null_counts_effects_and_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    null = nnc.Null()
    stack = nnc.lazy(null)
    f = stack.jit(lambda x: (stack.ops.print(x), stack.ops.print(x), x + 1)[2])
    f(null.empty((2,), "float32"))
    assert null.counts.by_operator["print"] == 2
    assert capsys.readouterr().out == ""


def test_a_program_with_effects_keeps_nothing(each: Any) -> None:
    x = each.input("x", (2,), "float64")
    token = each.ops.print(x, after=each.token())
    with pytest.raises(GraphError, match=r"effects happen at each call.*retain='none'"):
        each.compile([x], x + 1, retain="all", effects=[token])


def test_effects_happen_once_where_their_operands_get_another_layout() -> None:
    x, w = LAZY.input("x", (1, 4, 4, 2), "float64"), LAZY.asarray(np.ones((3, 3, 2, 2)))
    log: list[Any] = []
    y = LAZY.ops.conv2d(x, w)
    token, z = LAZY.ops.callback(y, function=lambda a: log.append(a) or a, shapes=(y.shape,), dtypes=("float64",),
                                 after=LAZY.token())  # fmt: skip
    graph = LAZY.compile([x], z + 1, effects=[token]).graph

    class Table:
        entries = (type("Entry", (), {"layouts": True}),)

        def layouts(self, op: Any, items: Any, avals: Any) -> Any:
            return ((0, 3, 1, 2), (0, 1, 2, 3)) if op.name == "conv2d" else ()

    table: Any = Table()
    moved = relaid(graph, table)
    assert [n.op.name for n in moved.nodes].count("callback") == 1
    LAZY.engine.program(moved, graph, None, 0.0)(np.ones((1, 4, 4, 2)))
    assert len(log) == 1


def test_a_token_before_all_effects_is_refused(each: Any) -> None:
    """What was written after it would compile, and never happen.

    The first token is one node for all: the line that made it may be another program's, so none is named.
    """
    x, start = each.input("x", (2,), "float64"), each.token()
    after = each.ops.print(x, text="x is", after=start)
    with pytest.raises(GraphError, match="a token that comes before all effects, so that none"):
        each.compile([x], x + 1, effects=[start])
    each.compile([x], x + 1, effects=[after])
