"""Arrays in memory of a device as avals say: their place, and the order in which their axes lie there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.aval import Aval
from nnc_func.engine.plan_rows import Slot
from nnc_func.facets.places import Place

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan


def arena(device: Any, nbytes: int, place: Place) -> Any:
    """An uninitialised run of bytes in a place."""
    return device.arena(nbytes) if place is None else device.arena(nbytes, place=place)


def view(device: Any, memory: Any, offset: int, aval: Aval, strides: tuple[int, ...] | None = None) -> Any:
    """The array of that aval that lies `offset` bytes into a run of memory; strides in bytes, None for row-major."""
    if strides is None:
        return device.view(memory, offset, aval.shape, aval.dtype)
    return device.view(memory, offset, aval.shape, aval.dtype, strides=strides)


def part(device: Any, slot: Slot, memory: Any, offset: int = 0) -> Any:
    """The array of a slot, whose buffer lies `offset` bytes into some memory."""
    return view(device, memory, offset + slot.offset, slot.aval, slot.strides)


def housed(device: Any, plan: Plan, number: int, memory: Any) -> Any:
    """The array of a slot that lives in the memory of a result or of an input."""
    slot = plan.slots[number]
    return part(device, slot, memory, plan.buffers[slot.buffer].offset)


def empty(device: Any, aval: Aval) -> Any:
    """An uninitialised array of that aval."""
    if aval.layout is None and aval.place is None:
        return device.empty(aval.shape, aval.dtype)
    facts: dict[str, Any] = {} if aval.place is None else {"place": aval.place}
    return device.empty(aval.shape, aval.dtype, strides=aval.strides, **facts)
