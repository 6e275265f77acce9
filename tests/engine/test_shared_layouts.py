"""Layouts of one graph with commit sections of several lengths: what they share, and which are not made at all."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.config import config
from nnc_func.engine.allocators import BestFit, Problem, answered, arena_size
from nnc_func.engine.allocators.outward_fit import OutwardFit
from nnc_func.engine.planning import planner
from nnc_func.engine.planning.committing import Arrangement, long, short
from nnc_func.engine.planning.kernel_table import NO_TABLE, kernels_of
from nnc_func.engine.planning.layouts import Layouts
from nnc_func.engine.planning.sharing import footprint
from nnc_func.engine.planning.storages import Storages
from nnc_func.graph.node import topological


def _step(name: str) -> tuple[Any, Any]:
    stack = nnc.lazy(nnc.Null())
    graph = models.get(name).training(stack, 8, seed=None)
    return stack, stack.graph.optimised(graph)[0]


def _arrangements(stack: Any, graph: Any) -> tuple[Any, list[Arrangement]]:
    kernels, *_ = kernels_of(graph, stack.device, NO_TABLE)
    sequence = [n for n in topological(graph.roots) if n in kernels]
    return kernels, [short(graph, kernels, sequence), *long(kernels, sequence)]


def _layouts(stack: Any, graph: Any, kernels: Any) -> Layouts:
    order = partial(planner._shared, orders=stack.engine.orders, scheduler=planner.serial, streams=1, retain=None)
    return Layouts(graph, kernels, partial(Storages, graph, kernels), 64, None, order)


@pytest.mark.parametrize("name", ["mnist", "lenet-5"])
def test_arrangements_share_instructions_and_take_what_each_takes_alone(name: str) -> None:
    stack, graph = _step(name)
    kernels, arrangements = _arrangements(stack, graph)
    together = _layouts(stack, graph, kernels)
    for arranged in arrangements:
        shared, alone = together.laid(arranged), _layouts(stack, graph, kernels).laid(arranged)
        assert footprint(shared) == footprint(alone)
        assert (shared.commit, shared.order) == (alone.commit, alone.order)
        assert [row[0] for row in shared.instructions] == [row[0] for row in alone.instructions]
    assert len(arrangements) > len(together.defined) == 1


def test_a_short_section_that_is_surely_dear_is_not_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its updates are products of matrices, which come before it: each takes a fresh array beside its variable."""
    asked: list[Arrangement] = []
    laid = Layouts.laid

    def watched(self: Layouts, arranged: Arrangement) -> Storages:
        asked.append(arranged)
        return laid(self, arranged)

    stack, graph = _step("mnist")
    kernels, (brief, first, *_) = _arrangements(stack, graph)
    monkeypatch.setattr(Layouts, "laid", watched)
    plan = stack.engine.compile(graph).plan.verify()
    assert {a.early for a in asked} == {first.early}
    assert not any(b.kind == "next" for b in plan.buffers)
    monkeypatch.undo()
    assert footprint(_layouts(stack, graph, kernels).laid(brief)) > 5 * plan.arena_bytes


def test_applications_of_one_form_are_asked_about_once() -> None:
    lazy = nnc.lazy()
    x, y = (lazy.input(name, (2, 5), "float32") for name in "xy")
    z = lazy.input("z", (5,), "float32")
    values = [lazy.ops.softmax(v, axis=-1).value for v in (x, y, z)]
    kernels, recorded, alike = kernels_of(lazy.graph.close([x.value, y.value, z.value], values), lazy.device, NO_TABLE)
    first, second, other = (v.node for v in values)
    assert alike[second] is first
    assert kernels[second] is kernels[first]
    assert other not in alike
    assert not recorded


def test_zeros_that_look_alike_are_forms_of_their_own() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (4,), "float32")
    fills = [lazy.ops.full(shape=(4,), value=v, dtype="float32") for v in (0.0, -0.0)]
    graph = lazy.graph.close([x.value], [lazy.ops.maximum(x, f).value for f in fills])
    _, _, alike = kernels_of(graph, lazy.device, NO_TABLE)
    assert not any(node.op.name == "full" for node in alike)


def test_outward_fit_stacks_what_is_alive_at_the_busiest_step() -> None:
    """As a step of training: values that live from the forward pass to the backward one, and passing ones between."""
    draw = np.random.default_rng(0)
    count = 40
    sizes = (64 * draw.integers(1, 64, 3 * count)).tolist()
    lower, upper = [*range(0, 2 * count, 2)], [4 * count - t for t in range(0, 2 * count, 2)]
    starts = [*range(0, 4 * count, 2)]
    problem = Problem(sizes, lower + starts, upper + [t + 2 for t in starts])
    offsets = answered(OutwardFit(), problem)
    assert arena_size(problem, offsets) == problem.max_load
    assert arena_size(problem, answered(BestFit(), problem)) > 1.01 * problem.max_load


def test_only_what_no_part_of_a_gradient_covers_is_zeroed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of slices add up in the whole that they are parts of; the rest of it, and only that, is filled.

    Memory is poisoned before each instruction: what was left out would be NaN.
    """
    monkeypatch.setattr(config, "spec", 3)
    lazy = nnc.lazy()
    x = lazy.input("x", (12, 3), "float32")

    def loss(x: Any) -> Any:
        return (x[:4] ** 2).sum() + lazy.ops.sin(x[7:10]).sum()

    program = lazy.compile([x], lazy.grad(loss)(x))
    plan = program.plan
    filled = [i for i in plan.instructions if i.op.name == "fill"]
    assert sum(plan.slots[i.results[0]].aval.size for i in filled) == (12 - 4 - 3) * 3
    assert not any(i.op.name in ("copy", "full", "pad", "assemble", "add") for i in plan.instructions if not i.view)
    given = np.random.default_rng(0).standard_normal((12, 3)).astype("float32")
    wanted = np.zeros_like(given)
    wanted[:4], wanted[7:10] = 2 * given[:4], np.cos(given[7:10])
    np.testing.assert_allclose(np.asarray(program(given)), wanted, rtol=1e-6)
