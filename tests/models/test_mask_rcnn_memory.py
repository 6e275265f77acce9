"""Mask R-CNN's memory: no reuse, parents reused, planned (`models/mask_rcnn`, `engine/planning`)."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.allocators import ALLOCATORS
from nnc_func.engine.comparing import bytes_without_reuse

pytestmark = pytest.mark.slow


def test_a_plan_takes_an_eighth_of_no_reuse_at_most() -> None:
    model, null = models.get("mask-rcnn"), nnc.lazy(nnc.Null())
    as_written = null.swap(optimiser=null.optimiser.without_rules(*(rule.name for rule in null.optimiser.rules)))
    parents = as_written.swap(engine=as_written.engine.with_allocator(ALLOCATORS["parent_reuse"]))
    programs = [s.engine.compile(model.make(s, seed=None)) for s in (parents, as_written, null)]
    without = bytes_without_reuse(programs[1].plan)
    reused, planned, rewritten = (program.plan.arena_bytes for program in programs)
    assert without > reused > rewritten
    assert reused > planned
    assert rewritten < planned
    assert max(planned, rewritten) <= without / 8
    for program in programs:
        found = program(np.zeros((1, 1024, 1024, 3), "float32"))
        assert found["masks"].shape == (1, 100, 28, 28)
        assert program.arenas.nbytes == program.plan.arena_bytes


def test_the_arena_is_as_large_as_planned() -> None:
    model = models.get("mask-rcnn").with_options(
        shape=(256, 256, 3), size=(256, 256), limit=600, regions=100, detections=20, confidence=0.0
    )
    stack = nnc.lazy()
    program, (x, _) = stack.engine.compile(model.make(stack)), model.examples()
    tracemalloc.start()
    try:
        found = program(x)
        taken = tracemalloc.take_snapshot().traces
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    arrays = np.lib.tracemalloc_domain
    arena, *others = sorted((t.size for t in taken if t.domain == arrays), reverse=True)
    bound = sum(t.size for t in taken if t.domain != arrays)  # thousands of calls, kept for the next run
    assert program.plan.arena_bytes <= arena <= program.plan.arena_bytes + program.plan.alignment
    assert sum(others) <= 1.1 * sum(each.nbytes for each in found.values()) + 100_000
    assert most - bound <= 1.05 * arena  # nothing large is made beside it while it runs
