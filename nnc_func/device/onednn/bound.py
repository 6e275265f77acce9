"""A primitive as a function of arrays: memory objects are made once, and moved where an array is another one."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nnc_func.device.onednn.handles import Handle, Pair
from nnc_func.device.onednn.library import switches
from nnc_func.device.onednn.packing import Seen, packed, shared, unseen
from nnc_func.device.onednn.primitives import ALIGNMENT, Primitive
from nnc_func.device.shared.unrolled import Text
from nnc_func.errors import DeviceError


def bound(
    primitive: Primitive,
    scratch: Any,
    ready: Sequence[Callable[[Any], Any]],
    shares: bool = False,
) -> Callable[..., None]:
    """A function of arrays, operands and then results, of one thread at a time; with `fixed`, see `Kernel.bound`.

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
    Arrays are of the dtypes, and results lie, as the primitive was made for: the caller sees to it. No array is kept:
    what was there last is known by a weak reference, and an array that has one cannot be resized.
    """
    operands = primitive.arrays - primitive.results
    if len(ready) != operands:
        raise DeviceError(f"{primitive.implementation} has {operands} operands, given {len(ready)}")
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
    refs = Seen([unseen] * primitive.arrays)
    move = _moving(primitive, memories, refs, ready, shares)
    executions = []
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
        executions.append((step.pointer, stream.pointer, ctypes.c_int(len(arguments)), pairs))

    facts = primitive, refs, move, executions, lasting
    return _written(*facts, {})


def _written(
    primitive: Primitive, refs: Seen, move: Callable[[int, Any], Any], executions: Sequence[tuple[Any, ...]],
    lasting: list[Any], arrays: Mapping[int, Any],
) -> Callable[..., None]:  # fmt: skip
    """The function where those arrays, by position, are the same ones in each call."""
    library = primitive.library
    text = Text(*[f"a{i}" for i in range(primitive.arrays)])
    for i in range(primitive.arrays):
        if i in arrays and move(i, arrays[i]) is not None and refs[i]() is arrays[i]:
            continue
        text.line(f"if {text.value(refs)}[{i}]() is not a{i}: a{i} = {text.value(move)}({i}, a{i})")
    execute = library.functions.dnnl_primitive_execute
    apart = switches(library.path) if primitive.calls_others else None
    indent = "" if apart is None else "  "
    if apart is not None:
        text.line(f"threads = {text.value(apart[0])}()")
        text.line("try:")
        text.line(f"  {text.value(apart[1])}(1)")
    for execution in executions:
        text.line(f"{indent}status = {text.value(execute)}({', '.join(map(text.value, execution))})")
        text.line(f"{indent}if status: {text.value(library.failed)}({text.value('primitive_execute')}, status)")
    if apart is not None:
        text.line("finally:")
        text.line(f"  {text.value(apart[1])}(threads)")
    found = text.function()
    found.lasting = lasting  # type: ignore[attr-defined]
    found.fixed = partial(_written, primitive, refs, move, executions, lasting)  # type: ignore[attr-defined]
    return found


def _moving(
    primitive: Primitive,
    memories: list[list[Handle]],
    refs: Seen,
    ready: Sequence[Callable[[Any], Any]],
    shares: bool,
) -> Callable[[int, Any], Any]:
    """A function that points the memory objects of an operand or a result at an array, and gives what they show."""
    library, packings = primitive.library, primitive.packings
    put = library.functions.dnnl_memory_set_data_handle
    reference, pointer = weakref.ref, ctypes.c_void_p
    lasting: dict[int, Any] = {}  # what was put into order, by position

    def move(i: int, array: Any) -> Any:
        shown = ready[i](array) if i < len(ready) else array
        if i in packings:
            shown = shared(primitive, i, array, shown, refs) if shares else packed(primitive, i, shown)
            lasting[i] = shown
        address = pointer(shown.__array_interface__["data"][0])
        for memory in memories[i]:
            status = put(memory.pointer, address)
            if status:
                library.failed("memory_set_data_handle", status)
        refs[i] = reference(array) if shown is array or i in packings else unseen
        return shown

    return move
