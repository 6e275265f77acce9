"""A primitive as a function of arrays: memory objects are made once, and moved where an array is another one."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from nnc_func.device.onednn.handles import Handle, Pair
from nnc_func.device.onednn.packing import Packed, packed, shared
from nnc_func.device.onednn.primitives import ALIGNMENT, Primitive
from nnc_func.device.shared.unrolled import Text
from nnc_func.errors import DeviceError


def _nothing() -> None:
    """Stands where no array has been yet: equal to none."""


def bound(
    primitive: Primitive,
    scratch: Any,
    ready: Sequence[Callable[[Any], Any]],
    shares: bool = False,
) -> Callable[..., None]:
    """A function of arrays, operands and then results, of one thread at a time.

    Parameters
    ----------
    primitive
        What it runs.
    scratch
        A run of bytes, 64 more than the primitive wants unless it begins at a multiple of 64; None where it wants none.
    ready
        Of each operand a function that gives the array itself if it lies as the primitive wants it, else a copy. Of
        those that stay the same (`Primitive.packings`) the function gives a row-major array, which is put into order
        when the array is another one than last time, or has been told to have other elements.
    shares
        Whether what was put into order is shared by all that are bound to the same array.

    Raises
    ------
    DeviceError
        The scratch memory is too small, or `ready` is of more or fewer operands.

    Notes
    -----
    Arrays are of float32, and results lie as the primitive was made for: the caller sees to it. No array is kept: what
    was there last is known by a weak reference, and an array that has one cannot be resized.
    """
    if len(ready) != primitive.arrays - 1:
        raise DeviceError(f"{primitive.implementation} has {primitive.arrays - 1} operands, given {len(ready)}")
    library = primitive.library
    begin = 0 if scratch is None else scratch.__array_interface__["data"][0]
    start = -(-begin // ALIGNMENT) * ALIGNMENT
    if primitive.scratch > (0 if scratch is None else scratch.nbytes - (start - begin)):
        raise DeviceError(
            f"{primitive.implementation} wants {primitive.scratch} bytes of scratch memory from a multiple of "
            f"{ALIGNMENT} on"
        )
    stream = Handle(library, "stream", library.made("stream_create", library.engine, 1))
    memories: list[list[Handle]] = [[] for _ in range(primitive.arrays)]
    lasting: list[Any] = [stream, scratch, primitive]
    text = Text(*[f"a{i}" for i in range(primitive.arrays)])
    refs: list[Any] = [_nothing] * primitive.arrays
    kept: dict[int, Packed] = {}  # what was put into order, by position
    move = text.value(_moving(primitive, memories, refs, ready, kept if shares else None))
    for i in range(primitive.arrays):
        is_stale = f" or not {text.value(kept)}[{i}].is_fresh" if shares and i in primitive.packings else ""
        text.line(f"if {text.value(refs)}[{i}]() is not a{i}{is_stale}: a{i} = {move}({i}, a{i})")
    execute = library.functions.dnnl_primitive_execute
    for step, arguments in primitive.steps:
        pairs = (Pair * len(arguments))()
        for pair, argument in zip(pairs, arguments, strict=True):
            place = 0 if argument.array is not None else start + argument.offset
            made = library.made("memory_create", argument.description, library.engine, ctypes.c_void_p(place))
            memory = Handle(library, "memory", made)
            lasting.append(memory)
            if argument.array is not None:
                memories[argument.array].append(memory)
            pair.number, pair.memory = argument.number, memory.pointer.value
        given = ", ".join(map(text.value, (step.pointer, stream.pointer, ctypes.c_int(len(arguments)), pairs)))
        text.line(f"status = {text.value(execute)}({given})")
        text.line(f"if status: {text.value(library.failed)}({text.value('primitive_execute')}, status)")
    found = text.function()
    found.lasting = lasting  # type: ignore[attr-defined]
    return found


def _moving(
    primitive: Primitive,
    memories: list[list[Handle]],
    refs: list[Any],
    ready: Sequence[Callable[[Any], Any]],
    kept: dict[int, Packed] | None,
) -> Callable[[int, Any], Any]:
    """A function that points the memory objects of an operand or a result at an array, and gives what they show.

    What is shared of what was put into order is `kept`.
    """
    library, packings = primitive.library, primitive.packings
    put = library.functions.dnnl_memory_set_data_handle
    reference, pointer = weakref.ref, ctypes.c_void_p
    lasting: dict[int, Any] = {}  # what was put into order for this one alone, by position

    def move(i: int, array: Any) -> Any:
        shown = ready[i](array) if i < len(ready) else array
        if i in packings:
            if kept is None:
                shown = lasting[i] = packed(primitive, i, shown)
            else:
                kept[i] = shared(primitive, i, array, shown)
                shown = kept[i].memory
        address = pointer(shown.__array_interface__["data"][0])
        for memory in memories[i]:
            status = put(memory.pointer, address)
            if status:
                library.failed("memory_set_data_handle", status)
        refs[i] = reference(array) if shown is array or i in packings else _nothing
        return shown

    return move
