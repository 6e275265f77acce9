"""What an allocator is, and what becomes of its answer. Nothing here knows of graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import add, index
from typing import Any, Protocol

import numpy as np
from attrs import evolve

from nnc_func.engine.allocators.placement.fits import first_fit
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import ALIGNMENT, FREE, MOST_BYTES, Gap, Pieces, Uses, max_load
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.allocators.problems.reductions import by_space, merged
from nnc_func.engine.naming import name_of
from nnc_func.errors import AnswerError, PlanError

__all__ = [
    "ALIGNMENT", "FREE", "Allocator", "Gap", "Integers", "Pieces", "Problem", "Uses", "answered", "arena_size",
    "max_load",
]  # fmt: skip

FEATURES = ("uses", "pins", "gaps", "alignments")


class Allocator(Protocol):
    """Maps a problem to one offset a buffer, in bytes. It knows nothing else, and is deterministic.

    It is given problems with sizes, lifetimes and one alignment: groups are one buffer by then, and spaces are
    problems of their own. Whoever minds more says so by an attribute ``handles``, a set of some of ``"uses"``,
    ``"pins"``, ``"gaps"`` and ``"alignments"``. What it does not handle is taken out before: lives are longer then, and
    whole. Where that costs bytes, or there are pins, the answer is read as an order, and buffers are put one after
    the other into the first place that they may have.
    """

    def __call__(self, problem: Problem) -> Sequence[int] | Integers: ...


def answered(allocator: Allocator, problem: Problem) -> list[int]:
    """The allocator's offsets, for whatever a problem may say.

    Raises
    ------
    PlanError
        They are not one integer, zero or more, a buffer; names the allocator. Or they need more bytes than the
        problem has. Overlaps are for `verify`.
    """
    if problem.spaces is None and problem.groups is None:
        offsets = eased(allocator, problem)
        _fits(allocator, problem, offsets)
        return offsets
    found = [0] * len(problem)
    for buffers, part in by_space(problem):
        reduced = merged(part)
        offsets = eased(allocator, reduced.problem)
        for b, stands_for in zip(buffers.tolist(), reduced.stands_for.tolist(), strict=True):
            found[b] = offsets[stands_for]
        _fits(allocator, reduced.problem, offsets)
    return found


def eased(allocator: Allocator, problem: Problem) -> list[int]:
    """The allocator's offsets for a problem without groups and spaces: asked of what it handles, and put right.

    Raises
    ------
    PlanError
        As `answered` does, but for the capacity.
    """
    handled = frozenset(getattr(allocator, "handles", ()))
    unknown = handled.difference(FEATURES)
    if unknown:
        raise PlanError(f"the allocator {name_of(allocator)} says it handles {min(unknown)!r}; there are {FEATURES}")
    lost: dict[str, Any] = {}
    if problem.pins is not None and "pins" not in handled:
        lost["pins"] = None
    if problem.gaps and "gaps" not in handled:
        lost["gaps"] = ()
    if not isinstance(problem.alignment, int) and "alignments" not in handled:
        lost["alignment"] = math.lcm(*problem.alignment.tolist())
    easier = evolve(problem, **lost, capacity=None) if lost else problem
    if problem.uses is not None and "uses" not in handled:
        easier = easier.widened  # without pins where these are lost: longer lives may meet at one place
    offsets = _checked(allocator, easier)
    if not lost:
        return offsets
    order = sorted(range(len(problem)), key=lambda i: (offsets[i], -int(problem.sizes[i]), i))
    squeezed = first_fit(problem, order)
    if problem.pins is None and arena_size(problem, offsets) <= arena_size(problem, squeezed):
        return offsets
    return squeezed


def _checked(allocator: Allocator, problem: Problem) -> list[int]:
    name = name_of(allocator)
    given = allocator(problem)
    try:
        offsets = [*map(index, given.tolist() if isinstance(given, np.ndarray) else given)]
    except TypeError as error:
        raise AnswerError(f"the allocator {name} gave no integers, one a buffer, but {given!r:.80}: {error}") from None
    if len(offsets) != len(problem):
        raise AnswerError(f"the allocator {name} gave {len(offsets)} offsets for {len(problem)} buffers")
    if min(offsets, default=0) < 0:
        raise AnswerError(f"the allocator {name} gave a negative offset, {min(offsets)}")
    if max(offsets, default=0) > MOST_BYTES:
        raise AnswerError(f"the allocator {name} gave the offset {max(offsets)}; wanted less than 2**62")
    return offsets


def _fits(allocator: Allocator, problem: Problem, offsets: Sequence[int]) -> None:
    if problem.capacity is None:
        return
    needed = arena_size(problem, offsets)
    if needed > problem.capacity:
        least = lower_bound(problem)
        can = f"no plan needs less than {least}" if least > problem.capacity else "another allocator may do with less"
        raise PlanError(
            f"the capacity is {problem.capacity} bytes, and the plan of {name_of(allocator)} needs {needed}; {can}"
        )


def lower_bound(problem: Problem) -> int:
    """No plan is smaller than what is alive at once, or than the end of a pinned buffer; summed over spaces.

    Examples
    --------
    >>> lower_bound(Problem([64, 64], [0, 1], [1, 2])), lower_bound(Problem([64, 64], [0, 1], [1, 2], pins=[FREE, 192]))
    (64, 256)
    """
    if problem.pins is None:
        return problem.max_load
    return sum(
        max(part.max_load, int((part.pins + part.rounded)[part.pins != FREE].max(initial=0)))
        for part in (merged(each).problem for _, each in by_space(problem))
        if part.pins is not None
    )


def is_ours(allocator: Any) -> bool:
    """Whether the allocator is one of this package's, whose plans are checked by our tests and not once more."""
    return type(allocator).__module__.startswith(f"{__package__}.")


def arena_size(problem: Problem, offsets: Sequence[int] | Integers) -> int:
    """Bytes of the arena that a plan needs, summed over spaces.

    Raises
    ------
    AnswerError
        An offset has no room in 64 bits.

    Examples
    --------
    >>> problem = Problem([64, 128], [0, 0], [1, 1], spaces=[0, 1])
    >>> arena_size(problem, [0, 0]), problem.max_load
    (192, 192)
    """
    if problem.spaces is not None:
        try:
            ends = np.asarray(offsets, np.int64) + problem.rounded
        except OverflowError:
            raise AnswerError(f"wanted offsets of 64 bits, given {max(offsets, key=abs)}") from None
        return sum(int(ends[problem.spaces == space].max()) for space in np.unique(problem.spaces))
    if isinstance(offsets, np.ndarray):
        return int((offsets + problem.rounded).max(initial=0))
    return max(map(add, offsets, problem.rounded.tolist()), default=0)
