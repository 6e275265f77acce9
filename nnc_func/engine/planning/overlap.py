"""How long a plan takes whose copies between places run beside its kernels: estimated from arithmetic and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.device.shared.queries import machine_of
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import ARENA, Instruction
from nnc_func.facets.places import Place, given
from nnc_func.graph.rules.cost import seconds_of


@frozen
class Estimate:
    """Seconds of a run.

    Attributes
    ----------
    computing
        Of all that computes, one after the other.
    moving
        Of all copies from place to place, one after the other.
    together
        Of both, where copies run beside kernels: each starts when the one before it of its kind is over, what it reads
        is there, and nobody uses the memory that it writes.
    """

    computing: float
    moving: float
    together: float


def moving_seconds(device: Any, nbytes: int, source: Place, target: Place) -> float:
    """Seconds that a copy from place to place takes: at the lesser bandwidth of the two places' machines.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> far = nnc.Places(fast=nnc.Null(), slow=nnc.Null(machine=nnc.Machine(bandwidth=1e9, launch=0)))
    >>> round(moving_seconds(far, 1_000_000, None, "slow"), 6)
    0.001002
    """
    at = getattr(device, "at", lambda place: device)
    machines = [machine_of(at(place)) for place in (source, target)]
    return max(m.launch for m in machines) + nbytes / min(m.bandwidth for m in machines)


def estimated(plan: Plan, device: Any) -> Estimate:
    """What a run of a plan is estimated to take on a device; here a copy is over before the second kernel is.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy(nnc.Places(fast=nnc.Null(), slow=nnc.Null()))
    >>> x = stack.input("x", (1 << 20,), "float32")
    >>> y = stack.ops.sort(x)
    >>> there = stack.ops.transfer(y, place="slow")
    >>> found = estimated(stack.compile([x], [there, stack.ops.sort(y[::-1])]).plan, stack.device)
    >>> found.together == found.computing > found.moving > 0
    True
    """
    machine, buffers = machine_of(device), plan.buffers
    home = [slot.buffer for slot in plan.slots]
    busy = np.zeros(len(buffers))  # until when what uses each buffer runs
    low, high, upper = (np.array(each, np.int64) for each in _columns(plan))
    places = {place: np.array([b.kind == ARENA and b.place == place for b in buffers]) for place in plan.arenas}
    ready = [0.0] * len(plan.slots)
    free = {False: 0.0, True: 0.0}  # whether it is a copy -> until when such run
    spent = {False: 0.0, True: 0.0}
    begun: set[int] = set()
    for i in plan.instructions:
        start = max((ready[slot] for slot in i.operands), default=0.0)
        if i.view:
            for slot in i.results:
                ready[slot] = start
            continue
        moves = i.op.place is given
        seconds = _moved(plan, i, device) if moves else _computed(plan, i, machine)
        written = {home[slot] for slot in (*i.results, *i.scratch)}
        for n in written:
            start = max(start, float(busy[n]))
            b = buffers[n]
            if n not in begun and b.kind == ARENA and b.nbytes:
                before = places[b.place] & (low < high[n]) & (high > low[n]) & (upper <= b.lower)
                start = max(start, float(busy[before].max(initial=0.0)))
        begun |= written
        end = max(start, free[moves]) + seconds
        free[moves] = end
        spent[moves] += seconds
        for slot in i.results:
            ready[slot] = end
        touched = [*written, *(home[slot] for slot in i.operands)]
        busy[touched] = np.maximum(busy[touched], end)
    return Estimate(spent[False], spent[True], max(free.values()))


def _columns(plan: Plan) -> tuple[Sequence[int], ...]:
    rows = [(b.offset, b.offset + b.nbytes, b.upper) for b in plan.buffers]
    return tuple(zip(*rows, strict=True)) if rows else ((), (), ())


def _moved(plan: Plan, i: Instruction, device: Any) -> float:
    source, target = plan.slots[i.operands[0]].aval, plan.slots[i.results[0]].aval
    return moving_seconds(device, source.nbytes, source.place, target.place)


def _computed(plan: Plan, i: Instruction, machine: Any) -> float:
    operands, results = (tuple([plan.slots[n].aval for n in ns]) for ns in (i.operands, i.results))
    cost = i.op.cost(operands, results, **dict(i.items))
    nbytes = sum(aval.nbytes for aval in (*operands, *results)) + cost.extra_bytes
    return seconds_of(cost, nbytes, machine)
