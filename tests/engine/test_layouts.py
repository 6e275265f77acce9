"""The order of axes in memory changes no value (`facets/layouts`, `engine/planning/layout_pass`)."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import assume, example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.errors import GraphError, PlanError, ShapeError
from nnc_func.facets.layouts import permutation, reshaped, strides
from nnc_func.graph.text.parsing import parsed
from nnc_func.graph.text.writing import large_constants, printed
from nnc_func.testing.agreement import agree, follow
from nnc_func.testing.programs import INPUT, LARGEST, Leaf, Program
from tests.conversions import relaid
from tests.engine.test_programs import MANY, STACKS, step

LAZY = STACKS["lazy"]
X = Leaf(INPUT, "x", (2, 3), "float64")
TURNED = {"layout": (1, 0), "data_format": "NHWC"}
SEEN = Program(
    (X,), (step("relayout", 0, **TURNED), step("reshape", 1, shape=(3, 2)), step("add", 1, 0)), (1, 2, 3), ()
)
SPREADING = Program(
    (X,),
    (step("relayout", 0, **TURNED), step("tanh", 1), step("add", 2, 2), step("expand_dims", 3, axis=0)),
    (4, 3),
    (),
)


def pair(program: Program) -> tuple[Program, Program]:
    return program, program


@pytest.mark.parametrize("name", STACKS)
@MANY
@given(relaid())
@example(pair(SEEN))
@example(pair(SPREADING))
def test_relayouts_at_random_edges_change_nothing(name: str, both: tuple[Program, Program]) -> None:
    plain, laid = both
    state = [v.value() for v in plain.variables]
    wanted, following, largest = plain.run_numpy(plain.feeds(), state)
    assume(largest < LARGEST)
    found, after, _ = laid.run_numpy(laid.feeds(), state)
    agree(found, wanted, plain, largest, "reference")
    agree(after, following, plain, largest, "reference: updates")
    follow(laid, STACKS[name])


@given(relaid())
@example(pair(SEEN))
@example(pair(SPREADING))
def test_nor_in_poisoned_memory(both: tuple[Program, Program]) -> None:
    before = config.spec
    config.spec = 3
    try:
        follow(both[1], LAZY)
    finally:
        config.spec = before


@given(relaid())
def test_their_graphs_are_read_back_as_they_were_written(both: tuple[Program, Program]) -> None:
    graph = both[1].build(LAZY).program.source
    variables = {n.data.name: n.data for n in graph.variables}
    again = parsed(printed(graph), LAZY.graph, large_constants(graph), variables)
    assert printed(again) == printed(graph)
    assert [o.aval for o in again.outputs] == [o.aval for o in graph.outputs]


def test_what_lies_in_another_order_lies_in_that_order() -> None:
    x = LAZY.input("x", (2, 4, 5, 3))
    laid = LAZY.ops.relayout(x, layout="NCHW") * 2
    program = LAZY.compile([x], [laid])
    (found,) = program(np.ones((2, 4, 5, 3), "float32"))
    assert laid.aval == nnc.Aval((2, 4, 5, 3), "float32", layout=(0, 3, 1, 2))
    assert found.strides == strides((0, 3, 1, 2), (2, 4, 5, 3), 4) == (240, 20, 4, 80)
    assert found.transpose(0, 3, 1, 2).flags.c_contiguous


def test_a_result_is_not_recycled_while_a_view_of_it_is_held() -> None:
    x = LAZY.input("x", (64, 3))
    program = LAZY.compile([x], [LAZY.ops.relayout(x, layout=(1, 0))])
    views = [program(np.full((64, 3), i, "float32"))[0].T for i in range(4)]
    assert [v[0, 0] for v in views] == [0, 1, 2, 3]


def test_results_are_written_into_arrays_of_the_callers() -> None:
    x = LAZY.input("x", (2, 3), "float64")
    program = LAZY.compile([x], [LAZY.ops.relayout(x, layout=(1, 0)) + 1])
    out = np.zeros((2, 3))
    (found,) = program(np.arange(6.0).reshape(2, 3), out=[out])
    assert found is out
    np.testing.assert_array_equal(out, np.arange(6.0).reshape(2, 3) + 1)


def test_elementwise_operators_keep_a_layout_that_their_operands_share() -> None:
    x, y = LAZY.input("x", (2, 3)), LAZY.input("y", (2, 3))
    ops = LAZY.ops
    a, b = (ops.relayout(v, layout=(1, 0)) for v in (x, y))
    row = LAZY.input("row", (3,))
    assert [(v.aval.layout) for v in (a + b, a + 1, ops.tanh(a) * row, a.astype("float64"))] == [(1, 0)] * 4
    assert [(v.aval.layout) for v in (a + y, a.sum(axis=0), ops.reshape(a, shape=(6,)), a @ b.T)] == [None] * 4


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("conv2d", {"padding": "SAME"}),
        ("conv2d", {"stride": 2, "groups": 2}),
        ("max_pool2d", {"window": 2}),
        ("average_pool2d", {"window": (2, 1), "stride": 1}),
    ],
)
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_kernels_of_images_state_their_layouts_and_the_plan_names_the_chosen(
    name: str, params: dict[str, Any], data_format: str
) -> None:
    """On images in the one layout and in the other: a fast kernel runs, another one, and gives the same."""
    shape = (2, 6, 5, 4) if data_format == "NHWC" else (2, 4, 6, 5)
    other = "NCHW" if data_format == "NHWC" else "NHWC"
    ops = LAZY.ops
    x = LAZY.input("x", shape)
    w = () if "pool" in name else (LAZY.input("w", (3, 3, 4 // params.get("groups", 1), 6)),)
    apply = getattr(ops, name)
    near = apply(x, *w, data_format=data_format, **params)
    far = apply(ops.relayout(x, layout=other, data_format=data_format), *w, data_format=data_format, **params)
    assert far.aval == near.aval.having(layout=permutation(other, 4, data_format))
    program = LAZY.compile([x, *w], [near, far])
    chosen = [i.kernel for i in program.plan.verify().instructions if i.op.name == name]
    assert len(set(chosen)) == 2, chosen
    assert "reference" not in chosen
    assert all(kernel in str(program.plan) for kernel in chosen)
    random = np.random.default_rng(0)
    one, two = program(*(random.normal(size=i.shape).astype("float32") for i in (x, *w)))
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_every_fast_kernel_of_images_states_layouts() -> None:
    others = "relayout", "conv2d_blockwise"  # of the latter the number of operands varies: `accepts` asks for layouts
    images = [op for op in LAZY.type.ops.values() if "data_format" in op.params and op.name not in others]
    assert len(images) == 9
    for op in images:
        assert op.kernels[-1].layouts is None, "the reference kernel takes any"
        assert all(k.layouts for k in op.kernels[:-1]), op


@pytest.mark.parametrize(
    "layout", ["NHW", "NCHWD", (0, 1, 2), (0, 0, 1, 2), (0, 1, 2, 4), "rows", 3, ("a", "b", "c", "d")]
)
def test_what_is_no_layout_is_refused_with_words(layout: Any) -> None:
    x = LAZY.input("x", (2, 3, 4, 5))
    with pytest.raises(
        ShapeError, match=r"relayout\(float32\[2, 3, 4, 5\].*no layout of a tensor of rank 4.*NHWC.*test_layouts"
    ):
        LAZY.ops.relayout(x, layout=layout)


def test_an_update_in_another_layout_is_refused_with_words() -> None:
    w = LAZY.variable("w", np.zeros((2, 3)))
    with pytest.raises(GraphError, match=r"'w' is float64\[2, 3\] and its update is float64\[2, 3\]\{1, 0\}"):
        LAZY.compile([], [], [(w, LAZY.ops.relayout(w, layout=(1, 0)))])


def test_an_aval_says_where_it_is_not_usual_and_pickles() -> None:
    usual, laid = nnc.Aval((2, 3), "float32"), nnc.Aval((2, 3), "float32", layout=(1, 0), place="gpu")
    assert (repr(usual), repr(laid)) == ("float32[2, 3]", "float32[2, 3]{1, 0} on gpu")
    assert len({usual, laid, laid.having(place=None), laid.having(layout=None)}) == 4
    assert nnc.Aval((2, 3), "float32", layout=(0, 1)) == usual
    assert pickle.loads(pickle.dumps(laid)) == laid
    with pytest.raises(ShapeError, match="no layout"):
        nnc.Aval((2, 3), "float32", layout=(0,))


def test_rules_drop_relayouts_that_change_nothing() -> None:
    x = LAZY.input("x", (2, 3))
    ops = LAZY.ops
    there = ops.relayout(ops.relayout(x, layout=(1, 0)), layout="row-major")
    program = LAZY.compile([x], [there + 1, ops.relayout(ops.relayout(x, layout=(1, 0)), layout=(1, 0))])
    assert sorted(n.op.name for n in program.graph.nodes if n.args) == ["add", "relayout"]


@st.composite
def seen_in_another_shape(draw: Any) -> tuple[nnc.Aval, tuple[int, ...]]:
    """An array that lies in some order, and a shape with as many elements."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=6))

    def some() -> tuple[int, ...]:
        cuts = draw(st.lists(st.booleans(), min_size=len(factors), max_size=len(factors)))
        shape = [1]
        for factor, cut in zip(factors, cuts, strict=True):
            shape = [*shape, factor] if cut else [*shape[:-1], shape[-1] * factor]
        return tuple(shape)

    shape = some()
    return nnc.Aval(shape, "float32", layout=tuple(draw(st.permutations(range(len(shape)))))), some()


@MANY
@given(seen_in_another_shape())
@example((nnc.Aval((1, 8, 5, 5), "float32", layout=(0, 2, 3, 1)), (1, 4, 2, 5, 5)))
@example((nnc.Aval((2, 8, 5, 5), "float32", layout=(0, 2, 3, 1)), (2, 200)))
def test_a_reshape_has_a_layout_just_where_numpy_gives_a_view(given: tuple[nnc.Aval, tuple[int, ...]]) -> None:
    aval, shape = given
    found = reshaped((aval,), shape)
    array = np.lib.stride_tricks.as_strided(np.arange(aval.size, dtype="float32"), aval.shape, aval.strides)
    seen = array.reshape(shape)
    if not np.shares_memory(seen, array):
        assert found is None
    elif found is not None:  # else it is seen row by row
        wanted = strides(found, shape, 4)
        assert wanted is not None
        assert [s for s, n in zip(seen.strides, shape, strict=True) if n > 1] == [
            s for s, n in zip(wanted, shape, strict=True) if n > 1
        ]
    elif aval.layout is not None:
        assert seen.flags.c_contiguous


def shuffled(ops: Any, x: Any, groups: int) -> Any:
    """Channels of images (NCHW), each group's first ones first."""
    n, channels, *rest = x.shape
    apart = ops.reshape(x, shape=(n, groups, channels // groups, *rest))
    return ops.reshape(ops.permute_dims(apart, axes=(0, 2, 1, 3, 4)), shape=x.shape)


def twice(ops: Any, x: Any, w: Any) -> Any:
    """Two convolutions by the same weights."""
    y = ops.conv2d(x, w, padding="SAME", data_format="NCHW")
    return ops.conv2d(y, w, padding="SAME", data_format="NCHW")


@pytest.mark.parametrize("batch", [1, 2])
def test_channels_are_shuffled_by_one_copy_where_they_lie_innermost(batch: int) -> None:
    x, ops = LAZY.input("x", (batch, 8, 6, 6)), LAZY.ops
    random = np.random.default_rng(0)
    kernels = [LAZY.asarray(random.normal(size=(3, 3, 8, 8), scale=0.1).astype("float32")) for _ in range(5)]
    y = x
    for w in kernels:
        y = shuffled(ops, twice(ops, y, w), 4)
    lazy = LAZY.swap(optimiser=LAZY.optimiser.with_numerics("rounding"))
    program = lazy.compile([x], [y])
    copies = [i for i in program.plan.verify().instructions if not i.view and i.op.name in ("relayout", "reshape")]
    images = random.normal(size=x.shape).astype("float32")
    eager = nnc.eager()
    wanted = eager.asarray(images)
    for w in kernels:
        wanted = shuffled(eager.ops, twice(eager.ops, wanted, eager.asarray(w.numpy())), 4)
    np.testing.assert_allclose(program(images)[0], wanted.numpy(), rtol=1e-4, atol=1e-4)
    assert len(copies) == len(kernels) + 2, "one a shuffle, one at the beginning, one at the end"


def test_what_is_reshaped_between_layouts_of_unknown_extents_is_copied() -> None:
    ops = LAZY.ops
    x = LAZY.input("x", ("n", 2, 3))
    n = x.shape[0]
    laid = ops.relayout(x, layout=(0, 2, 1))
    y = ops.permute_dims(ops.reshape(laid, shape=(n, 2, 3, 1)), axes=(0, 3, 2, 1))
    program = LAZY.compile([x], [y, ops.reshape(laid, shape=(n * 2, 3))])
    for count in (1, 2, 5):
        given = np.arange(6.0 * count, dtype="float32").reshape(count, 2, 3)
        one, other = program(given)
        np.testing.assert_array_equal(one, given.reshape(count, 2, 3, 1).transpose(0, 3, 2, 1))
        np.testing.assert_array_equal(other, given.reshape(-1, 3))


def test_a_plan_is_refused_that_shows_memory_in_an_order_that_it_does_not_have() -> None:
    x, ops = LAZY.input("x", (4, 4)), LAZY.ops
    seen = ops.reshape(ops.relayout(x, layout=(1, 0)), shape=(4, 2, 2))
    plan = LAZY.compile([x], [seen * 2]).plan.verify()
    (at,) = [n for n, i in enumerate(plan.instructions) if i.op.name == "reshape"]
    shown = plan.instructions[at]
    assert shown.view
    assert plan.slots[shown.results[0]].aval.layout == (1, 2, 0)
    slots = list(plan.slots)
    slots[shown.results[0]] = evolve(slots[shown.results[0]], aval=seen.aval.having(layout=None))
    with pytest.raises(PlanError, match="which is not contiguous: reshape has to copy there"):
        evolve(plan, slots=tuple(slots)).verify()
    slots = list(plan.slots)
    slots[shown.operands[0]] = evolve(slots[shown.operands[0]], strides=(16, 4))
    with pytest.raises(PlanError):
        evolve(plan, slots=tuple(slots)).verify()
