"""What any allocator of ours plans can be saved and loaded; an arena that nothing wants is refused (`engine/files`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import nnc_func as nnc
from nnc_func.engine.allocators import ALLOCATORS, Problem, arena_size
from nnc_func.engine.allocators.caching import LARGE_SEGMENT, MIB
from nnc_func.engine.files.limits import HOLE, memory_of
from nnc_func.engine.plan_rows import ARENA
from nnc_func.errors import FileFormatError

GRAPHS: dict[str, Any] = {  # of a stack, a column of 40 numbers and a matrix
    "nothing": lambda s, x, m: x,
    "one buffer": lambda s, x, m: s.ops.tanh(s.ops.sort(x, axis=0)),
    "sorted sums": lambda s, x, m: s.ops.sort(s.ops.cumulative_sum(s.ops.sort(x, axis=0), axis=0), axis=0)[:3] + x[:3],
    "a chain of products": lambda s, x, m: m @ (m @ (m @ x)),
    "branches that meet": lambda s, x, m: s.ops.concat(m @ x, s.ops.sort(x, axis=0), s.ops.softmax(m[0]), axis=0),
    "parts": lambda s, x, m: [s.ops.sort(part, axis=0) for part in s.ops.split(m @ x, sections=4, axis=0)],
    "sizes that grow": lambda s, x, m: [s.ops.sort(m[: n + 1] @ m, axis=1).sum() for n in range(6)],
    "sizes that shrink": lambda s, x, m: [s.ops.sort(m[: 6 - n] @ m, axis=1).sum() for n in range(6)],
    "a gradient": lambda s, x, m: s.grad(lambda x: s.ops.tanh(m @ s.ops.tanh(m @ x)).sum())(x),
    "large ones": lambda s, x, m: s.ops.sort(s.ops.broadcast_to(m, shape=(9, 40, 40)), axis=0)[:, 0, 0] + x[:9],
    "a loop": lambda s, x, m: s.foreach(lambda r, h: (h, s.ops.tanh(s.ops.sort(r + h, axis=0) @ m)), m, x),
    "a loop's gradient": lambda s, x, m: s.grad(
        lambda x: s.foreach(lambda r, h: (h.sum(), s.ops.tanh(r * h)), m, x)[1].sum()
    )(x),
    "a branch": lambda s, x, m: s.cond(x[0] > 0, lambda: m @ s.ops.sort(x, axis=0), lambda: s.ops.sort(x * 2, axis=0)),
}


@pytest.mark.parametrize("name", ALLOCATORS)
def test_what_is_planned_can_be_loaded(name: str, tmp_path: Path) -> None:
    stack = nnc.lazy()
    stack = stack.swap(engine=stack.engine.with_allocator(name))
    draw = np.random.default_rng(0)
    feeds = [draw.normal(size=(40,)), draw.normal(size=(40, 40)) / 9]
    for what, of in GRAPHS.items():
        x, m = stack.input("x", (40,), "float64"), stack.input("m", (40, 40), "float64")
        program = stack.compile([x, m], [of(stack, x, m)])
        program.plan.verify()
        path = tmp_path / "a.program"
        program.save(path)
        read = nnc.load_program(path)
        assert read.plan == program.plan, what
        for one, other in zip(read.run(feeds), program.run(feeds), strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=what)


def test_a_hole_is_what_caching_leaves() -> None:
    """At most a segment for each buffer, whatever the sizes."""
    assert HOLE == LARGE_SEGMENT
    draw = np.random.default_rng(0)
    for most in (64, 3000, 3 * MIB, 12 * MIB, 50 * MIB):
        for _ in range(40):
            lower = draw.integers(0, 9, 12)
            problem = Problem(
                draw.integers(1, most, 12).tolist(), lower.tolist(), (lower + draw.integers(1, 7, 12)).tolist()
            )
            found = arena_size(problem, ALLOCATORS["caching"](problem))
            assert found <= sum(problem.rounded) + len(problem) * HOLE


def test_an_arena_with_more_holes_than_that_is_refused() -> None:
    """Also where the last buffer lies at its end."""
    stack = nnc.lazy()
    x = stack.input("x", (40,), "float64")
    plan = stack.compile([x], [stack.ops.sort(stack.ops.sort(x, axis=0) * 2, axis=0).sum()]).plan
    last = max((b.offset, n) for n, b in enumerate(plan.buffers) if b.kind == ARENA)[1]
    count = sum(b.kind == ARENA for b in plan.buffers)

    def moved(by: int, more: int = 0) -> Any:
        buffers = [evolve(b, offset=b.offset + by) if n == last else b for n, b in enumerate(plan.buffers)]
        return evolve(plan, buffers=tuple(buffers), arena_bytes=plan.arena_bytes + by + more)

    for fine in (0, 1 << 20, (count - 1) * HOLE):
        assert memory_of(moved(fine)) - memory_of(plan) == fine
    for wrong in ((count + 1) * HOLE, 1 << 50):
        with pytest.raises(FileFormatError, match=rf"an arena of {plan.arena_bytes + wrong} bytes for buffers that"):
            memory_of(moved(wrong))
    with pytest.raises(FileFormatError, match=r"for buffers that take"):
        memory_of(moved(1 << 20, 1 << 20))
