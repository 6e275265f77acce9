"""Random programs with loops and branches compute as plain Python, whatever is done to them (`testing/control_steps`).

Values are those of NumPy's reference kernels and Python's `for`, `while` and `if`; derivatives are the eager stack's of
the same loops written out step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import assume, given, settings

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.testing import differential, variations
from nnc_func.testing.agreement import SLOPE, agree, comparable, gradients
from nnc_func.testing.control_steps import Block, Branch, Loop, While
from nnc_func.testing.programs import INPUT, LARGEST, Program, programs
from tests.onnx.test_exported_graphs import computes

EAGER, LAZY = nnc.eager(), nnc.lazy()
BOTH = {"eager": EAGER, "lazy": LAZY}
ANY, SMOOTH = programs(control_flow=True, most_steps=9), programs(control_flow=True, smooth=True, most_steps=6)
HOWS: tuple[tuple[tuple[str, Any], ...], ...] = (
    (), *((("checkpoint", each),) for each in ("full", "sqrt", 1, 2)), *((("unroll", each),) for each in (2, 3, True)),
)  # fmt: skip


# --- on every engine, and as plans ---------------------------------------------------------------------------


def test_values_are_plain_pythons() -> None:
    assert differential(ANY, BOTH, examples=15) == 15


def test_gradients_are_plain_pythons() -> None:
    assert differential(SMOOTH, BOTH, examples=10, gradients=True) == 10


def test_memory_that_is_poisoned_and_rewrites_that_are_computed_twice() -> None:
    assert differential(ANY, LAZY, examples=10, spec=3) == 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_ten_thousand_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred from each of a hundred seeds: those of one seed are alike, as Hypothesis varies what it has drawn."""
    monkeypatch.setattr(config, "seed", seed)
    deep = programs(control_flow=True, smooth=True, most_steps=8)
    assert differential(deep, BOTH, examples=100, gradients=True) == 100


@pytest.mark.slow
def test_every_allocator_and_order() -> None:
    stacks = {**variations(LAZY), "eager over lazy": nnc.eager(LAZY)}
    assert differential(programs(control_flow=True), stacks, examples=1000, spec=3, at_a_time=3) == 1000


# --- whatever is done to them ----------------------------------------------------------------------------


def wanted_gradients(program: Program) -> tuple[list[Any], float]:
    """Gradients of it written out, and a number that is larger than those on the way."""
    _, met = program.on_arrays([leaf.value() for leaf in program.leaves])
    comparable(met.largest, SLOPE)
    found = [g for each in gradients(program, EAGER, how="at once", decisions=met.decisions) for g in each]
    assume(all(np.isfinite(g).all() for g in found))
    return found, max([met.largest, 1.0, *(float(np.abs(g).max()) for g in found if g.size)])


def loss_of(program: Program, stack: Any, decisions: Sequence[int] | None = None) -> Any:
    """The sum of squares of the outputs' hyperbolic tangents, of all leaves."""

    def loss(*tensors: Any) -> Any:
        if decisions is None:
            values = program.applied(stack, tensors)
        else:
            values = program.written_out(stack, tensors, decisions)
        outputs = [values[o] for o in program.outputs if values[o].dtype.kind == "f"]
        return sum(((stack.ops.tanh(y) ** 2).sum() for y in outputs), stack.asarray(0.0))

    return loss


def with_how(step: Any, how: tuple[tuple[str, Any], ...]) -> Any:
    """The step, where all loops that go a known number of times are kept and written out like that."""

    def inside(block: Block) -> Block:
        return evolve(block, steps=tuple([with_how(each, how) for each in block.steps]))

    if isinstance(step, Loop):
        takes = step.count is None and not (step.form == "fori" and dict(how).keys() & {"unroll"})
        return evolve(step, how=how if takes else (), body=inside(step.body))
    if isinstance(step, While):
        return evolve(step, condition=inside(step.condition), body=inside(step.body))
    if isinstance(step, Branch):
        default = inside(step.default) if isinstance(step.default, Block) else step.default
        return evolve(step, blocks=tuple(map(inside, step.blocks)), default=default)
    return step


def however_it_is_kept(program: Program, hows: Sequence[tuple[tuple[str, Any], ...]]) -> None:
    wanted, largest = wanted_gradients(program)
    for how in hows:
        other = evolve(program, steps=tuple([with_how(step, how) for step in program.steps]))
        for stack in BOTH.values():
            for found in gradients(other, stack):
                agree(found, wanted, other, largest * 10, f"with {dict(how)}, gradient")


def forwards(program: Program) -> None:
    wanted, largest = wanted_gradients(program)
    values, draw = [leaf.value() for leaf in program.leaves], np.random.default_rng(0)
    directions = [draw.uniform(-1, 1, x.shape) for x in values]
    slope = np.float64(sum(np.vdot(g, d) for g, d in zip(wanted, directions, strict=True)))
    for stack in BOTH.values():
        given = [stack.asarray(x) for x in values], [stack.asarray(d) for d in directions]
        _, found = stack.jvp(loss_of(program, stack), *given)
        agree([found.numpy()], [slope], program, largest * 100, "slope")


def twice(program: Program) -> None:
    values, draw = [leaf.value() for leaf in program.leaves], np.random.default_rng(0)
    _, met = program.on_arrays(values)
    comparable(met.largest, SLOPE / 10)
    given = values, [draw.uniform(-1, 1, x.shape) for x in values]
    found = []
    for stack, decisions in ((EAGER, met.decisions), (EAGER, None), (LAZY, None)):
        tensors = [[stack.asarray(x) for x in each] for each in given]
        found.append([h.numpy() for h in stack.hvp(loss_of(program, stack, decisions), *tensors)])
    assume(all(np.isfinite(h).all() for h in found[0]))
    largest = max([met.largest, 1.0, *(float(np.abs(h).max()) for h in found[0] if h.size)])
    comparable(largest, LARGEST)
    for each in found[1:]:
        agree(each, found[0], program, largest * 1000, "second derivative")


def from_a_file(program: Program, folder: Path) -> None:
    built = program.build(LAZY)
    built.program.save(folder / "program.nnc")
    loaded = nnc.load_program(folder / "program.nnc", LAZY)
    loaded.save(folder / "again.nnc")
    assert (folder / "again.nnc").read_bytes() == (folder / "program.nnc").read_bytes()
    state = [v.value() for v in program.variables]
    for seed in (0, 1):
        wanted, state, largest = program.run_numpy(program.feeds(seed), state)
        comparable(largest, LARGEST)
        agree([np.asarray(y) for y in loaded(*program.feeds(seed))], wanted, program, largest, "from a file, output")


def row_by_row(program: Program) -> None:
    assume(program.inputs)
    rows = [program.feeds(seed) for seed in (0, 1, 2)]
    found = [program.run_numpy(row, [v.value() for v in program.variables]) for row in rows]
    largest = max(each for _, _, each in found)
    comparable(largest, LARGEST)
    wanted = [np.stack(each) for each in zip(*(outputs for outputs, _, _ in found), strict=True)]
    for stack in BOTH.values():

        def of_one(*xs: Any, stack: Any = stack) -> list[Any]:
            given = iter(xs)
            leaves = [next(given) if n.kind == INPUT else stack.asarray(n.value()) for n in program.leaves]
            values = program.applied(stack, leaves)
            return [values[o] for o in program.outputs]

        batches = [stack.asarray(np.stack(each)) for each in zip(*rows, strict=True)]
        agree([y.numpy() for y in stack.vmap(of_one)(*batches)], wanted, program, largest, "by vmap, output")


@settings(max_examples=3)
@given(SMOOTH)
def test_every_way_to_keep_what_a_derivative_reads(program: Program) -> None:
    however_it_is_kept(program, HOWS)


@settings(max_examples=6)
@given(SMOOTH)
def test_forward_mode(program: Program) -> None:
    forwards(program)


@settings(max_examples=6)
@given(SMOOTH)
def test_second_derivatives(program: Program) -> None:
    twice(program)


@settings(max_examples=8)
@given(program=ANY)
def test_files(program: Program, tmp_path_factory: pytest.TempPathFactory) -> None:
    from_a_file(program, tmp_path_factory.mktemp("program"))


@settings(max_examples=8)
@given(ANY)
def test_vmap_is_a_loop_over_rows(program: Program) -> None:
    row_by_row(program)


@settings(max_examples=8)
@given(ANY)
def test_onnxruntime(program: Program) -> None:
    computes(program, optimised=True)


@pytest.mark.slow
@settings(max_examples=300)
@given(program=ANY)
def test_many_in_files_by_vmap_and_by_onnxruntime(program: Program, tmp_path_factory: pytest.TempPathFactory) -> None:
    from_a_file(program, tmp_path_factory.mktemp("program"))
    row_by_row(program)
    computes(program, optimised=False)
    computes(program, optimised=True)


@pytest.mark.slow
@settings(max_examples=300)
@given(SMOOTH)
def test_many_derivatives(program: Program) -> None:
    however_it_is_kept(program, HOWS)
    forwards(program)
    twice(program)
