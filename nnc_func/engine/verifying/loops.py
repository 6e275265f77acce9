"""Loops that are planned: whether the plan of the body computes the body, and whether each time finds what it reads.

Part of verification, and shares no code with what makes them. Memory is followed as it is from one time to the next,
until it is as it was before: from there on everything recurs, so that any number of times is proven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.body import Body
from nnc_func.device.shared.bounds import LIMIT
from nnc_func.engine.loop_instruction import ENDLESS, PLANNED, Address, Loop
from nnc_func.engine.plan_rows import VARIABLE, Instruction
from nnc_func.engine.verifying.applications import check_results
from nnc_func.engine.verifying.columns import check_numbers
from nnc_func.engine.verifying.inner_plans import check_inner, check_values, integers
from nnc_func.engine.verifying.references import check_references
from nnc_func.engine.verifying.work import Work
from nnc_func.errors import PlanError
from nnc_func.graph.ops.loop import avals_of, loop, steps_of

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

OPERAND, ROW, MADE = "operand", "row", "made"
Token = tuple[str, int, int]  # what a value is: of which operand or value of the body, and how many times ago
APART: Mapping[int, int] = {}
STEP = 4  # of the work, to look at one array


def check_loop(plan: Plan, i: Instruction, verify: Callable[[Plan], object], work: Work) -> None:
    """Raise PlanError unless a loop goes as its body says, whatever its count; see `bodies`."""
    planned = _check_form(plan, i)
    verify(planned.plan)
    params = dict(i.items)
    constants = params["constants"]
    updates = [planned.carried[at] - constants for at, _ in planned.plan.updates]
    check_values(planned, params["body"], updates)
    _Times(plan, i, planned, work).run()


def may_lie_over(plan: Plan, i: Instruction, n: int, operand: int, work: Work) -> bool:
    """Whether nothing goes wrong where a result lies over an operand, both by position.

    A loop that is wrong itself may be written over nothing.
    """
    params = dict(i.items)
    if i.op is not loop or n >= params["carries"] or operand != params["constants"] + n:
        return False
    try:
        _Times(plan, i, _check_form(plan, i), work, {len(i.operands) + n: operand}).run()
    except PlanError:
        return False
    return True


def may_write_over_rows(plan: Plan, i: Instruction, n: int, operand: int, starts: tuple[int, int], work: Work) -> bool:
    """Whether a loop may stack a result in memory where an operand is that it slices, both by position.

    So it is where each time writes bytes of which it reads none, and no later time does: what remains of the operand
    lies behind the rows that are written, or before them where the last row comes first. That it is so the first time
    and the last time is enough, since both move steadily.

    Parameters
    ----------
    starts
        The first bytes of the operand and of the result, which lie row by row, without gaps.
    """
    try:
        planned = _check_form(plan, i)
        times = _Times(plan, i, planned, work)
        times.check_scratch()
        times.check_addresses()
        times.check_rows()
    except PlanError:
        return False
    result, count = len(i.operands) + n, planned.count
    if planned.is_open or not {operand, result} <= times.rowed:
        return False
    rows = Address((operand,), step=-1, start=count - 1) if times.reverse else Address((operand,), step=1)
    read = [each for each in planned.reads if operand in (*each.first, *each.cycle)]
    if count < 1 or read != [rows] or any(array == operand for _, array, _ in planned.copies):
        return False
    sizes = [times.avals[array].nbytes // count for array in (operand, result)]

    def are_apart(row: int) -> bool:
        """Whether a row that is written has no byte of it, or of what is read from there on."""
        (from_, to), (first, last) = [
            (start + row * size, start + (row + 1) * size) for start, size in zip(starts, sizes, strict=True)
        ]
        return bool(first >= to if times.reverse else last <= from_)

    return are_apart(0) and are_apart(count - 1)


def _check_form(plan: Plan, i: Instruction) -> Loop:
    """What its numbers name is there, and of the right shape."""
    params = dict(i.items)
    if i.op is not loop or i.kernel != PLANNED or i.view or len(i.loops) != 1:
        raise PlanError(f"{i.op.name} by the kernel {i.kernel!r} is no loop that is planned")
    check_results(plan, i, "it")
    (planned,) = i.loops
    check_references(planned.plan, check_numbers(planned.plan))
    body, constants, carries = params["body"], params["constants"], params["carries"]
    operands = tuple([plan.slots[s].aval for s in i.operands])
    integers([planned.count], LIMIT, "numbers of times")
    counted, conditional, carried = params["counted"], params["conditional"], range(constants, constants + carries)
    most = steps_of(operands, constants, carries, params["length"], counted)
    if planned.count != (ENDLESS if most is None else most):
        raise PlanError(f"it goes {planned.count} times, which its operands do not say")
    if planned.limit != (len(operands) - 1 if counted else None) or type(planned.limit) is bool:
        raise PlanError(f"operand {planned.limit} says how many times it goes, which its parameters do not say")
    if planned.condition != (constants if conditional else None) or type(planned.condition) is bool:
        raise PlanError(f"parameter {planned.condition} says whether it goes on, which its parameters do not say")
    if planned.ends != (tuple(carried) if counted or conditional else ()) or (planned.ends and planned.copies):
        raise PlanError(f"parameters {planned.ends} are what it carries to its end, which its parameters do not say")
    integers(planned.ends, constants + carries, "parameters that are carried")
    integers(planned.carried, constants + carries, "parameters that are carried")
    if min(planned.carried, default=constants) < constants:
        raise PlanError(f"{planned.carried} are not carries")
    check_inner(plan, planned, body, avals_of(operands, body, constants, carries, counted))
    return planned


# --- time after time -------------------------------------------------------------------------------------


class _Times:
    """Memory, from one time to the next.

    Whole arrays hold one value each. Of what is sliced and what is stacked each row is one; these are rows of operands
    and of results, and nothing else.

    Parameters
    ----------
    work
        What it may take.
    same
        Arrays that lie where others do.
    """

    def __init__(self, plan: Plan, i: Instruction, planned: Loop, work: Work, same: Mapping[int, int] = APART) -> None:
        params = dict(i.items)
        self.planned, self.inner, self.same = planned, planned.plan, same
        self.body: Body = params["body"]
        self.constants, self.carries = params["constants"], params["carries"]
        self.avals = [plan.slots[s].aval for s in (*i.operands, *i.results, *i.scratch)]
        self.operands, self.scratch = len(i.operands), len(i.operands) + len(i.results)
        self.reverse = params["reverse"]
        self.rowed = {*range(self.constants + self.carries, self.operands - params["counted"])}
        self.rowed |= {*range(self.operands + self.carries, self.scratch)}
        self.work = work
        self.written: dict[int, Token] = {
            self.place(n): (OPERAND, n, 0) for n in range(self.constants + self.carries)
        }  # by array, what is in it

    def place(self, array: int) -> int:
        """The memory of an array."""
        return self.same.get(array, array)

    def run(self) -> None:
        """All times, as far as they differ."""
        self.check_scratch()
        self.check_addresses()
        self.check_rows()
        count, planned = self.planned.count, self.planned
        values: list[Token] = [(OPERAND, n, 0) for n in range(self.operands)]
        for n in range(self.constants + self.carries, self.body.parameters):
            values[n] = (ROW, n, 0)
        begin = max((len(a.first) for a in (*planned.reads, *planned.writes)), default=0)
        period = lcm(*(len(a.cycle) for a in (*planned.reads, *planned.writes)))
        seen: dict[Any, int] | None = {}
        time = 0
        while time < count:
            if seen is not None and time >= begin:
                state = (time - begin) % period, tuple(values), tuple(sorted(self.written.items()))
                before = seen.setdefault(state, time)
                if before < time:  # all that comes has been
                    time += (count - time) // (time - before) * (time - before)
                    seen = None
                    continue
            self.work.spend(STEP * (len(planned.reads) + len(planned.writes) + len(self.written)))
            if planned.ends:
                self.end(values, time)
            values = self.once(time, values)
            time += 1
        self.end(values, count)

    def once(self, time: int, values: list[Token]) -> list[Token]:
        """One time: what is read, and what is written then; the values of the parameters the next time."""
        planned, inner = self.planned, self.inner
        read: dict[int, list[int]] = {}
        for n, address in enumerate(planned.reads):
            array, row = address.at(time)
            if self.value_at(array, row, time) != values[n]:
                raise PlanError(f"parameter {n} of its body is not in array {array} the time {time}, where it is read")
            if row is None:
                read.setdefault(self.place(array), []).append(n)
        made = [values[n] if n < self.body.parameters else (MADE, n, 0) for n in self.body.results]
        updates = [(self.planned.carried[at], slot) for at, slot in inner.updates]
        gives = [*planned.gives, *[n - self.constants for n, _ in updates]]
        owners: list[int | None] = [None] * len(planned.gives)
        owners += [n if inner.buffers[inner.slots[slot].buffer].kind == VARIABLE else None for n, slot in updates]
        after: dict[int, Token] = {}
        for address, n, owner in zip(planned.writes, gives, owners, strict=True):
            array, row = address.at(time)
            if row is not None:
                continue  # see `check_rows`
            place = self.place(array)
            if place in after:
                raise PlanError(f"array {array} is written twice the time {time}")
            if [reader for reader in read.get(place, ()) if reader != owner]:
                raise PlanError(f"array {array} is written the time {time}, while it is read")
            after[place] = made[n]
        self.written |= after
        self.written = {array: _older(token) for array, token in self.written.items()}
        following = [_older(made[n]) for n in range(self.carries)]
        first = self.constants + self.carries
        return [*values[: self.constants], *following, *values[first:]]

    def end(self, values: list[Token], count: int) -> None:
        """If that was the last time, each carry is in its result after it."""
        ends, written = self.planned.ends, dict(self.written)
        copies = [(n, *self.planned.reads[at].at(count)) for n, at in enumerate(ends)] if ends else self.planned.copies
        for n, array, row in copies:
            integers([n], self.carries, "carries")
            integers([array], len(self.avals), "arrays")
            if row is not None:
                integers([row], self.avals[array].shape[0] if array in self.rowed else 0, "rows of it")
            value = self.value_at(array, row, count, written)
            if value is not None:
                written[self.place(self.operands + n)] = value
        for n in range(self.carries):
            if written.get(self.place(self.operands + n)) != values[self.constants + n]:
                raise PlanError(f"result {n} is not what is carried after the last time, if that is time {count}")

    def value_at(self, array: int, row: int | None, time: int, written: Any = None) -> Token | None:
        """What is in an array, or in a row of it, before what is written that time."""
        if row is None:
            return (
                None if array in self.rowed else (self.written if written is None else written).get(self.place(array))
            )
        its = self.planned.count - 1 - row if self.reverse else row  # the time of that row
        if array < self.operands:
            return ROW, array, time - its
        n = self.body.results[array - self.operands]
        return (MADE, n, time - its) if its < time and n >= self.body.parameters else None

    # --- what holds of all times ------------------------------------------------------------------------

    def check_scratch(self) -> None:
        """The first array of the scratch is the body's arena, where it has one."""
        sizes = [nbytes for nbytes in self.inner.arenas.values() if nbytes]
        if len(sizes) > 1:
            raise PlanError(f"its body lies in {len(sizes)} places")
        scratch = self.avals[self.scratch :]
        if sizes and (not scratch or scratch[0].dtype != np.uint8 or scratch[0].shape != tuple(sizes)):
            raise PlanError(f"its body wants an arena of {sizes[0]} bytes, given {scratch[:1]}")
        self.first_spare = self.scratch + len(sizes)
        used = {array for a in self.planned.writes for array in (*a.first, *a.cycle)}
        for array in range(self.first_spare, len(self.avals)):
            if array not in used:
                raise PlanError(f"array {array} is scratch that it does not use")

    def check_addresses(self) -> None:
        """Each address leads to arrays that there are, of the value's shape and dtype, and to rows within them."""
        inner, planned = self.inner, self.planned
        pairs = [*zip(planned.reads, planned.slots, strict=True), *zip(planned.writes, planned.targets, strict=True)]
        for at, (address, slot) in enumerate(pairs):
            aval = inner.slots[slot].aval
            if not address.cycle or type(address.step) is not int or address.step not in (0, -1 if self.reverse else 1):
                raise PlanError(f"{address} leads nowhere")
            integers([address.start], LIMIT, "rows")
            integers((*address.first, *address.cycle), len(self.avals), "arrays")
            if at >= len(planned.reads):
                integers([min(self.avals_written(address))], len(self.avals), "arrays")
            turns = self.planned.count - len(address.first)
            for array in address.first:
                self.check_whole(array, aval)
            if not address.step:
                if address.start:
                    raise PlanError(f"{address} starts at a row, and takes none")
                for array in address.cycle:
                    self.check_whole(array, aval)
                continue
            if len(address.cycle) > 1 or address.cycle[0] not in self.rowed:
                raise PlanError(f"{address} takes rows of what is neither sliced nor stacked")
            rows = self.avals[address.cycle[0]]
            if rows.dtype != aval.dtype or rows.shape[1:] != aval.shape or rows.place != aval.place:
                raise PlanError(f"rows of {rows!r} are no {aval!r}")
            last = address.start + (turns - 1) * address.step
            if turns > 0 and not (0 <= last < rows.shape[0] and address.start < rows.shape[0]):
                raise PlanError(f"{address} leads to row {last} of {rows!r}")

    def avals_written(self, address: Address) -> list[int]:
        """The arrays that an address of what is written names: results, and scratch that is not the arena.

        Raises
        ------
        PlanError
            It names another one.
        """
        found = [*address.first, *address.cycle]
        for array in found:
            if not (self.operands <= array < self.scratch or array >= self.first_spare):
                raise PlanError(f"{address} lets an operand be written, or the arena")
        return found

    def check_whole(self, array: int, aval: Any) -> None:
        """An array is a value of that aval."""
        if array in self.rowed or self.scratch <= array < self.first_spare or self.plain(array) != aval:
            raise PlanError(f"array {array} is {self.avals[array]!r}, and is to be {aval!r}")

    def plain(self, array: int) -> Any:
        """The aval of an array; an operand is read in whatever layout it has."""
        found = self.avals[array]
        return found if found.layout is None or array >= self.operands else found.having(layout=None)

    def check_rows(self) -> None:
        """Each row of what is stacked is written by its own time, and by nothing else."""
        planned = self.planned
        writers: dict[int, list[int]] = {}
        for at, address in enumerate(planned.writes):
            for array in {*address.first, *address.cycle}:
                writers.setdefault(array, []).append(at)
        for n in range(self.carries, len(self.body.results)):
            array = self.operands + n
            found = writers.get(array, [])
            start, step = (max(0, planned.count - 1), -1) if self.reverse else (0, 1)
            if len(found) != 1 or planned.writes[found[0]] != Address((array,), step=step, start=start):
                raise PlanError(f"result {n} is not written row by row, by one output of its body")
            if found[0] >= len(planned.gives) or planned.gives[found[0]] != n:
                raise PlanError(f"result {n} is written by another value of its body")


def _older(token: Token) -> Token:
    return token if token[0] == OPERAND else (token[0], token[1], token[2] + 1)
