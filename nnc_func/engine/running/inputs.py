"""What callers give a program: brought to the device, refused in words, or copied where the commit section reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nnc_func.engine.plan import Plan
from nnc_func.engine.running.results import memory
from nnc_func.errors import DeviceError, DTypeError, OperatorError, PlaceError, ShapeError
from nnc_func.facets.places import ADVICE, named
from nnc_func.graph.leaves import brought, owned


def wanted_gapless(plan: Plan) -> list[bool]:
    """For each input whether it must be contiguous, as a kernel in the commit section would need memory for a copy."""
    read: set[int] = set()
    for i in plan.instructions[plan.commit :]:
        if not i.view and any(k.copies_strided and k.name == i.kernel for k in i.op.kernels):
            read.update(plan.slots[s].buffer for s in i.operands)
    return [plan.slots[s].buffer in read for s in plan.inputs]


def contiguous(device: Any, plan: Plan, slot: int, array: Any) -> Any:
    """The array of an input's slot if it has no gaps, or a copy."""
    if array.flags.c_contiguous:
        return array
    with memory(plan.slots[slot].aval.nbytes, f"a copy of input {plan.input_name(plan.inputs.index(slot))}"):
        return owned(device, array)


@contextmanager
def of_input(name: str) -> Iterator[None]:
    """Name the input whose value is refused while it is open."""
    try:
        yield
    except DeviceError as error:
        if not str(error).startswith("input "):
            error.args = (f"input {name}: {error}",)
        raise


def refuse_count(plan: Plan, inputs: Any) -> None:
    """Raise OperatorError: as many inputs are wanted as the plan has."""
    names = ", ".join(map(repr, plan.input_names))
    raise OperatorError(f"the program {plan.name!r} takes {len(plan.inputs)} inputs ({names}), given {len(inputs)}")


def converted(device: Any, plan: Plan, slot: int, array: Any) -> Any:
    """What is no array of the device yet, as the input of that slot.

    Raises
    ------
    ShapeError, DTypeError, PlaceError
        It is another shape, dtype or place than that one's.
    """
    aval = plan.slots[slot].aval
    name = plan.input_name(plan.inputs.index(slot))
    with memory(aval.nbytes, f"a copy of input {name}"), of_input(name):
        found = brought(device, array, place=aval.place)
    has = device.aval(found)
    numbers = isinstance(array, (bool, int, float, list, tuple))
    if numbers and has.shape == aval.shape and np.can_cast(has.dtype, aval.dtype, "same_kind"):
        return brought(device, array, aval.dtype, aval.place)  # Python's numbers have no dtype of their own
    if has.shape != aval.shape:
        raise ShapeError(f"input {name} wants shape {aval.shape}, given {has.shape}")
    if has.place != aval.place:
        wanted = named(aval.place)
        raise PlaceError(f"input {name} is wanted in {wanted}, given in {named(has.place)}; {ADVICE}")
    if has.dtype != aval.dtype:
        raise DTypeError(f"input {name} wants {aval.dtype}, given {has.dtype}; cast it before the call")
    return found
