"""What is fused has the bits of what is not (`graph/rules/fuse`, `graph/ops/in_blocks`, `device/kernels/blocks`).

At whatever size, and in however many threads.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.kernels import blocks
from nnc_func.device.shared import workers
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules.fuse import fuse_elementwise
from nnc_func.testing.programs import INPUT, Leaf, Program, Step, programs

PLAIN = nnc.lazy().swap(optimiser=nnc.lazy().optimiser.without_rules("fuse_elementwise"))
FUSED = PLAIN.swap(optimiser=PLAIN.optimiser.with_rules(fuse_elementwise.from_size(0), phase="fuse"))
OPS = {
    name: CATALOGUE[name] for name in ("add", "multiply", "subtract", "divide", "maximum", "where", "greater", "clip")
}


@contextmanager
def cut(register: int, block: int, threads: int) -> Iterator[None]:
    """Blocks of other sizes, and two threads whatever there is to do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "REGISTER", register)
        patch.setattr(blocks, "BLOCK", block)
        patch.setattr(blocks, "WORTH", 1 if threads > 1 else blocks.WORTH)
        patch.setattr(workers, "spare", lambda: threads)
        yield


CUTS = st.sampled_from([(1 << 20, 1 << 19, 1), (64, 16, 1), (256, 64, 2)])


def same_bits(program: Program) -> Any:
    """Both ways of running it give the same bits; the fused plan."""
    one, other = program.build(FUSED), program.build(PLAIN)
    one.program.plan.verify()
    with np.errstate(all="ignore"):
        found, wanted = one(*program.feeds()), other(*program.feeds())
    for a, b in zip([*found, *one.state()], [*wanted, *other.state()], strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"), (a, b, one.program.plan)
        if a.dtype.kind == "f":
            assert np.array_equal(np.signbit(a) | np.isnan(a), np.signbit(b) | np.isnan(b)), (a, b)
    return one.program.plan


@given(programs(), CUTS)
def test_random_programs_have_the_same_bits(program: Program, how: tuple[int, int, int]) -> None:
    with cut(*how):
        same_bits(program)


# --- programs of what is fused ---------------------------------------------------------------------------

ONE_IN_THE_MIDDLE = Program(
    (Leaf(INPUT, "x", (3, 1, 5), "float32", 1), Leaf(INPUT, "y", (1, 1, 1), "float32", 2)),
    (Step(OPS["maximum"], (1, 0), {}), Step(OPS["add"], (2, 0), {})),
    (3,),
    (),
)


@st.composite
def groups(draw: Any) -> Program:
    """Elementwise operators, casts, and reductions of rows, on arguments that broadcast; several outputs."""
    shape = draw(st.sampled_from([(6,), (4, 5), (2, 3, 4), (3, 1, 5), (1, 7), (0, 3), (3, 300), (2, 7, 40)]))
    cuts = [shape, shape, shape[-1:], (*shape[:-1], 1), (1,) * len(shape), ()]
    leaves = tuple(
        Leaf(INPUT, f"x{i}", draw(st.sampled_from(cuts)) if i else shape, "float32", draw(st.integers(1, 9)))
        for i in range(draw(st.integers(1, 4)))
    )
    steps: list[Step] = []
    shapes = [leaf.shape for leaf in leaves]
    for _ in range(draw(st.integers(2, 10))):
        steps.append(_step(draw, shapes, shape))
        shapes.append(_shape(steps[-1], shapes))
    made = range(len(leaves), len(shapes))
    outputs = [*draw(st.lists(st.sampled_from(made), max_size=2)), len(shapes) - 1]
    return Program(leaves, tuple(steps), tuple(outputs), ())


def _step(draw: Any, shapes: list[Any], whole: Any) -> Step:
    full = [i for i, s in enumerate(shapes) if s == whole]
    kind = draw(st.integers(0, 6))
    if kind == 0 and len(whole) > 1 and all(whole):
        name = draw(st.sampled_from(["sum", "mean", "max", "min"]))
        first = draw(st.integers(1, len(whole) - 1))
        axes = draw(st.sampled_from([tuple(range(first, len(whole))), -1, first, 0, tuple(range(first))]))
        return Step(CATALOGUE[name], (draw(st.sampled_from(full)),), {"axis": axes, "keepdims": draw(st.booleans())})
    readable = [i for i, s in enumerate(shapes) if _fits(s, whole)]
    one, other = draw(st.sampled_from(full)), draw(st.sampled_from(readable))
    if kind == 1:
        return Step(OPS["clip"], (one,), {"min": draw(st.sampled_from([-0.5, 0.0])), "max": 1.0})
    if kind == 2:
        name = draw(st.sampled_from(["relu", "exp", "tanh", "sqrt", "sigmoid", "softplus"]))
        return Step(CATALOGUE[name], (one,), {})
    name = draw(st.sampled_from(["add", "multiply", "subtract", "divide", "maximum"]))
    return Step(OPS[name], (one, other) if draw(st.booleans()) else (other, one), {})


def _fits(shape: Any, whole: Any) -> bool:
    try:
        return bool(np.broadcast_shapes(shape, whole) == whole)
    except ValueError:
        return False


def _shape(step: Step, shapes: list[Any]) -> Any:
    return step.op.shape(*(shapes[a] for a in step.args), **dict(step.op.canonical(step.params)))


@settings(max_examples=2 * settings().max_examples)
@given(groups(), CUTS)
@example(ONE_IN_THE_MIDDLE, (256, 64, 2))
def test_groups_have_the_same_bits(program: Program, how: tuple[int, int, int]) -> None:
    with cut(*how):
        same_bits(program)


@pytest.mark.slow
@settings(max_examples=10 * settings().max_examples)
@given(st.one_of(groups(), programs()), CUTS)
def test_many_programs_have_the_same_bits(program: Program, how: tuple[int, int, int]) -> None:
    with cut(*how):
        same_bits(program)


# --- which groups are made --------------------------------------------------------------------------------


def kernels(stack: Any, *values: Any, inputs: Any) -> list[str]:
    return [i.op.name for i in stack.compile(inputs=inputs, outputs=list(values)).plan.instructions if not i.view]


def test_rows_that_are_normalised_are_one_kernel() -> None:
    ops, x = FUSED.ops, FUSED.input("x", (8, 5), "float32")
    top = ops.exp(x - ops.max(x, axis=-1, keepdims=True))
    assert kernels(FUSED, top / (2 + ops.sum(top, axis=-1, keepdims=True)), inputs=[x]) == ["blockwise_several"]


def test_a_sum_of_rows_is_computed_with_what_is_summed() -> None:
    ops, x = FUSED.ops, FUSED.input("x", (8, 5), "float32")
    y = ops.relu(x * 2 + 1)
    assert kernels(FUSED, y, ops.mean(y, axis=1), inputs=[x]) == ["blockwise_several"]


def test_sums_over_images_are_gathered_with_what_is_summed() -> None:
    ops, x, g = FUSED.ops, FUSED.input("x", (4, 3, 3, 5), "float32"), FUSED.input("g", (4, 3, 3, 5), "float32")
    masked = ops.where(x > 0, g, 0)
    total = ops.sum(masked, axis=(0, 1, 2))
    assert kernels(FUSED, masked, total, ops.mean(x * g, axis=(0, 1, 2)), inputs=[x, g]).count("sum") == 0
    assert kernels(FUSED, masked - total, inputs=[x, g]) == ["blockwise_several", "subtract"], "the sum comes last"


def test_what_leads_out_and_back_is_not_in_one_group() -> None:
    ops, x = FUSED.ops, FUSED.input("x", (4, 4), "float32")
    y = ops.relu(x * 2 + 1)
    total = ops.cumulative_sum(y, axis=0)
    assert kernels(FUSED, total * y + y, inputs=[x]) == ["blockwise", "cumulative_sum", "blockwise"]


def test_small_values_stay_apart_by_default() -> None:
    lazy = nnc.lazy()
    least = lazy.device.machine.cache
    for rows, wanted in ((least // 8192 // 2, 0), (least // 8192, 1)):
        x = lazy.input("x", (rows, 2048), "float32")
        assert kernels(lazy, lazy.ops.sqrt(x * x + 1), inputs=[x]).count("blockwise") == wanted


def test_the_pass_pickles_with_its_size() -> None:
    for each in (fuse_elementwise, fuse_elementwise.from_size(64)):
        again = pickle.loads(pickle.dumps(each))
        assert (again.name, again.least) == (each.name, each.least)
    assert pickle.loads(pickle.dumps(fuse_elementwise)) is fuse_elementwise


@pytest.mark.parametrize(("rows", "axis", "keepdims"), [(3000, 0, True), (3000, 0, False), (1024, 1, False)])
def test_a_reduction_is_not_written_over_what_later_blocks_read(rows: int, axis: int, keepdims: bool) -> None:
    arrays = [np.random.default_rng(0).random((n, 1024), "float32") for n in (rows, 4)]

    def program(on: Any) -> Any:
        x, w = (on.input(name, a.shape, "float32") for name, a in zip("xw", arrays, strict=True))
        scale = on.ops.cumulative_sum(on.ops.sum(w, axis=0, keepdims=keepdims), axis=-1)
        found = on.ops.sum(on.ops.exp(x * scale * 1e-4), axis=axis, keepdims=keepdims)
        return on.compile(inputs=[x, w], outputs=[on.ops.sort(found, axis=-1)])

    fused = program(FUSED)
    assert "blockwise_several" in [i.op.name for i in fused.plan.instructions]
    np.testing.assert_array_equal(np.asarray(fused(*arrays)), np.asarray(program(PLAIN)(*arrays)))
