"""What a user writes by mistake works, or is refused in words, and is never lost or wrong (`nnc_func`)."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import (
    AllocationError,
    DerivativeError,
    DeviceError,
    DTypeError,
    FileFormatError,
    GraphError,
    IndexingError,
    NncError,
    OperatorError,
    PlanError,
    ShapeError,
    TracingError,
)

LAZY = nnc.lazy()
BOTH = pytest.mark.parametrize("stack", [nnc.eager(), LAZY], ids=["eager", "lazy"])
ONES = np.ones(2, "float32")


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
def test_nests_are_of_lists_and_arrays(make: Any) -> None:
    stack = make()
    x = stack.asarray([1.0, 2.0])
    for widths in (np.array([[1, 0]]), [np.array([1, 0])], ((1, 0),)):
        assert stack.ops.pad(x, widths=widths).numpy().tolist() == [0.0, 1.0, 2.0]
    endless: list[Any] = []
    endless.append(endless)
    longer: list[Any] = [1]
    longer.append(longer)
    for given in ({"before": 1}, [{1}], endless, longer):
        with pytest.raises(OperatorError, match=r"pad: widths=.* is not usable: "):
            stack.ops.pad(x, widths=given)
    for given in (longer, [[0], [0, 1]]):
        with pytest.raises(IndexingError, match="rows of one length, given"):
            x[given]
    with pytest.raises(ShapeError, match=r"wants a pair of whole widths .* given"):
        stack.ops.pad(x, widths=[[1.5, 2]]).numpy()


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
def test_bounds_parts_and_orders_are_numbers(make: Any) -> None:
    stack = make()
    x = stack.asarray([1.0, 2.0])
    for key in (slice(0.0, 1.0), slice("a", "b")):
        with pytest.raises(IndexingError, match="a slice is made of whole numbers, given"):
            x[key]
    for sections in ([None], ["a"], [[1], [1, 2]]):
        with pytest.raises(ShapeError, match="parts of an axis are whole numbers, given"):
            stack.ops.split(x, sections=sections)
    assert np.isfinite(stack.ops.polygamma(x, order=160).numpy()).all()
    with pytest.raises(DTypeError, match="polygamma has orders to 160, given order=1180591620717411303424"):
        stack.ops.polygamma(x, order=2**70)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(DeviceError, match="cannot make an array of a list"):
        stack.asarray(endless)


@BOTH
@pytest.mark.parametrize("argnums", [1, -2, "x", 0.0, (0, 3), (0, 0), (0, -1)])
def test_argnums_are_numbers_of_arguments(stack: nnc.Stack, argnums: Any) -> None:
    with pytest.raises(DerivativeError, match="argnums"):
        stack.grad(lambda x: (x * x).sum(), argnums=argnums)(ONES)


@BOTH
def test_argnums_may_count_from_the_end(stack: nnc.Stack) -> None:
    found = stack.grad(lambda x, y: (x * y).sum(), argnums=(np.int64(0), -1))(ONES, 2 * ONES)
    assert [g.numpy().tolist() for g in found] == [[2, 2], [1, 1]]


@BOTH
def test_reductions_of_numpy_work_or_are_refused_in_words(stack: nnc.Stack) -> None:
    x = stack.asarray(np.float32([[1, 2], [3, 5]]))
    assert np.sum(x).item() == 11
    assert np.mean(x, axis=0).numpy().tolist() == [2, 3.5]
    assert np.max(x, axis=1, keepdims=True).numpy().tolist() == [[2], [5]]
    assert np.min(x).item() == 1
    assert np.sum(x, dtype="float64").dtype == np.float64
    with pytest.raises(OperatorError, match=r"numpy\.sum does not work on tensors with initial"):
        np.sum(x, initial=1)
    assert x.sum(dtype="float64").dtype == np.float64
    with pytest.raises(OperatorError, match=r"numpy\.sum does not work on tensors with initial"):
        x.sum(initial=1)
    with pytest.raises(TypeError, match="axes"):
        x.max(axes=0)


@BOTH
def test_booleans_have_pythons_operators(stack: nnc.Stack) -> None:
    given = np.array([False, False, True, True]), np.array([False, True, False, True])
    a, b = map(stack.asarray, given)
    for found, wanted in [
        (a & b, given[0] & given[1]), (a | b, given[0] | given[1]), (a ^ b, given[0] ^ given[1]), (~a, ~given[0]),
        (True & b, given[1]), (True | b, True | given[1]), (True ^ b, ~given[1]), (given[0] & b, given[0] & given[1]),
    ]:  # fmt: skip
        assert found.numpy().tolist() == wanted.tolist()
    with pytest.raises(DTypeError, match="wanted booleans, given float"):
        stack.asarray([1.0, 2.0]) & stack.asarray([3.0, 4.0])


def test_graphs_plans_and_programs_say_how_they_are_kept() -> None:
    x = LAZY.input("x", (2,))
    program = LAZY.compile([x], x * 2)
    retaining = LAZY.compile([x], x * 2, retain="all")
    unknown = LAZY.input("n", ("n",))
    for thing, told in [
        (x, "graph.save"), (program.graph, "graph.save"), (program, "program.save"), (retaining, "program.save"),
        (LAZY.compile([unknown], unknown * 2), "program.save"), (program.plan, "Plan.parse"),
    ]:  # fmt: skip
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            if thing is x and attempt is not pickle.dumps:
                continue  # a second handle of the same node is well
            with pytest.raises(GraphError, match=told):
                attempt(thing)


@BOTH
def test_jit_names_the_line_that_wanted_a_value(stack: nnc.Stack) -> None:
    def chosen(x: Any) -> Any:
        if x > 0:
            return x
        return -x

    line = chosen.__code__.co_firstlineno + 1
    with pytest.raises(TracingError, match=f"test_misuse.py:{line} in chosen, and .*static="):
        stack.jit(chosen)(np.float32(1))


def test_one_static_argument_needs_no_tuple() -> None:
    def power(x: Any, times: int) -> Any:
        return x * times if times > 1 else x

    for static in ("times", 1, ("times",), (1,)):
        assert LAZY.jit(power, static=static)(ONES, 3).numpy().tolist() == [3, 3]


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0]])
def test_class_numbers_of_no_class_are_refused_where_they_are_known(labels: list[int]) -> None:
    logits = nnc.eager().asarray(np.zeros((2, 3), "float32"))
    for loss in (nn.softmax_cross_entropy, nn.accuracy):
        with pytest.raises(ShapeError, match="class numbers of 3 classes are 0 to 2, given"):
            loss(logits, nnc.eager().asarray(labels))


@pytest.mark.parametrize("update", [nn.Adam, "adam", None])
def test_training_wants_an_update(update: Any) -> None:
    model = nn.Dense(1).init(0, (None, 2))
    with pytest.raises(OperatorError, match=r"an update is wanted, such as nn.Adam\(\)"):
        nn.train(LAZY, model, nn.quadratic, update, [(np.ones((1, 2)), np.ones((1, 1)))], rate=0.1, progress=False)


def test_training_wants_a_model_not_its_class() -> None:
    with pytest.raises(OperatorError, match="a model is wanted"):
        nn.train(LAZY, nn.Dense, nn.quadratic, nn.SGD(), [], rate=0.1, progress=False)


@BOTH
def test_one_token_in_the_place_of_a_list_is_not_lost(stack: nnc.Stack) -> None:
    x = stack.input("x", (2,))
    token = stack.ops.print(x, after=stack.token())
    for given in ({"effects": token}, {"donate": x}):
        with pytest.raises(GraphError, match="put it into brackets"):
            stack.compile([x], x * 2, **given)
    with pytest.raises(GraphError, match="put it into brackets"):
        stack.compile(x, x * 2)


def test_results_are_not_written_over_each_other() -> None:
    x = LAZY.input("x", (2,))
    program = LAZY.compile([x], [x * 2, x + 1])
    memory = np.empty(3, "float32")
    for out in ([memory[:2], memory[:2]], [memory[:2], memory[1:]]):
        with pytest.raises(OperatorError, match=r"out\[1\] shares memory with out\[0\]"):
            program(ONES, out=out)
    whole = np.empty(4, "float32")
    program(ONES, out=[whole[::2], whole[1::2]])
    assert whole.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("given", ["text", 12, LAZY, None])
def test_a_plan_is_wanted(given: Any) -> None:
    with pytest.raises(PlanError, match="a plan is wanted"):
        LAZY.program(given)
    with pytest.raises(NncError):
        nnc.Plan.parse(given)


def test_a_part_of_another_rank_is_refused() -> None:
    x = LAZY.input("x", (8, 8))
    joined = LAZY.ops.concat(LAZY.ops.exp(x), LAZY.ops.tanh(x).sum(axis=0, keepdims=True), axis=0)
    text = str(LAZY.compile([x], joined).plan)
    assert text.count(": float32[1, 8]") == 1
    with pytest.raises(PlanError, match="differ elsewhere than along axis 0, so they do not join"):
        nnc.Plan.parse(text.replace(": float32[1, 8]", ": float32[8]")).verify()


def test_a_program_that_spans_places_is_saved_and_loaded(tmp_path: Path) -> None:
    two = nnc.lazy(nnc.Places(one=nnc.NumPy(), other=nnc.NumPy()))
    here, there = two.input("here", (2,)), two.input("there", (2,), place="other")
    program = two.compile([here, there], two.ops.exp(two.ops.transfer(here, place="other")) * there)
    path = tmp_path / "two.nnc"
    program.save(path)
    again = nnc.load_program(path, two)
    assert two.device.to_numpy(again(ONES, ONES)).tolist() == two.device.to_numpy(program(ONES, ONES)).tolist()
    for stack in (LAZY, nnc.lazy(nnc.Places(one=nnc.NumPy(), third=nnc.NumPy()))):
        with pytest.raises(FileFormatError, match="place 'other'"):
            nnc.load_program(path, stack)


def test_shapes_are_learned_from_a_mapping_to_tuples() -> None:
    x = LAZY.input("x", ("n",))
    graph = LAZY.compile([x], x * 2).graph
    with pytest.raises(GraphError, match="names of inputs to shapes"):
        graph.with_shapes([(3,)])  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="is a tuple, given 3"):
        graph.with_shapes({"x": 3})


def test_nothing_is_told_of_what_has_no_elements() -> None:
    null = nnc.lazy(nnc.Null())
    x = null.input("x", (2,))
    program = null.compile([x], null.ops.log(x))
    for look in (program.statistics, program.first_nonfinite):
        with pytest.raises(DeviceError, match="no elements"):
            look(ONES)


@BOTH
@pytest.mark.parametrize("function", [None, "print"])
def test_a_callback_is_a_function(stack: nnc.Stack, function: Any) -> None:
    with pytest.raises(OperatorError, match=r"wanted a function|wants a function"):
        stack.ops.callback(ONES, function=function)


def test_more_than_can_be_addressed_cannot_be_had() -> None:
    with pytest.raises(AllocationError, match="more than can be addressed"):
        LAZY.ops.full(shape=(2**62, 2**10), value=1, dtype="float32").numpy()


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
def test_arrays_have_as_many_axes_as_numpy_gives_them(make: Any) -> None:
    stack, most = make(), (1,) * 64
    assert stack.ops.reshape(ONES[:1], shape=most).numpy().shape == most
    for wide in (
        lambda: stack.ops.reshape(ONES[:1], shape=(*most, 1)),
        lambda: stack.asarray(np.ones(most))[None, None],
    ):
        with pytest.raises(NncError, match="64"):
            wide().numpy()


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
def test_an_index_that_is_too_deep_is_refused(make: Any) -> None:
    nest: Any = 0
    for _ in range(5000):
        nest = [nest]
    with pytest.raises(IndexingError, match="a list as an index has rows of one length, given "):
        make().asarray(ONES)[nest]


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
def test_a_call_that_is_refused_changes_no_other(make: Any) -> None:
    """Found from outside: parameters that equal others had taken their place in a memo, and stayed there."""
    stack, x = make(), np.ones((3, 4))
    for _ in range(2):
        with pytest.raises(OperatorError, match=r"sections=\(Fraction\(1, 1\), 2\) .*Fraction.*test_misuse"):
            stack.ops.split(x, sections=(Fraction(1), 2))
        with pytest.raises(OperatorError, match=r"Fraction.*test_misuse"):
            stack.ops.pad(x, widths=((Fraction(1), 0), (0, 0)))
        assert [each.shape for each in stack.ops.split(x, sections=(1, np.int8(2)))] == [(1, 4), (2, 4)]


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
@pytest.mark.parametrize("bound", [int, np.array([]), np.array("1"), np.ma.masked, np.array(1, object), "1", 1.0])
def test_bounds_of_slices_are_whole_numbers(make: Any, bound: Any) -> None:
    with pytest.raises(IndexingError, match=r"a slice is made of whole numbers.*test_misuse"):
        make().asarray(ONES)[bound:]


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
def test_lists_that_contain_themselves_are_refused(make: Any) -> None:
    """Derivatives never returned."""
    stack, endless, nothing = make(), [1.0], []
    endless.append(endless)
    nothing.append(nothing)
    for each in endless, nothing:
        for call in (
            lambda x: stack.grad(lambda y: y)(x), lambda x: stack.hessian(lambda y: y)(x),
            lambda x: stack.jvp(lambda y: y, (x,), (x,)), lambda x: stack.vjp(lambda y: y, ONES)[1](x),
            lambda x: stack.scan(lambda c, y: (c, y), ONES, x),
            lambda x: stack.cond(np.array(True), lambda _: x, lambda _: x, ONES),
        ):  # fmt: skip
            with pytest.raises(NncError):
                call(each)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
def test_keys_counts_and_classes_are_whole_numbers(make: Any) -> None:
    stack = make()
    with pytest.raises(OperatorError, match=r"a key is made of an integer, given 1j .*test_misuse"):
        stack.key(1j)
    with pytest.raises(NncError, match="timedelta"):
        stack.fori(0, np.timedelta64(1, "D"), lambda i, c: c, ONES)
    with pytest.raises(AllocationError, match="can be addressed"):
        stack.ops.one_hot([0, 1], depth=2**63).numpy()
    with pytest.raises(NncError, match=r"longer than can be addressed|exceeded"):
        stack.ops.reshape(np.zeros((0, 3)), shape=(2**63, 0)).numpy()
    with pytest.raises(DeviceError, match=r"numbers and booleans.*test_misuse"):
        stack.ops.where(np.array("1"), ONES, 0.0)
    with pytest.raises(NncError, match=r"test_misuse"):
        stack.gradients(np.array(1.0), [])
