"""A loop is an instruction of a plan: it holds the plan of its body, and where that one's values lie each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from nnc_func.declaration import Items

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

PLANNED = "planned"  # the name of the kernel that is a plan
ENDLESS = (1 << 59) - 1  # the count of a loop that nothing bounds: as many digits as the text of a plan may have


@frozen
class Address:
    """Where a value lies, by how many times the loop has gone: an array of the loop's instruction, or a row of one.

    Attributes
    ----------
    cycle
        Arrays, by their numbers among operands, results and scratch, in that order: one a time, again and again.
    first
        The same of the first times, before the cycle.
    step
        Rows of the array from one time of the cycle to the next, 1 or -1; 0: it is all of the array.
    start
        The row at the first time of the cycle. Where a loop goes fewer times than it may, and from the last row to the
        first, it starts so many rows before.

    Examples
    --------
    A carry that starts as the first operand, and then is in two arrays by turns:

    >>> [Address((5, 2), first=(0,)).at(i) for i in range(4)]
    [(0, None), (5, None), (2, None), (5, None)]

    Rows of the third operand:

    >>> [Address((2,), step=1).at(i) for i in range(3)]
    [(2, 0), (2, 1), (2, 2)]
    """

    cycle: tuple[int, ...]
    first: tuple[int, ...] = ()
    step: int = 0
    start: int = 0

    def at(self, count: int, late: int = 0) -> tuple[int, int | None]:
        """The array, and the row of it, after so many times; None: all of it.

        `late` is how many times fewer there are than there may be: rows from the last one on start so much before.
        """
        if count < len(self.first):
            return self.first[count], None
        turn = count - len(self.first)
        start = self.start - late if self.step < 0 else self.start
        return self.cycle[turn % len(self.cycle)], start + turn * self.step if self.step else None

    @property
    def is_fixed(self) -> bool:
        """Whether it is one array each time."""
        return not self.step and len({*self.first, *self.cycle}) == 1


@frozen
class Loop:
    """A loop as an instruction has it.

    Attributes
    ----------
    plan
        Of the body, once. What it carries in place is a variable of it, and has an update.
    count
        How many times; where that is known only in the run, how many at most.
    carried
        The parameters of the body, by number, that are the plan's variables; the others are its inputs, in order.
    gives
        The results of the body, by number, that are the plan's outputs.
    reads
        Where each parameter of the body is.
    writes
        Where each output of the plan is written, then each update.
    copies
        What is copied after the last time: a result of the loop, by number, an array and a row of it, or None.
    literals
        The parameters of `full` of which the plan's constants are.
    limit
        The operand, by number, that says how many times at most; None: there is none.
    condition
        The parameter of the body that says whether there is a next time; None: there is none.
    ends
        Where it is known only in the run how many times: the parameters that are carries, in the order of their
        results. After the last time each is copied into its result, unless it is there. Rows of times that did not
        happen are filled with zeros, whether or not anything is carried.
    """

    plan: Plan
    count: int
    carried: tuple[int, ...]
    gives: tuple[int, ...]
    reads: tuple[Address, ...]
    writes: tuple[Address, ...]
    copies: tuple[tuple[int, int, int | None], ...]
    literals: tuple[Items, ...] = field(default=(), eq=repr)
    limit: int | None = None
    condition: int | None = None
    ends: tuple[int, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it is known only in the run how many times it goes."""
        return self.limit is not None or self.condition is not None

    @property
    def slots(self) -> tuple[int, ...]:
        """The plan's slot of each parameter of the body."""
        inputs, variables = iter(self.plan.inputs), iter(self.plan.variables)
        return tuple([next(variables if n in self.carried else inputs) for n in range(len(self.reads))])

    @property
    def targets(self) -> tuple[int, ...]:
        """The plan's slot of each of `writes`."""
        return (*self.plan.outputs, *[slot for _, slot in self.plan.updates])
