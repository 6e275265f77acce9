"""Parts are computed where they lie: joins, padding and assembling copy nothing (`engine/planning/sub_buffers`)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import ARENA
from nnc_func.engine.verifying.regions import Region
from nnc_func.errors import ShapeError
from nnc_func.facets.boxes import Box, first_common, gaps

LAZY, EAGER = nnc.lazy(), nnc.eager()
MOVES = ("copy", "concat", "stack", "pad", "assemble", "fill", "set_slice", "split")


def moved(program: Any) -> list[str]:
    """Names of the operators that move elements and compute nothing, of those that run."""
    return [i.op.name for i in program.plan.instructions if not i.view and i.op.name in MOVES]


def both(f: Any, *shapes: tuple[int, ...], dtype: str = "float64") -> Any:
    """The lazy program of a function of the operators and tensors, checked against the eager one."""
    given_ = [np.random.default_rng(i).normal(size=s).astype(dtype) for i, s in enumerate(shapes)]
    programs = []
    for stack in (LAZY, EAGER):
        inputs = [stack.input(f"x{i}", s, dtype) for i, s in enumerate(shapes)]
        programs.append(stack.compile(inputs, f(stack.ops, *inputs)))
    lazy, eager = programs
    lazy.plan.verify()
    for _ in range(2):
        for found, wanted in zip(lazy(*given_), eager(*given_), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
    return lazy


# --- what is copied --------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_concatenation_of_computed_parts_copies_nothing(axis: int) -> None:
    program = both(lambda o, x: [o.sum(o.concat(o.sin(x), o.exp(x), axis=axis), axis=0)], (4, 3, 5))
    assert moved(program) == []
    assert len(program.plan.planned) == 1


@pytest.mark.parametrize("images", [1, 3])
def test_a_concatenation_of_channels_copies_nothing_whatever_the_layout(images: int) -> None:
    def f(o: Any, x: Any) -> Any:
        x = o.relayout(x, layout="NCHW")
        inner = o.concat(o.sin(x), o.exp(x), axis=-1)
        return [o.sum(o.concat(inner, o.abs(x), axis=-1), axis=1)]

    program = both(f, (images, 4, 5, 6))
    assert moved(program) == []
    assert len(program.plan.planned) == 2  # the images in their layout, and the whole
    read = Plan.parse(program.plan.text(), LAZY)
    assert read == program.plan
    read.verify()


def test_it_may_be_an_output() -> None:
    program = both(lambda o, x: [o.concat(o.sin(x), o.exp(x), axis=1)], (4, 3))
    assert moved(program) == []
    assert program.plan.arena_bytes == 0


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_stack_of_computed_parts_copies_nothing(axis: int) -> None:
    assert moved(both(lambda o, x: [o.tanh(o.stack(o.sin(x), o.exp(x), o.cos(x), axis=axis))], (4, 3))) == []


def test_what_is_put_together_of_what_is_put_together_lies_in_the_whole() -> None:
    def f(o: Any, x: Any) -> Any:
        inner = o.concat(o.sin(x), o.exp(x), axis=1)
        return [o.concat(inner, o.stack(o.cos(x), o.tanh(x), axis=2)[:, :, 0], o.abs(x), axis=1)]

    program = both(f, (4, 3))
    assert [n for n in moved(program) if n != "copy"] == []
    assert len({program.plan.slots[i.results[0]].buffer for i in program.plan.instructions if i.op.name == "sin"}) == 1


def test_a_chain_of_joins_is_one_buffer() -> None:
    """A densely connected block: each layer reads all that came before, and writes behind it."""

    def f(o: Any, x: Any) -> Any:
        seen = o.tanh(x)
        for _ in range(4):
            seen = o.concat(seen, o.tanh(o.mean(seen, axis=1, keepdims=True) + x), axis=1)
        return [seen]

    program = both(f, (3, 2))
    assert moved(program) == []
    homes = {program.plan.slots[i.results[0]].buffer for i in program.plan.instructions if i.op.name == "tanh"}
    assert [program.plan.buffers[b].kind for b in homes] == ["output"]


def test_leaves_and_views_and_what_is_there_twice_are_copied_once_each() -> None:
    program = both(lambda o, x: [o.concat(a := o.sin(x), a, x, o.flip(a), axis=0)], (2, 3))
    assert moved(program) == ["copy"] * 3


def test_a_part_that_is_an_output_too_is_one_copy() -> None:
    program = both(lambda o, x: [o.concat(a := o.sin(x), o.exp(x), axis=0), a], (2, 3))
    assert len(moved(program)) == 1


def test_parts_of_another_dtype_are_joined_by_the_kernel() -> None:
    def f(o: Any, x: Any) -> Any:
        return [o.concat(o.sin(x), o.cast(o.exp(x), dtype="float32"), axis=0)]

    assert moved(both(f, (2, 3))) == ["concat"]


def test_a_part_that_is_read_later_as_well_lives_there() -> None:
    program = both(lambda o, x: [o.sum(o.concat(a := o.sin(x), o.exp(a), axis=1)), o.cos(a)], (2, 3))
    assert moved(program) == []


def test_only_gaps_are_filled() -> None:
    program = both(lambda o, x: [o.pad(o.sin(x), widths=((0, 0), (1, 2)), value=3)], (2, 3))
    filled = [i for i in program.plan.instructions if i.op.name == "fill"]
    assert sum(program.plan.slots[i.results[0]].aval.size for i in filled) == 2 * 3
    assert moved(program) == ["fill"] * 2


def test_full_coverage_never_writes_the_fill() -> None:
    def f(o: Any, x: Any) -> Any:
        even, odd = o.sin(x), o.exp(x)
        return [o.assemble(even, odd, shape=(8,), offsets=((0,), (7,)), strides=((2,), (-2,)), fill=9)]

    assert moved(both(f, (4,))) == []


def test_a_value_is_not_written_over_while_its_part_is_wanted() -> None:
    def f(o: Any, x: Any) -> Any:
        whole = o.concat(a := o.sin(x), o.exp(x), axis=0)
        return [o.tanh(whole * 2), o.sum(a)]

    both(f, (500, 4))


def test_updates_are_put_together_in_their_fresh_arrays() -> None:
    w = LAZY.variable("w", np.zeros((4, 3)))
    x = LAZY.input("x", (2, 3), "float64")
    program = LAZY.compile([x], [], [(w, LAZY.ops.concat(LAZY.ops.sin(x) + w[:2], w[1:3] * 2, axis=0))])
    program.plan.verify()
    assert moved(program) == []
    given_, state = np.random.default_rng(0).normal(size=(2, 3)), np.zeros((4, 3))
    for _ in range(3):
        program(given_)
        state = np.concatenate([np.sin(given_) + state[:2], state[1:3] * 2])
        np.testing.assert_allclose(w.numpy(), state)


def test_out_is_written_in_place() -> None:
    x = LAZY.input("x", (2, 3), "float64")
    program = LAZY.compile([x], LAZY.ops.concat(LAZY.ops.sin(x), LAZY.ops.cos(x), axis=1))
    given_, out = np.random.default_rng(0).normal(size=(2, 3)), np.empty((2, 6))
    assert program(given_, out=out) is out
    np.testing.assert_array_equal(out, np.concatenate([np.sin(given_), np.cos(given_)], axis=1))


def test_peak_is_the_whole_and_no_more() -> None:
    x = LAZY.input("x", (1000,), "float64")
    o = LAZY.ops
    program = LAZY.compile([x], [o.sum(o.concat(o.sin(x), o.exp(x), o.cos(x), o.tanh(x), axis=0))])
    whole = 4 * x.aval.nbytes
    assert whole <= program.plan.arena_bytes <= whole + 64
    assert [b.kind for b in program.plan.buffers].count(ARENA) == 1


def test_parts_are_copied_where_their_whole_would_be_alive_too_long() -> None:
    """As in a U-net: a small part is there early, and much memory is wanted before the large one is."""

    def f(o: Any, x: Any) -> Any:
        early = o.sin(x)
        wide = o.cos(o.broadcast_to(early, shape=(100, 1000)) * np.linspace(0, 1, 100)[:, None])
        late = o.broadcast_to(o.sum(o.sqrt(o.square(wide) + 1), axis=0), shape=(30, 1000)) * x
        return [o.max(o.concat(early, late, axis=0) * 2)]

    program = both(f, (1, 1000))
    assert moved(program) == ["concat"]
    assert program.plan.arena_bytes < 110 * 8000


def test_each_join_is_chosen_for_itself() -> None:
    """One whole would be alive too long, as above; what is put together before and after it is not copied for that."""

    def f(o: Any, x: Any) -> Any:
        first = o.concat(o.sin(x), o.cos(x), axis=0)
        early = o.sum(first, axis=0, keepdims=True)
        wide = o.cos(o.broadcast_to(early, shape=(100, 1000)) * np.linspace(0, 1, 100)[:, None])
        late = o.broadcast_to(o.sum(o.sqrt(o.square(wide) + 1), axis=0), shape=(30, 1000)) * x
        joined = o.max(o.concat(early, late, axis=0) * 2)
        return [o.sum(o.concat(o.exp(x) * joined, o.tanh(x), axis=1))]

    program = both(f, (1, 1000))
    assert moved(program) == ["concat"]
    (copied,) = [i for i in program.plan.instructions if i.op.name == "concat" and not i.view]
    assert program.plan.slots[copied.results[0]].aval.shape == (31, 1000)
    assert program.plan.arena_bytes < 110 * 8000


# --- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [LAZY, EAGER], ids=["lazy", "eager"])
def test_parts_that_overlap_are_refused_in_words(stack: Any) -> None:
    x = stack.asarray(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"parts 0 and 1 overlap: both write element \[1, 0\]"):
        stack.ops.assemble(x, x, shape=(4, 4), offsets=((0, 0), (1, 2)), strides=((1, 1), (2, -1)))
    stack.ops.assemble(x, x, shape=(4, 5), offsets=((0, 0), (1, 0)), strides=((2, 1), (2, 2)))


@pytest.mark.parametrize(
    ("offsets", "strides", "said"),
    [
        (((3, 0),), None, "an element at 4 along axis 0, of extent 4"),
        (((0, 0),), ((-1, 1),), "an element at -1 along axis 0"),
        (((0, 0),), ((1, 0),), "stride 0 along axis 1"),
        (((0,),), None, "have 2 numbers each"),
        (((0, 0), (0, 0)), None, "1 parts want 1 offsets"),
    ],
)
def test_parts_that_lie_outside_are_refused(offsets: Any, strides: Any, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        LAZY.ops.assemble(LAZY.asarray(np.ones((2, 3))), shape=(4, 4), offsets=offsets, strides=strides)


def test_symbolic_offsets_are_refused_where_an_overlap_is_proved_and_checked_when_they_are_known() -> None:
    x = LAZY.input("x", ("n",), "float64")
    (n,) = x.shape
    o = LAZY.ops
    three = LAZY.asarray(np.zeros(3))
    with pytest.raises(ShapeError, match="overlap"):
        o.assemble(three, three, shape=(n + 8,), offsets=((n,), (n + 2,)))
    joined = o.assemble(o.sin(x), x, shape=(2 * n,), offsets=((0,), (n,)))
    program = LAZY.compile([x], joined)
    for size in (3, 5):
        given_ = np.arange(float(size))
        np.testing.assert_array_equal(program(given_), np.concatenate([np.sin(given_), given_]))
    late = LAZY.compile([x], o.assemble(x, x, shape=(2 * n,), offsets=((0,), (4,))))
    assert late(np.arange(4.0)).tolist() == [0, 1, 2, 3] * 2
    with pytest.raises(ShapeError):
        late(np.arange(5.0))


# --- boxes, against brute force ----------------------------------------------------------------------------


@st.composite
def boxes(draw: Any, shape: tuple[int, ...]) -> Box:
    """A strided box in a small grid."""
    rows = []
    for n in shape:
        start = draw(st.integers(0, n - 1))
        step = draw(st.sampled_from([1, -1, 2, 3, -2, 4]))
        most = (n - 1 - start) // step + 1 if step > 0 else start // -step + 1
        rows.append((start, draw(st.integers(0, most)), step))
    starts, extents, steps = zip(*rows, strict=True)
    return Box(starts, extents, steps)


def elements(box: Box) -> set[tuple[int, ...]]:
    axes = [[s + k * t for k in range(n)] for s, n, t in zip(box.starts, box.extents, box.steps, strict=True)]
    return set(itertools.product(*axes))


SHAPES = st.sampled_from([(12,), (5, 6), (3, 4, 4)])


@given(data=st.data())
def test_overlap_and_coverage_are_exact(data: Any) -> None:
    shape = data.draw(SHAPES)
    some = data.draw(st.lists(boxes(shape), min_size=1, max_size=5))
    sets = [elements(b) for b in some]
    met = first_common(some)
    pairs = [(i, j) for j in range(len(some)) for i in range(j) if sets[i] & sets[j]]
    assert (met is None) == (not pairs)
    if met is not None:
        i, j, at = met
        assert at in sets[i] & sets[j]
    rest = gaps(shape, some, 10**6)
    assert rest is not None
    found = [elements(b) for b in rest]
    assert sum(map(len, found)) == len(set().union(*found)) if found else True
    everything = set(itertools.product(*map(range, shape)))
    assert set().union(*found) == everything - set().union(*sets)


@given(data=st.data())
def test_many_boxes_are_looked_up_alike(data: Any) -> None:
    shape = (60,)
    some = [Box((k,), (1,), (1,)) for k in range(0, 40, 2)] + [data.draw(boxes(shape)) for _ in range(3)]
    sets = [elements(b) for b in some]
    clash = any(sets[i] & sets[j] for j in range(len(some)) for i in range(j))
    assert (first_common(some) is not None) == clash


@given(data=st.data())
def test_the_verifiers_regions_agree_with_memory(data: Any) -> None:
    memory = np.zeros(4 * 5 * 6, "uint8")
    views = []
    for _ in range(2):
        itemsize = data.draw(st.sampled_from([1, 2, 4]))
        array: Any = memory.view(f"u{itemsize}").reshape(-1, 6 if itemsize == 1 else 3)
        if data.draw(st.booleans()):
            array = array.T
        box = data.draw(boxes(array.shape))
        array = array[tuple(slice(a, b if b >= 0 else None, c) for a, b, c in box.bounds())]
        views.append(array)
    regions = []
    for v in views:
        offset = v.ctypes.data - memory.ctypes.data if v.size else 0
        regions.append(Region.of(offset, v.shape, v.strides, v.itemsize))
    assert regions[0].meets(regions[1]) == np.shares_memory(*views)


JOINS: tuple[Any, ...] = (  # of the operators, two matrices of one shape, and a number below 3
    lambda o, a, b, k: o.sin(a),
    lambda o, a, b, k: o.exp(-a) * b,
    lambda o, a, b, k: o.concat(a, b, o.square(a), axis=k % 2),
    lambda o, a, b, k: o.reshape(o.stack(a, o.tanh(b), axis=k), shape=(2 * a.shape[0], a.shape[1])),
    lambda o, a, b, k: o.pad(a, widths=((k, 1), (0, k)), value=k),
    lambda o, a, b, k: o.assemble(
        a,
        b,
        shape=(2 * a.shape[0], a.shape[1] + 1),
        offsets=((0, 0), (2 * a.shape[0] - 1, a.shape[1])),
        strides=((2, 1), (-2, -1)),
        fill=1,
    ),
    lambda o, a, b, k: a[:: 1 + k // 2, :: -1 if k else 1],
    lambda o, a, b, k: o.permute_dims(a),
    lambda o, a, b, k: o.concat(o.abs(a), b, axis=0)[:, a.shape[1] // 2 :],
    lambda o, a, b, k: o.relayout(a, layout=(1, 0)),
    lambda o, a, b, k: o.concat(o.sin(o.relayout(a, layout=(1, 0))), o.relayout(b, layout=(1, 0)), axis=k % 2),
)
PICKS = st.tuples(st.integers(0, len(JOINS) - 1), st.integers(0, 9), st.integers(0, 9), st.integers(0, 2))


def joined(o: Any, values: list[Any], steps: list[Any], wanted: list[int]) -> list[Any]:
    """Outputs of a program that mostly joins and takes apart."""
    for kind, i, j, k in steps:
        a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
        if a.size <= 400:
            values.append(JOINS[kind](o, a, b if b.shape == a.shape else o.cos(a), k))
    return [values[-1 - w % len(values)] for w in wanted] + [o.sum(values[-1])]


@given(st.lists(PICKS, max_size=9), st.lists(st.integers(0, 9), min_size=1, max_size=3), st.sampled_from([1, 2]))
def test_random_joins_are_the_same_on_every_engine(steps: Any, wanted: Any, streams: int) -> None:
    given_ = [np.random.default_rng(i).normal(size=(2, 3)) for i in range(2)]
    found = []
    for stack in (EAGER, LAZY.swap(engine=LAZY.engine.with_streams(streams)) if streams > 1 else LAZY):
        inputs = [stack.input(f"x{i}", (2, 3), "float64") for i in range(2)]
        program = stack.compile(inputs, joined(stack.ops, [*inputs], steps, wanted))
        if program.plan is not None:
            program.plan.verify()
        with np.errstate(all="ignore"):
            found.append([np.array(a) for _ in range(2) for a in program(*given_)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)
