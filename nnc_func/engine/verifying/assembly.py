"""What a plan puts together of parts: that each lies in its place, and that nothing is missing; for the verifier."""

from __future__ import annotations

from typing import Any

from nnc_func.engine.copying import FILL
from nnc_func.engine.plan_rows import Instruction
from nnc_func.engine.verifying.applications import inferred
from nnc_func.engine.verifying.regions import Region, compact
from nnc_func.errors import NncError, PlanError, ShapeError
from nnc_func.facets.boxes import Box

PAIRS = 1000  # of parts, that are told apart as quickly as one step is made


def assembly(replay: Any, t: int, i: Instruction) -> None:
    """Nothing is computed: the operands, gaps that were filled among them, are the whole, each in its place.

    All of them are valid, so no two have a byte in common; and they are as many elements as the whole.
    """
    replay.reads(t, i)
    replay.work.spend(len(i.operands) ** 2 // PAIRS)
    if len(i.results) != 1:
        raise PlanError(f"{replay.named(t)} puts {len(i.results)} results together; wanted one")
    slots, whole = replay.plan.slots, i.results[0]
    replay.fits(whole, t)
    key = (
        i.op,
        id(i.items),
        *[(id(s.aval), s.offset, s.strides) for s in map(slots.__getitem__, (whole, *i.operands))],
    )
    if key not in replay.assembled or not _in_one(replay, i):
        _in_place(replay, t, i, whole)
        if _in_one(replay, i):
            replay.assembled.add(key)
    replay.make(t, whole)


def _in_one(replay: Any, i: Instruction) -> bool:
    """Whether nothing but where they lie in one buffer says that the operands are parts of the result."""
    slots = replay.plan.slots
    home = slots[i.results[0]].buffer
    return all(slots[s].buffer == home and not slots[s].is_view and _maker(replay, s) is not FILL for s in i.operands)


def _in_place(replay: Any, t: int, i: Instruction, whole: int) -> None:
    slots = replay.plan.slots
    parts = [s for s in i.operands if _maker(replay, s) is not FILL]
    aval, params = slots[whole].aval, dict(i.items)
    assert i.op.parts is not None
    try:
        inferred(i.op, tuple([slots[s].aval for s in parts]), i.items)  # so that the parameters are what they should be
        boxes = i.op.parts.boxes(tuple(slots[s].aval.shape for s in parts), aval.shape, **params)
        pairs = list(zip(parts, boxes, strict=True))
    except (NncError, IndexError, ValueError) as error:
        raise PlanError(f"{replay.named(t)} does not fit its {len(parts)} operands: {error}") from None
    for position, (slot, box) in enumerate(pairs):
        _part(replay, t, f"operand {position}, slot {slot},", slot, whole, box)
    for slot in i.operands:
        if _maker(replay, slot) is FILL:
            _gap(replay, t, slot, whole, i.op.parts.fill(**params))
    found = sum(slots[s].aval.size for s in i.operands)
    if found != aval.size:
        raise PlanError(f"{replay.named(t)} puts {aval.size} elements together, but its operands have {found}")


def _maker(replay: Any, slot: int) -> Any:
    """The operator of the instruction that made a slot."""
    return None if replay.made[slot] < 0 else replay.plan.instructions[replay.made[slot]].op


def _part(replay: Any, t: int, said: str, slot: int, whole: int, box: Any) -> None:
    """A slot lies where a box of another is."""
    one, other = replay.plan.slots[slot], replay.plan.slots[whole]
    if not one.aval.size:
        return
    strides = other.strides or compact(other.aval.shape, other.aval.dtype.itemsize)
    axes = range(len(strides)) if box.axes is None else box.axes
    if one.aval.ndim != len(axes) or len(box.extents) != len(strides) or one.aval.dtype != other.aval.dtype:
        raise PlanError(f"{replay.named(t)}: {said} is {one.aval!r}, which is no part of {other.aval!r}")
    wanted = Region.of(
        other.offset + sum(start * stride for start, stride in zip(box.starts, strides, strict=True)),
        tuple(box.extents[a] for a in axes),
        tuple(box.steps[a] * strides[a] for a in axes),
        other.aval.dtype.itemsize,
    )
    lies = one.buffer == other.buffer and not one.is_view and replay.region[slot] == wanted
    if not lies or one.aval.dtype != other.aval.dtype or one.aval.shape != box.shape:
        raise PlanError(f"{replay.named(t)}: {said} does not lie in slot {whole} where it belongs, at {box.starts}")


def _gap(replay: Any, t: int, slot: int, whole: int, fill: Any) -> None:
    """A slot was filled with the right number, in a box of another."""
    made = replay.plan.instructions[replay.made[slot]]
    inferred(made.op, (), made.items)
    params = dict(made.items)
    box = Box(params["starts"], params["shape"], params["steps"])
    if not len(box.starts) == len(box.extents) == len(box.steps) == replay.plan.slots[whole].aval.ndim:
        raise PlanError(f"{replay.named(t)}: slot {slot} fills a box of another rank than that of slot {whole}")
    try:
        box.within(replay.plan.slots[whole].aval.shape, "it")
    except ShapeError as error:
        raise PlanError(f"{replay.named(t)}: slot {slot} fills no part of slot {whole}: {error}") from None
    if repr(params["value"]) != repr(fill):
        raise PlanError(f"{replay.named(t)} wants {fill!r} where no part is, slot {slot} has {params['value']!r}")
    _part(replay, t, f"slot {slot}, which fills a gap,", slot, whole, box)
