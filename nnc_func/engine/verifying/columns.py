"""The numbers of a plan as arrays: each is looked at once, and is one, before anything is computed with it.

Part of verification, which looks at whole columns where it can: a plan has a hundred thousand numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from nnc_func.aval import Aval
from nnc_func.device.shared.bounds import LIMIT
from nnc_func.engine.plan_rows import ARENA
from nnc_func.errors import PlanError
from nnc_func.facets.places import Place

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

flat = chain.from_iterable
Numbers = NDArray[np.int64]


@frozen(eq=False)
class Columns:
    """Columns of a plan's tables.

    Attributes
    ----------
    kinds, places, nbytes, lower, upper, offset
        Of each buffer.
    in_arena
        Whether it lies in one; so do most.
    home, avals
        Of each slot: its buffer; the number of its aval as an object, by which alike ones are told.
    known
        The avals, by these numbers.
    operands, results, scratch
        Of each instruction, how many.
    used
        The slots of these, instruction by instruction.
    """

    kinds: list[str]
    places: list[Place]
    nbytes: Numbers
    lower: Numbers
    upper: Numbers
    offset: Numbers
    in_arena: NDArray[np.bool_]
    home: Numbers
    avals: Numbers
    known: dict[int, Aval]
    operands: Numbers
    results: Numbers
    scratch: Numbers
    used: Numbers

    @property
    def ends(self) -> Numbers:
        """For each instruction where its slots end among those that are used."""
        found: Numbers = np.cumsum(self.operands + self.results + self.scratch)
        return found

    @property
    def written(self) -> Numbers:
        """The slots that are results or scratch."""
        counts = self.operands + self.results + self.scratch
        starts = np.repeat(self.ends - counts, counts)
        found: Numbers = self.used[np.arange(len(self.used)) - starts >= np.repeat(self.operands, counts)]
        return found


def check_numbers(plan: Plan) -> Columns:
    """The columns of a plan, whose numbers are integers, of type `int`, below 2⁶²; the alignment is a power of two.

    Raises
    ------
    PlanError
        Says which number is none, or too large.
    """
    b, s, i = plan.buffers, plan.slots, plan.instructions
    leaves = plan.inputs, plan.variables, plan.constants
    found = {  # a list of each attribute takes half the time of rows of them
        "arenas, alignment, commit section": [*plan.arenas.values(), plan.alignment, plan.commit],
        "leaves, outputs, updates": [*flat((*leaves, plan.outputs, *plan.updates, plan.retained or ()))],
        "bytes of buffers": [x.nbytes for x in b],
        "lower ends of lifetimes": [x.lower for x in b],
        "upper ends of lifetimes": [x.upper for x in b],
        "offsets of buffers": [x.offset for x in b],
        "sources of buffers": [x.source for x in b],
        "buffers of slots": [x.buffer for x in s],
        "offsets of slots": [x.offset for x in s],
        "strides": [*flat([x.strides for x in s if x.strides is not None])],
        "operands, results, scratch": [*flat([x.operands + x.results + x.scratch for x in i])],
        "streams": [x.stream for x in i],
        "waits": [*flat([x.waits for x in i if x.waits])],
    }
    numbers = _packed(found)
    if plan.alignment < 1 or plan.alignment & (plan.alignment - 1):
        raise PlanError(f"offsets aligned to {plan.alignment}: wanted a power of two")
    if min(plan.arenas.values()) < 0:
        raise PlanError(f"an arena of {min(plan.arenas.values())} bytes")
    avals, kinds = [x.aval for x in s], [x.kind for x in b]
    return Columns(
        kinds=kinds,
        places=[x.place for x in b],
        nbytes=numbers["bytes of buffers"],
        lower=numbers["lower ends of lifetimes"],
        upper=numbers["upper ends of lifetimes"],
        offset=numbers["offsets of buffers"],
        in_arena=np.array([kind == ARENA for kind in kinds], bool),
        home=numbers["buffers of slots"],
        avals=np.fromiter(map(id, avals), np.int64, len(avals)),
        known={id(aval): aval for aval in set(avals)},
        operands=np.array([len(x.operands) for x in i], np.int64),
        results=np.array([len(x.results) for x in i], np.int64),
        scratch=np.array([len(x.scratch) for x in i], np.int64),
        used=numbers["operands, results, scratch"],
    )


def _packed(columns: Mapping[str, Sequence[Any]]) -> Mapping[str, Numbers]:
    """The columns as arrays."""
    found = [*flat(columns.values())]
    if [*map(type, found)].count(int) < len(found):
        raise _wrong(columns)
    try:
        packed = np.fromiter(found, np.int64, len(found))
    except OverflowError:
        raise _wrong(columns) from None
    if packed.min() <= -LIMIT or packed.max() >= LIMIT:
        raise _wrong(columns)
    ends = np.cumsum([*map(len, columns.values())])
    return dict(zip(columns, np.split(packed, ends[:-1]), strict=True))


def _wrong(columns: Mapping[str, Sequence[Any]]) -> PlanError:
    """Which number is none, or too large."""
    for what, numbers in columns.items():
        for n in numbers:
            if type(n) is not int or abs(n) >= LIMIT:
                return PlanError(f"{what}: {n!r} is no integer below 2⁶²")
    raise AssertionError("all of them are")


def first_of(wrong: Any) -> int:
    """The position of the first of those that are; -1 where none is.

    Examples
    --------
    >>> first_of(np.array([False, True, True])), first_of(np.zeros(3, bool))
    (1, -1)
    """
    return int(wrong.argmax()) if wrong.any() else -1


def alike(rows: Sequence[Any]) -> list[int]:
    """Of rows that are equal the position of the first, in order.

    Examples
    --------
    >>> alike(["a", "b", "a", "c", "b"])
    [0, 1, 3]
    """
    return sorted(dict(zip(reversed(rows), range(len(rows) - 1, -1, -1), strict=True)).values())
