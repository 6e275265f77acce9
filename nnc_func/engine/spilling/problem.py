"""The spilling problem as data: values that may leave a small fast memory between two uses; and its answers.

The order of steps is given. Between two steps that touch a value it stays in fast memory, or it does not: then it is
brought back from slow memory before the second one, and before that, once, it is written there. Nothing here knows of
graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import add, index
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from attrs import field, frozen

from nnc_func.engine.naming import name_of
from nnc_func.errors import AnswerError, PlanError
from nnc_func.locks import cached_property

NOTHING: Mapping[int, Any] = MappingProxyType({})


class Gap(NamedTuple):
    """The time between two steps that touch a value, one after the other.

    Attributes
    ----------
    value
        Its number.
    start, end
        The steps; a value that is not kept lies in fast memory at both of them all the same.
    """

    value: int
    start: int
    end: int


def _numbers(values: Iterable[int]) -> frozenset[int]:
    return frozenset(values)


@frozen(eq=False, slots=False)
class SpillProblem:
    """Steps in their order, and values of some bytes that they touch. Both have numbers.

    Attributes
    ----------
    sizes
        Bytes of each value.
    touches
        For each value the steps that touch it, in their order: the first one makes it.
    scratch
        Bytes that each step needs while it runs, besides; as many as there are steps.
    overwrites
        For steps that may make a value in the memory of one that they read: pairs of the value, and those it may lie
        over. It does, over the first that has as many bytes and is not kept in fast memory behind the step.
    complete
        For values that are made in parts the step that makes the last one. They are not moved before.
    clean
        Values that slow memory has from the beginning: they are never written there, and what makes one brings it.
    kept
        Values that are not moved.
    lasting
        Values that are wanted at the end; they are not moved.

    Raises
    ------
    PlanError
        A negative size, steps that there are not or that do not ascend, or a value that there is not.

    Examples
    --------
    Two values that are made first and read last, and one between, which is made and read at once:

    >>> problem = SpillProblem([8, 8, 16], [(0, 5), (1, 4), (2, 3)], [0] * 6)
    >>> problem.gaps
    (Gap(value=0, start=0, end=5), Gap(value=1, start=1, end=4), Gap(value=2, start=2, end=3))
    >>> simulated(problem, ()), simulated(problem, [0])
    (<movement: peak 32, 0 bytes moved>, <movement: peak 24, 16 bytes moved>)
    """

    sizes: Sequence[int]
    touches: Sequence[Sequence[int]]
    scratch: Sequence[int]
    overwrites: Mapping[int, Sequence[tuple[int, Sequence[int]]]] = NOTHING
    complete: Mapping[int, int] = NOTHING
    clean: frozenset[int] = field(default=frozenset(), converter=_numbers)
    kept: frozenset[int] = field(default=frozenset(), converter=_numbers)
    lasting: frozenset[int] = field(default=frozenset(), converter=_numbers)

    def __attrs_post_init__(self) -> None:
        count, steps = len(self.sizes), len(self.scratch)
        if len(self.touches) != count:
            raise PlanError(f"{count} sizes of values, and {len(self.touches)} lists of the steps that touch them")
        if min((0, *self.sizes, *self.scratch)) < 0:
            raise PlanError("sizes are 0 or more")
        for value, touched in enumerate(self.touches):
            if not touched or touched[0] < 0 or touched[-1] >= steps or any(a >= b for a, b in pairwise(touched)):
                raise PlanError(f"value {value} is touched by {[*touched]}: wanted steps below {steps} that ascend")
        named = {*self.clean, *self.kept, *self.lasting, *self.complete}
        for step, pairs in self.overwrites.items():
            for made, homes in pairs:
                named.update((made, *homes))
                if not 0 <= step < steps:
                    raise PlanError(f"step {step} writes over values, of {steps} steps")
        if strange := [v for v in named if not 0 <= v < count]:
            raise PlanError(f"there is no value {strange[0]}: there are {count}")

    def __len__(self) -> int:
        return len(self.scratch)

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """Where values may be out of fast memory, value by value."""
        still = self.kept | self.lasting
        return tuple(
            Gap(value, start, end)
            for value, touched in enumerate(self.touches)
            if value not in still and self.sizes[value]
            for start, end in pairwise(touched)
            if start >= self.complete.get(value, 0)
        )

    @cached_property
    def costs(self) -> tuple[int, ...]:
        """For each gap the bytes that are brought back if it is spent in slow memory.

        What slow memory has is brought later then, and no second time, where the gap is behind its being made.
        """
        return tuple(
            0 if value in self.clean and start == self.touches[value][0] else self.sizes[value]
            for value, start, _ in self.gaps
        )

    @cached_property
    def at(self) -> Mapping[tuple[int, int], int]:
        """For a value and the step at which one of its gaps starts, the number of that gap."""
        return {(value, start): number for number, (value, start, _) in enumerate(self.gaps)}

    @cached_property
    def loads(self) -> tuple[int, ...]:
        """The bytes in fast memory at each step where nothing is moved, and nothing written over."""
        change = [0] * (len(self) + 1)
        for value, (size, touched) in enumerate(zip(self.sizes, self.touches, strict=True)):
            change[touched[0]] += size
            change[len(self) if value in self.lasting else touched[-1] + 1] -= size
        return tuple(map(add, accumulate(change[:-1]), self.scratch))

    @cached_property
    def base(self) -> Movement:
        """What it takes where nothing is moved."""
        return simulated(self, ())

    @cached_property
    def least(self) -> Movement:
        """What it takes where everything is moved that may be: no answer takes fewer bytes of fast memory."""
        return simulated(self, range(len(self.gaps)))

    def saved(self, step: int, dropped: Collection[int]) -> int:
        """The bytes that a step spares by writing over values, where those gaps are spent in slow memory."""
        found, taken = 0, set[int]()
        for made, homes in self.overwrites.get(step, ()):
            for home in homes:
                if home in taken or self.sizes[home] != self.sizes[made] or home in self.lasting:
                    continue
                if self.touches[home][-1] == step or self.at.get((home, step), -1) in dropped:
                    taken.add(home)
                    found += self.sizes[made]
                    break
        return found


class Policy(Protocol):
    """Maps a problem and a capacity, in bytes, to the gaps that values spend in slow memory, by number.

    It knows nothing else, and is deterministic. The peak should be within the capacity, for as few bytes moved as can
    be; where there is no such answer, the least peak.
    """

    def __call__(self, problem: SpillProblem, capacity: int) -> Collection[int]: ...


@frozen(eq=False, repr=False)
class Movement:
    """What an answer takes.

    Attributes
    ----------
    dropped
        The gaps that values spend in slow memory.
    loads
        For each step the bytes in fast memory.
    spilled, fetched
        Bytes that are written to slow memory, and brought back.
    """

    dropped: frozenset[int]
    loads: Sequence[int]
    spilled: int
    fetched: int

    @property
    def peak(self) -> int:
        """The most bytes in fast memory at one time."""
        return max(self.loads, default=0)

    @property
    def moved(self) -> int:
        """Bytes moved, there and back."""
        return self.spilled + self.fetched

    def __repr__(self) -> str:
        return f"<movement: peak {self.peak}, {self.moved} bytes moved>"


def simulated(problem: SpillProblem, dropped: Iterable[int]) -> Movement:
    """The bytes in fast memory at each step, and those moved, where these gaps are spent in slow memory.

    A spilled value is written to slow memory behind the step that completes it, and brought back before the step at the
    end of a gap; what is in fast memory meanwhile is there at one of the two steps beside, too.

    Examples
    --------
    A value is written once, however often it is brought back; one that slow memory has is not written:

    >>> problem = SpillProblem([8], [(0, 2, 4)], [0] * 5)
    >>> simulated(problem, [0]).moved, simulated(problem, [0, 1]).moved
    (16, 24)
    """
    chosen = frozenset(dropped)
    sizes, gaps = problem.sizes, problem.gaps
    away = [0] * len(problem)
    for number in chosen:
        value, start, end = gaps[number]
        away[start + 1] -= sizes[value]
        away[end] += sizes[value]
    loads = [*map(add, problem.loads, accumulate(away))]
    for step in problem.overwrites:
        loads[step] -= problem.saved(step, chosen)
    spilled = {gaps[number].value for number in chosen} - problem.clean
    fetched = sum(map(problem.costs.__getitem__, chosen))
    return Movement(chosen, loads, sum(map(sizes.__getitem__, spilled)), fetched)


def answered(policy: Policy, problem: SpillProblem, capacity: int) -> Movement:
    """The policy's answer, simulated.

    Raises
    ------
    PlanError
        It is no collection of the problem's gaps; names the policy.
    """
    name, answer = name_of(policy), policy(problem, capacity)
    try:
        chosen = [index(number) for number in answer]
    except TypeError as error:
        raise AnswerError(f"the policy {name} gave no numbers of gaps, but {answer!r:.80}: {error}") from None
    if strange := [number for number in chosen if not 0 <= number < len(problem.gaps)]:
        raise AnswerError(f"the policy {name} gave gap {strange[0]}, of {len(problem.gaps)}")
    return simulated(problem, chosen)
