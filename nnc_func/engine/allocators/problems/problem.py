"""The allocation problem as data: buffers that want a place, as arrays. Nothing here knows of graphs, or of answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from nnc_func.engine.allocators.problems.checking import check_problem
from nnc_func.engine.allocators.problems.conversion import (
    Integers,
    alignments,
    integers,
    optional_integer,
    optional_integers,
    words,
)
from nnc_func.engine.allocators.problems.fields import ALIGNMENT, Gap, Pieces, Uses, max_load, rows_of_gaps
from nnc_func.engine.allocators.problems.reductions import cut, merged
from nnc_func.locks import cached_property


@frozen(eq=False, slots=False)
class Problem:
    """Buffers that want a place in one arena, as arrays with one element a buffer.

    Attributes
    ----------
    sizes
        Bytes.
    lower, upper
        Lifetimes in steps, half open: a buffer is alive at ``lower <= t < upper``.
    alignment
        Every offset is a multiple of it, in bytes; or one alignment a buffer.
    uses
        Where streams run side by side, lifetimes are of one order of many, and two buffers may share a place only if
        they do not overlap in that order, and are apart by their uses.
    pins
        The offset that a buffer must have, in bytes, or `FREE`; None: all are free.
    gaps
        Parts of lives in which buffers are not alive, or only some of their bytes.
    groups
        Buffers with the same number lie at the same offset, and do not hurt each other (aliases; XLA calls them
        colocations); `ALONE` is no group. None: there are none.
    spaces
        The memory space of each buffer, by number: those of different spaces have nothing to do with each other, and
        offsets count from the start of the space. None: there is one.
    capacity
        The bytes that there are, of each space; None: as many as are needed. It is a wish to the allocator, which
        `answered` checks.
    names
        What to call the buffers; empty: by their numbers.

    Raises
    ------
    PlanError
        Arrays of different lengths, what is no 64-bit integer, a negative size, a lifetime that ends before it
        starts, steps outside of ±2**62, an alignment below one, more than 2**62 bytes in all, a pin that is no
        multiple of the alignment, pins of two buffers that overlap or that end above the capacity, pins that differ in
        a group, a group in two spaces, a gap outside its buffer's life
        or one that overlaps another, a window outside its buffer, or a name that two buffers have.

    Examples
    --------
    >>> Problem([64, 64, 64], [0, 1, 2], [2, 3, 4]).max_load
    128

    The second buffer rests while the third is alive:

    >>> Problem([64, 64, 64], [0, 1, 2], [1, 4, 3], gaps=[Gap(1, 2, 3)]).max_load
    64
    """

    sizes: Integers = field(converter=integers)
    lower: Integers = field(converter=integers)
    upper: Integers = field(converter=integers)
    alignment: int | Integers = field(default=ALIGNMENT, converter=alignments)
    uses: Uses | None = None
    pins: Integers | None = field(default=None, converter=optional_integers)
    gaps: tuple[Gap, ...] = field(default=(), converter=rows_of_gaps)
    groups: Integers | None = field(default=None, converter=optional_integers)
    spaces: Integers | None = field(default=None, converter=optional_integers)
    capacity: int | None = field(default=None, converter=optional_integer)
    names: tuple[str, ...] = field(default=(), converter=words)

    def __attrs_post_init__(self) -> None:
        check_problem(self)

    def __len__(self) -> int:
        return len(self.sizes)

    def name(self, i: int) -> str:
        """A buffer, as messages name it."""
        return repr(self.names[i]) if self.names else str(i)

    @property
    def alignments(self) -> Integers:
        """One alignment a buffer."""
        if isinstance(self.alignment, int):
            return np.full(len(self), self.alignment, np.int64)
        return self.alignment

    @cached_property
    def granularity(self) -> int:
        """Bytes of which every offset is a multiple, the largest number of that kind."""
        return self.alignment if isinstance(self.alignment, int) else math.gcd(*self.alignment.tolist()) or 1

    @cached_property
    def rounded(self) -> Integers:
        """Sizes rounded up to the `granularity`: what they take in any plan whose offsets are aligned."""
        g = self.granularity
        return self.sizes if g == 1 else -(-self.sizes // g) * g

    @cached_property
    def max_load(self) -> int:
        """The most bytes alive at one time, sizes rounded up, summed over spaces: no plan is smaller.

        Buffers of one group count once. Where streams run side by side, of one order of many.
        """
        if self.groups is not None:
            return evolve(merged(self).problem, alignment=self.granularity, pins=None).max_load
        if self.spaces is None and not self.gaps:
            return max_load(self.rounded, self.lower, self.upper)
        pieces = self.pieces
        of = np.zeros(len(pieces.buffer), np.int64) if self.spaces is None else self.spaces[pieces.buffer]
        loads = [
            max_load((pieces.high - pieces.low)[of == s], pieces.lower[of == s], pieces.upper[of == s])
            for s in np.unique(of)
        ]
        return sum(loads)

    @cached_property
    def pieces(self) -> Pieces:
        """What each buffer takes: itself, or, where it has gaps, what is alive of it from time to time."""
        if not self.gaps:
            zero = np.zeros(len(self), np.int64)
            return Pieces(np.arange(len(self)), self.lower, self.upper, zero, self.rounded)
        return cut(self)

    @classmethod
    def from_csv(cls, source: str | PathLike[str], *, alignment: int = 1, capacity: int | None = None) -> Problem:
        """A problem in minimalloc's format, of a text, or of a file whose `Path` is given.

        A first row names the columns, in any order: ``id`` (or ``buffer``, ``buffer_id``), ``lower`` (``begin``,
        ``start``), ``upper`` or ``end``, which is alive too, and ``size``; and as may be ``alignment``, ``gaps``,
        ``offset``, which is a pin, and ``hint``, which is warned of and ignored.

        Parameters
        ----------
        source
            Text of several lines, or a path.
        alignment
            Where there is no column of that name.
        capacity
            Bytes that there are.

        Raises
        ------
        PlanError
            Names the line and the column; or as `Problem` does.

        Examples
        --------
        >>> Problem.from_csv("id,begin,end,size\\na,0,1,64\\nb,2,3,32\\n").max_load
        64
        """
        from nnc_func.engine.allocators.problems.csv_text import parsed

        return parsed(cls, source, alignment, capacity)

    def to_csv(self, offsets: Sequence[int] | Integers | None = None) -> str:
        """In minimalloc's format, with the offsets of a plan, or with the pins.

        Raises
        ------
        PlanError
            The format has no column for groups, spaces or uses: `to_json` has.

        Examples
        --------
        >>> print(Problem([64, 32], [0, 2], [2, 4], 1, gaps=[Gap(0, 1, 2, (0, 16))]).to_csv([0, 16]), end="")
        id,lower,upper,size,gaps,offset
        0,0,2,64,1-2@0:16,0
        1,2,4,32,,16
        """
        from nnc_func.engine.allocators.problems.csv_text import printed

        return printed(self, offsets)

    @classmethod
    def from_json(cls, source: str | PathLike[str]) -> Problem:
        """A problem as `to_json` writes it, of a text, or of a file whose `Path` is given.

        Raises
        ------
        PlanError
            Says what is wrong with the text; or as `Problem` does.
        """
        from nnc_func.engine.allocators.problems.json_text import parsed

        return parsed(cls, source)

    @classmethod
    def from_torch(
        cls, source: str | PathLike[str] | Mapping[str, Any], *, device: int | None = None, alignment: int = 512
    ) -> Problem:
        """The problem of a memory snapshot of PyTorch, which is not needed for it.

        A buffer is a block that was asked for while the trace was recorded, or is in use at its end; steps are events.
        It lives from the event that gives it to the one at which its memory is free, or to the end; what was there
        before the trace begins with it. Streams have memory of their own there, so that they are spaces here.

        Parameters
        ----------
        source
            The path of a file that ``torch.cuda.memory._dump_snapshot`` wrote, or the same as JSON; or what
            ``torch.cuda.memory._snapshot`` returns. In a pickle nothing is called, whatever it asks for.
        device
            Of which GPU; None: of the only one that has events.
        alignment
            Bytes; PyTorch's own.

        Raises
        ------
        PlanError
            It is no such snapshot, its trace is damaged, or several devices have events.
        OSError
            The file cannot be read.

        Examples
        --------
        >>> events = [
        ...     {"action": "alloc", "addr": 0, "size": 700, "stream": 0},
        ...     {"action": "free_completed", "addr": 0, "size": 700, "stream": 0},
        ...     {"action": "alloc", "addr": 1024, "size": 300, "stream": 0},
        ... ]
        >>> problem = Problem.from_torch({"device_traces": [events], "segments": []})
        >>> problem.sizes, problem.lower, problem.upper
        (array([700, 300]), array([0, 2]), array([1, 3]))
        """
        from nnc_func.engine.allocators.problems.torch_snapshot import parsed

        return parsed(cls, source, device, alignment)

    def to_json(self) -> str:
        """All of it, as an object with a list a field.

        Examples
        --------
        >>> from nnc_func.engine.allocators.base import FREE
        >>> print(Problem([64], [0], [2], pins=[FREE]).to_json())
        {"sizes": [64], "lower": [0], "upper": [2], "alignment": 64, "pins": [-1]}
        """
        from nnc_func.engine.allocators.problems.json_text import printed

        return printed(self)

    def conflicting(self, i: int) -> NDArray[np.bool_]:
        """For each buffer, whether it may not share a place with buffer i; so it is with i itself.

        By whole lives: gaps, groups and spaces are not looked at.
        """
        found: NDArray[np.bool_] = (self.lower < self.upper[i]) & (self.upper > self.lower[i])
        return found if self.uses is None else found | ~self.uses.apart(i)

    @property
    def areas(self) -> Sequence[int]:
        """Bytes times steps of each buffer, as integers that do not overflow."""
        lives = self.upper - self.lower
        if len(self) and int(self.sizes.max()) * int(lives.max()) >> 63:
            return [s * t for s, t in zip(self.sizes.tolist(), lives.tolist(), strict=True)]
        return (self.sizes * lives).tolist()  # type: ignore[no-any-return]

    @property
    def widened(self) -> Problem:
        """The problem by lifetimes alone: those of buffers that conflict overlap, being longer than they need be."""
        if self.uses is None:
            return self
        lower = self.lower.copy()
        for i in range(len(self)):
            lower[i] = min(lower[i], self.upper[self.conflicting(i)].min() - 1)
        return evolve(self, lower=lower, uses=None)

    def of(self, buffers: Any) -> Problem:
        """The problem of some of the buffers, in that order."""
        chosen = np.asarray(buffers, np.int64)
        position = {int(b): i for i, b in enumerate(chosen)} if self.gaps else {}
        each = {
            name: None if (given := getattr(self, name)) is None else given[chosen]
            for name in ("sizes", "lower", "upper", "pins", "groups", "spaces")
        }
        return Problem(
            **each,
            alignment=self.alignment if isinstance(self.alignment, int) else self.alignment[chosen],
            uses=None if self.uses is None else self.uses.of(chosen),
            gaps=[evolve(gap, buffer=position[gap.buffer]) for gap in self.gaps if gap.buffer in position],
            capacity=self.capacity,
            names=[self.names[b] for b in chosen] if self.names else (),
        )
