"""Values in several places give what they give in one, on each device (`device/places`, `facets/places`)."""

from __future__ import annotations

import copy
import pickle
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given

import nnc_func as nnc
from nnc_func.engine.plan import Plan
from nnc_func.errors import DeviceError, GraphError, LayerError, PlaceError, PlanError
from nnc_func.graph.text.parsing import parsed
from nnc_func.graph.text.writing import large_constants, printed
from nnc_func.layer_protocols import DeviceSignature, PlannedDeviceSignature
from nnc_func.testing.program import PLACES, Program
from tests.conversions import spread

TWO = nnc.Places(one=nnc.NumPy(), two=nnc.NumPy())
PLANNED = nnc.Places(one=nnc.Null(), two=nnc.Null())
PRETENDED = nnc.Places(one=nnc.Strict(), two=nnc.Strict("device1"))
DEVICES = {"numpy": TWO, "null": PLANNED, "strict": PRETENDED}
LAZY, EAGER = nnc.lazy(TWO), nnc.eager(TWO)
STACKS = {
    "lazy": LAZY,
    "eager": EAGER,
    "eager over lazy": nnc.eager(LAZY),
    "two streams": LAZY.swap(engine=LAZY.engine.with_streams(2)),
}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
each_device = pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)


# --- what is refused -------------------------------------------------------------------------------------


@each_stack
@each_device
def test_operands_in_different_places_are_refused(stack: Any, device: Any) -> None:
    on = stack.swap(device=device)
    x, y = on.asarray([1.0, 2.0]), on.asarray([1.0, 2.0], place="two")
    words = r"add\(float64\[2\], float64\[2\] on two\).*the device's own place, place 'two'.*transfer.*test_places.py"
    with pytest.raises(PlaceError, match=words):
        on.ops.add(x, y)
    with pytest.raises(PlaceError, match="different places"):
        on.input("x", (2,)) + on.input("y", (2,), place="two")
    assert on.aval(on.ops.add(on.ops.transfer(x, place="two"), y)) == nnc.Aval((2,), "float64", place="two")


@each_stack
def test_a_place_that_there_is_not_is_refused_with_those_that_there_are(stack: Any) -> None:
    words = "no place 'gpu': its places are 'one', 'two'"
    x = stack.asarray([1.0])
    for fails in (
        lambda: stack.ops.transfer(x, place="gpu"),
        lambda: stack.input("x", (2,), place="gpu"),
        lambda: stack.variable("w", [1.0], place="gpu"),
        lambda: stack.asarray([1.0], place="gpu"),
    ):
        with pytest.raises(PlaceError, match=words):
            fails()
    with pytest.raises(PlaceError, match="no place 'two': it has one place, its own, without a name; compose one"):
        nnc.lazy().ops.transfer(nnc.lazy().asarray([1.0]), place="two")


def test_a_graph_goes_only_to_where_its_places_are() -> None:
    x = LAZY.input("x", (2,), place="two")
    graph = LAZY.compile([x], [x * 2]).source
    with pytest.raises(PlaceError, match="no place 'two'"):
        graph.to(nnc.lazy())
    assert printed(graph.to(nnc.lazy(PLANNED))) == printed(graph)
    big = LAZY.ops.add(LAZY.asarray(np.ones(100), place="two"), x.astype("float64")[0])
    moved = LAZY.compile([x], [big]).source.to(nnc.eager(PRETENDED))
    assert [n.aval.place for n in moved.nodes] == ["two"] * len(moved.nodes)


@each_stack
def test_programs_and_variables_want_values_where_they_are(stack: Any) -> None:
    x, w = stack.input("x", (2,), "float64", place="two"), stack.variable("w", [1.0, 2.0], place="two")
    program = stack.compile([x], [x + w])
    np.testing.assert_array_equal(np.asarray(program(np.ones(2))[0]), [2, 3])
    np.testing.assert_array_equal(np.asarray(program([1, 1])[0]), [2, 3])
    here, there = EAGER.asarray(np.ones(2)).value, EAGER.asarray(np.ones(2), place="two").value
    if stack.device == TWO:
        np.testing.assert_array_equal(np.asarray(program(there)[0]), [2, 3])
        with pytest.raises(PlaceError, match="wanted in place 'two'"):
            program(here)
        w.value.assign(there)
        with pytest.raises(PlaceError, match="wanted in place 'two'"):
            w.value.assign(here)
        with pytest.raises(PlaceError, match="is in the device's own place, given a value in place 'two'"):
            stack.variable("v", [1.0, 2.0]).value.assign(there)
    with pytest.raises(GraphError, match=r"'w' is float64\[2\] on two and its update is float64\[2\]"):
        stack.compile([], [], [(w, stack.ops.transfer(w, place="one"))])


@pytest.mark.parametrize(
    "wrong",
    [
        nnc.Places,
        lambda: nnc.Places(one=3),
        lambda: nnc.Places(one=TWO),
        lambda: nnc.Places([("a b", nnc.NumPy())]),
        lambda: nnc.Places([("inf", nnc.NumPy())]),
        lambda: nnc.Places([("a", nnc.NumPy()), ("a", nnc.Null())]),
    ],
)
def test_what_are_no_places_is_refused(wrong: Any) -> None:
    with pytest.raises(LayerError, match="place"):
        wrong()


# --- what adapts -----------------------------------------------------------------------------------------


@each_stack
def test_numbers_and_data_of_the_host_go_to_where_the_tensors_are(stack: Any) -> None:
    x = stack.asarray(np.arange(300.0), place="two")
    for y in (x + 1, 2 * x, x + np.float64(3), x + np.arange(300.0), x + [1.0] * 300):
        assert stack.aval(y).place == "two"
    assert (x + np.arange(300.0)).numpy()[7] == 14


@each_stack
def test_derivatives_go_back_where_values_came_from(stack: Any) -> None:
    ops = stack.ops
    x = stack.asarray([1.0, 2.0, 3.0])

    def there_and_back(x: Any) -> Any:
        return ops.transfer(ops.sum(ops.transfer(x, place="two") ** 3 + 1), place="one")

    gradient = stack.grad(there_and_back)(x)
    np.testing.assert_array_equal(gradient.numpy(), [3, 12, 27])
    assert stack.aval(gradient).place is None
    y = stack.asarray([1.0, 2.0, 3.0], place="two")
    for found, wanted in (
        (stack.grad(lambda y: ops.sum(y**3))(y), [3, 12, 27]),
        (stack.jacobian(lambda y: y**3)(y), np.diag([3, 12, 27])),
        (stack.jvp(lambda y: y**3, (y,), (y,))[1], [3, 24, 81]),
        (stack.hessian(lambda y: ops.sum(ops.tanh(y) * 0 + y**2))(y), np.diag([2, 2, 2])),
        (stack.grad(lambda y: ops.sum(ops.stop_gradient(y)))(y), [0, 0, 0]),
    ):
        assert stack.aval(found).place == "two"
        np.testing.assert_allclose(found.numpy(), wanted)


# --- plans -----------------------------------------------------------------------------------------------


def plan() -> Any:
    x, w = LAZY.input("x", (8, 8)), LAZY.variable("w", np.ones((8, 8), "float32"), place="two")
    y = LAZY.ops.tanh(LAZY.ops.transfer(x * 2, place="two") @ w)
    return LAZY.compile([x], [LAZY.ops.transfer(y.sum(), place="one")], {w: w + y}).plan


def test_a_plan_has_an_arena_in_each_place_and_says_how_large() -> None:
    found = plan()
    assert found.arenas == {None: 256, "two": found.elsewhere[0][1]}
    assert found.elsewhere[0][0] == "two"
    assert {b.place for b in found.planned} == {None, "two"}
    assert "on two" in str(found)
    assert str(found.elsewhere[0][1]) in str(found)
    assert set(found.problems) == {None, "two"}
    assert found.ratio == pytest.approx(1)


def test_the_picture_draws_the_arenas_one_above_the_other() -> None:
    found = plan()
    root = ElementTree.fromstring(found.to_svg())
    whole = sum(found.arenas.values())
    drawn = {int(g.attrib["data-buffer"]): g[1].attrib for g in root.iter() if "data-buffer" in g.attrib}
    assert sorted(drawn) == [n for n, b in enumerate(found.buffers) if b.kind == "arena"]
    for number, at in drawn.items():
        b = found.buffers[number]
        bottom = (0 if b.place is None else found.arena_bytes) + b.offset
        assert float(at["y"]) + float(at["height"]) == pytest.approx(62 + 420 * (1 - bottom / whole), abs=0.02)
    assert [p.attrib["data-place"] for p in root.iter() if "data-place" in p.attrib] == ["two"]
    assert "on two" in found.to_html()


def test_each_places_arena_is_verified_apart() -> None:
    found = plan()
    (at,) = [n for n, b in enumerate(found.buffers) if b.kind == "arena" and b.place is None]

    def damaged(**facts: Any) -> Any:
        buffers = (*found.buffers[:at], evolve(found.buffers[at], **facts), *found.buffers[at + 1 :])
        return evolve(found, buffers=buffers)

    with pytest.raises(PlanError, match="is in place 'two'"):
        damaged(place="two").verify()
    with pytest.raises(PlanError, match="where there is no arena"):
        damaged(place="three").verify()
    with pytest.raises(PlanError, match="of an arena of 256"):
        damaged(offset=64).verify()
    assert damaged(lower=0).verify()


def test_a_kernel_that_works_in_two_places_is_no_plan() -> None:
    found = plan()
    t = next(t for t, i in enumerate(found.instructions) if i.op.name.startswith("matmul"))
    i = found.instructions[t]
    moved = evolve(i, operands=(found.inputs[0], i.operands[1]))
    with pytest.raises(PlanError, match=r"matmul.*different places"):
        evolve(found, instructions=(*found.instructions[:t], moved, *found.instructions[t + 1 :])).verify()


@given(spread())
def test_graphs_in_places_are_read_back_as_they_were_written(both: tuple[Program, Program]) -> None:
    graph = both[1].build(LAZY).program.source
    variables = {n.data.name: n.data for n in graph.variables}
    again = parsed(printed(graph), LAZY.graph, large_constants(graph), variables)
    assert printed(again) == printed(graph)
    assert [o.aval for o in again.outputs] == [o.aval for o in graph.outputs]


def test_a_graph_of_several_places_is_saved_and_loaded(tmp_path: Any) -> None:
    x = LAZY.input("x", (100,), "float64")
    y = LAZY.ops.transfer(x, place="two") + LAZY.asarray(np.arange(100.0), place="two")
    graph = LAZY.compile([x], [y]).source
    graph.save(tmp_path / "graph")
    again = nnc.load_graph(tmp_path / "graph", LAZY)
    assert printed(again) == printed(graph)
    (found,) = LAZY.engine.compile(again).run([np.ones(100)])
    np.testing.assert_array_equal(np.asarray(found), np.arange(100.0) + 1)


def test_results_are_not_recycled_while_views_of_them_are_held() -> None:
    x = LAZY.input("x", (64,), "float64")
    program = LAZY.compile([x], [LAZY.ops.transfer(x, place="two")])
    kept = []
    for i in range(4):
        (result,) = program(np.full(64, float(i)))
        kept.append(TWO.bind(LAZY.type.ops["reshape"], result, shape=(8, 8)))
    assert [np.asarray(k)[0, 0] for k in kept] == [0, 1, 2, 3]


# --- the device ------------------------------------------------------------------------------------------


@each_device
def test_it_is_a_device_and_a_value(device: Any) -> None:
    checked: DeviceSignature[Any] = device
    assert checked.role == "device"
    for twin in (copy.deepcopy(device), pickle.loads(pickle.dumps(device)), nnc.Places(device.devices)):
        assert twin == device
        assert hash(twin) == hash(device)
    assert device.places == PLACES
    assert nnc.lazy(device) == nnc.lazy(nnc.Places(device.devices))
    assert repr(TWO) == "Places(one=NumPy(), two=NumPy())"
    device.synchronise()


def test_it_has_memory_where_all_places_have() -> None:
    memory: PlannedDeviceSignature[Any] = TWO
    assert memory is TWO
    assert TWO.has_memory
    assert PLANNED.has_memory
    assert not PRETENDED.has_memory
    assert nnc.lazy(PRETENDED).compile([], [nnc.lazy(PRETENDED).asarray([1.0])]).plan is None
    mixed = nnc.lazy(nnc.Places(one=nnc.NumPy(), two=nnc.Strict()))
    assert (
        mixed.ops.transfer(mixed.ops.transfer(mixed.asarray([1.0, 2.0]), place="two") * 2, place="one").numpy()[1] == 4
    )


def test_an_array_says_where_it_is_and_shows_copies() -> None:
    x = TWO.asarray(np.arange(3.0), place="two")
    assert "place 'two'" in repr(x)
    assert (x.shape, x.dtype, x.ndim, x.place) == ((3,), np.dtype("float64"), 1, "two")
    np.asarray(x)[0] = 7
    assert np.asarray(x)[0] == 0
    twin = pickle.loads(pickle.dumps(x))
    assert TWO.owns(twin)
    assert np.asarray(twin).tolist() == [0, 1, 2]
    with pytest.raises(DeviceError, match="no array of this device"):
        PRETENDED.asarray(x)
    with pytest.raises(DeviceError, match="no array of this device"):
        PRETENDED.bind(LAZY.type.ops["negative"], x)
    with pytest.raises(DeviceError, match="Null"):
        PLANNED.to_numpy(PLANNED.asarray([1.0]))


# --- with the rest of the library ------------------------------------------------------------------------


@each_stack
def test_functions_are_compiled_for_where_their_arguments_are(stack: Any) -> None:
    double = stack.jit(lambda x: x * 2)
    for place in (*PLACES, *PLACES):
        found = double(stack.asarray([1.0, 2.0], place=place))
        assert stack.aval(found) == stack.aval(stack.asarray([1.0, 2.0], place=place))
        np.testing.assert_array_equal(found.numpy(), [2, 4])
    assert double.traces == 2


@each_device
def test_programs_of_unknown_extents_span_places(device: Any) -> None:
    stack = nnc.lazy(device)
    x = stack.input("x", ("n", 3))
    program = stack.compile([x], [stack.ops.transfer(x * 2, place="two")])
    for n in (1, 4, 2):
        (found,) = program(np.ones((n, 3), "float32"))
        assert device.aval(found) == nnc.Aval((n, 3), "float32", place="two")
        if device != PLANNED:
            np.testing.assert_array_equal(np.asarray(found), np.full((n, 3), 2))


def test_kept_values_stay_in_their_places() -> None:
    x, w = LAZY.input("x", (4,), "float64"), LAZY.variable("w", np.ones(4), place="two")
    y = LAZY.ops.transfer(LAZY.ops.exp(x), place="two") * w
    program = LAZY.compile([x], [y], retain="all")
    for factor in (1.0, 3.0, 2.0):
        w.value.assign(np.full(4, factor))
        np.testing.assert_allclose(np.asarray(program(np.zeros(4))[0]), factor)


def test_a_plan_of_several_places_is_read_back_as_it_was_written() -> None:
    found = plan()
    again = Plan.parse(str(found), LAZY)
    assert str(again) == str(found)
    assert again.arenas == found.arenas


# --- host and GPU ----------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_program_spans_host_and_gpu() -> None:
    device = nnc.Places(host=nnc.NumPy(), gpu=nnc.CuPy())
    try:
        device.at("gpu").asarray([1.0])
    except DeviceError as error:
        pytest.skip(str(error))
    stack = nnc.lazy(device)
    x, w = stack.input("x", (3, 4)), stack.variable("w", np.ones((4, 2), "float32"), place="gpu")
    y = stack.ops.transfer(x * 2, place="gpu") @ w
    program = stack.compile([x], [y, stack.ops.transfer(y, place="host")], {w: w * 2})
    assert set(program.plan.verify().arenas) == {None, "gpu"}
    for scale in (1, 2):
        found = program(np.ones((3, 4), "float32"))
        for one in found:
            np.testing.assert_array_equal(np.asarray(one), np.full((3, 2), 8.0 * scale))
    with pytest.raises(PlaceError, match="different places"):
        x @ w


def test_results_in_places_are_read_as_arrays_are() -> None:
    stack = nnc.lazy(nnc.Places(one=nnc.NumPy(), two=nnc.NumPy()))
    x = stack.input("x", (2, 3), "float64", place="two")
    found = stack.compile([x], x * 2)(np.arange(6.0).reshape(2, 3))
    wanted = np.arange(0.0, 12, 2).reshape(2, 3)
    assert (len(found), found[1].place, found[1].shape) == (2, "two", (3,))
    for key in (
        0,
        -1,
        (1, 2),
        slice(None, 1),
        (..., 0),
        [1, 0],
        np.array([True, False]),
        (slice(None), np.array([2, 0])),
    ):
        np.testing.assert_array_equal(np.asarray(found[key]), wanted[key])
    for row, like in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(row), like)
    assert (float(found[1, 2]), int(found[1, 0]), bool(found[0, 0])) == (10.0, 6, False)
    np.testing.assert_array_equal((stack.asarray(found[0]) + 1).numpy(), wanted[0] + 1)
    with pytest.raises(IndexError):
        found[2]
    with pytest.raises(TypeError, match="rank 0"):
        len(found[0, 0])
