"""Convolutions and matrix products of oneDNN: made once for all that are alike, run by any number of callers.

A primitive likes its weights, and some of its other operands, in an order of its own. What lies otherwise is put into
that order in scratch memory before it runs, and results are put back after; how much memory that takes is known before.
Of weights that stay the same it is done once (`Packing`), in memory of their own.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

from nnc_func.device.onednn.handles import (
    ANY,
    BFLOAT16,
    FLOAT32,
    Handle,
    attributes,
    nbytes,
    row_major,
    same,
    sizes,
    strided,
    tagged,
)
from nnc_func.device.onednn.library import Library, present, switches, threads

SOURCE, WEIGHTS, RESULT = 1, 33, 17
SOURCE_GRADIENT, WEIGHTS_GRADIENT, RESULT_GRADIENT = 129, 161, 145
SECOND, SCRATCHPAD = 2, 80
ZERO_POINT = 8192  # of what is taken off an argument's elements: and the argument's number
AFTER = 32768  # of what is done after a primitive: as many times, counted from one, and the number of its operand
TRAINING, INFERENCE = 64, 96  # ``dnnl_prop_kind_t``
DIRECT = 1  # a convolution without Winograd's sums, whose errors are larger
IMPLEMENTATION, OF_ARGUMENT = 8, 255  # ``dnnl_query_t``
ALIGNMENT = 64  # bytes
RECURRENT = "brgemm:"  # how implementations of recurrent layers are named that are made of small products
ALIKE = 1024  # primitives kept for the next time
SMALL = 4_000_000  # FLOPs of float32 below which one thread is faster than two
FASTER = {FLOAT32: 1, BFLOAT16: 2}  # by so much products take less time than those of float32


@frozen(eq=False)
class Argument:
    """What a step is given: a number of the library, a descriptor, and where it lies.

    Attributes
    ----------
    array
        The position of an array; None: at `offset` bytes into the scratch memory.
    """

    number: int
    description: Handle
    array: int | None
    offset: int = 0


@frozen(eq=False)
class Packing:
    """How an array that stays the same is put into the order in which a primitive wants it.

    Attributes
    ----------
    reorder, arguments
        The primitive that does it, from array 0 to array 1, and what it is given.
    nbytes
        Of what it gives.
    scratch
        Bytes that it wants beside both.
    """

    reorder: Handle
    arguments: tuple[Argument, ...]
    nbytes: int
    scratch: int


@frozen(eq=False)
class Primitive:
    """One operator on arrays of fixed shapes and strides, as steps of the library.

    Attributes
    ----------
    steps
        Each a primitive of the library and its arguments, one after the other.
    arrays
        How many arrays it is given, operands and results.
    scratch
        Bytes that it wants beside them.
    implementation
        What the library calls the main step.
    packings
        Of arrays, by position, that are given as they are and put into an order of its own once.
    results
        How many of the arrays, the last ones, are results.
    is_alone
        Whether it was made for one thread, where the library has several.
    """

    library: Library
    steps: tuple[tuple[Handle, tuple[Argument, ...]], ...]
    arrays: int
    scratch: int
    implementation: str
    packings: Mapping[int, Packing] = {}
    results: int = 1
    is_alone: bool = False

    @property
    def room(self) -> int:
        """Bytes of a run, wherever it begins, in which there is place for its scratch memory."""
        return self.scratch + ALIGNMENT if self.scratch else 0

    @property
    def is_fast(self) -> bool:
        """Whether it is made for this processor: no loop over elements, and no convolution by columns.

        Those of few channels a group, channels innermost, take 50 times as long by the library's columns as by ours.
        """
        return not self.implementation.startswith(("ref", "gemm:ref", "x64:gemm"))

    @property
    def calls_others(self) -> bool:
        """Whether it would wake the library's other threads, though it was made for one.

        Only what is made of blocks of small products remembers for how many it was made, but for recurrent layers that
        are. Others ask when they run; and a thread that sleeps takes 30 microseconds to come, for what one does in 2.
        """
        remembers = self.implementation.startswith("br") and not self.implementation.startswith(RECURRENT)
        return self.is_alone and not (len(self.steps) == 1 and remembers)

    @property
    def is_steady(self) -> bool:
        """Whether it has its speed at all sizes: the library's matrix product without AVX-512 has half of it at some.

        Of 256 x 2048 x 1024 it makes 35 GFLOP/s, of 1024 x 512 x 512 83, where BLAS makes 88 of both, on one core.
        """
        return not self.implementation.startswith("gemm:jit")


@frozen
class After:
    """What is done with each element of a result before it is written.

    Attributes
    ----------
    name
        Of an operator: ``"add"``, say, of the result and another operand, or ``"relu"``; ``"fast relu"`` makes 0 of
        NaN; ``"prelu"`` multiplies what is negative by another operand.
    other
        The other operand: ``"whole"``, one that lies as the result does; ``"channels"``, an element for each place on
        the innermost axis; ``"number"``, one element; empty, none.
    numbers
        Parameters of one without another operand: of ``"clip"`` its bounds. None: those of `handles.UNARY`.
    """

    name: str
    other: str = ""
    numbers: tuple[float, ...] = ()


class _Steps:
    """Steps as they are gathered, and the scratch memory that they take."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.before: list[tuple[Handle, tuple[Argument, ...]]] = []
        self.after: list[tuple[Handle, tuple[Argument, ...]]] = []
        self.packings: dict[int, Packing] = {}
        self.scratch = 0

    def room(self, count: int) -> int:
        """Where so many bytes of scratch memory begin."""
        start = self.scratch
        self.scratch += -(-count // ALIGNMENT) * ALIGNMENT
        return start

    def argument(self, number: int, array: int, plain: Handle, wanted: Handle, is_result: bool) -> Argument:
        """An array as the primitive wants it: itself, or put into another order before it, or after."""
        if same(self.library, plain, wanted):
            return Argument(number, plain, array)
        moved = Argument(number, wanted, None, self.room(nbytes(self.library, wanted)))
        here = Argument(RESULT if is_result else SOURCE, plain, array)
        there = Argument(SOURCE if is_result else RESULT, wanted, None, moved.offset)
        source, target = (there, here) if is_result else (here, there)
        reorder, description = self._reorder(source.description, target.description)
        step = reorder, self.with_scratchpad(description, source, target)
        (self.after if is_result else self.before).append(step)
        return moved

    def packed(self, number: int, array: int, plain: Handle, wanted: Handle) -> Argument:
        """An array that stays the same, as the primitive wants it: put into another order once, before all runs."""
        if same(self.library, plain, wanted):
            return Argument(number, plain, array)
        steps = _Steps(self.library)
        given = Argument(SOURCE, plain, 0), Argument(RESULT, wanted, 1)
        reorder, description = self._reorder(plain, wanted)
        arguments = steps.with_scratchpad(description, *given)
        self.packings[array] = Packing(reorder, arguments, nbytes(self.library, wanted), steps.scratch)
        return Argument(number, wanted, array)

    def _reorder(self, source: Handle, target: Handle) -> tuple[Handle, Handle]:
        library = self.library
        engine = library.engine
        made = library.made("reorder_primitive_desc_create", source, engine, target, engine, attributes(library))
        description = Handle(library, "primitive_desc", made)
        return Handle(library, "primitive", library.made("primitive_create", description)), description

    def with_scratchpad(self, description: Handle, *arguments: Argument) -> tuple[Argument, ...]:
        """The arguments, and the library's own scratchpad where it wants one."""
        pad = queried(self.library, description, SCRATCHPAD)
        count = nbytes(self.library, pad) if pad is not None else 0
        if pad is None or not count:
            return arguments
        return (*arguments, Argument(SCRATCHPAD, pad, None, self.room(count)))


def queried(library: Library, description: Handle, number: int) -> Handle | None:
    """The descriptor that a primitive has for one of its arguments; None where it has none."""
    found = library.functions.dnnl_primitive_desc_query_md(description, OF_ARGUMENT, number)
    if not found:
        return None
    return Handle(library, "memory_desc", library.made("memory_desc_clone", ctypes.c_void_p(found)))


def _named(library: Library, description: Handle) -> str:
    said = ctypes.c_char_p()
    library.call("primitive_desc_query", description, IMPLEMENTATION, 0, ctypes.byref(said))
    return (said.value or b"").decode()


def assemble(
    library: Library, description: Handle, given: Sequence[tuple[int, Handle]], lasting: Collection[int] = (),
    results: int = 1,
) -> Primitive:  # fmt: skip
    """The primitive of a description, of arrays in their own order: number and descriptor; the last ones are `results`.

    Those at the positions `lasting` stay the same.
    """
    steps = _Steps(library)
    arguments: list[Argument] = []
    for array, (number, plain) in enumerate(given):
        if number >= ZERO_POINT:  # it is read as it lies
            arguments.append(Argument(number, plain, array))
            continue
        wanted = queried(library, description, number)
        assert wanted is not None, number
        if array in lasting:
            arguments.append(steps.packed(number, array, plain, wanted))
        else:
            arguments.append(steps.argument(number, array, plain, wanted, array >= len(given) - results))
    main = Handle(library, "primitive", library.made("primitive_create", description))
    whole = (*steps.before, (main, steps.with_scratchpad(description, *arguments)), *steps.after)
    name = _named(library, description)
    return Primitive(library, whole, len(given), steps.scratch, name, steps.packings, results)


def for_threads(flops: int, make: Callable[[Library], Primitive]) -> Primitive:
    """Make a primitive for all threads, or for one where there is little to do."""
    library = present()
    count, pair = threads(library), switches(library.path)
    if pair is None or count == 1 or flops >= SMALL:
        return make(library)
    try:
        pair[1](1)
        return evolve(make(library), is_alone=True)
    finally:
        pair[1](count)


# --- convolutions ------------------------------------------------------------------------------------------


@frozen
class Convolution:
    """A convolution over images, channels innermost, with a kernel of height, width, channels in, channels out.

    Attributes
    ----------
    images, kernel
        Shapes: (images, height, width, in), (height, width, in of a group, out).
    outputs
        Height and width of the result.
    stride, dilation, before, after
        Of each of the two axes; dilation 1 has no gaps.
    by_channel
        Whether images and result lie channel by channel: they are put into order before it, and after.
    dtype
        Of all arrays: `handles.FLOAT32` or `BFLOAT16`, of which sums are float32.
    """

    images: tuple[int, ...]
    kernel: tuple[int, ...]
    outputs: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]
    groups: int
    by_channel: bool = False
    dtype: int = FLOAT32

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.images[0] * math.prod(self.outputs) * math.prod(self.kernel)

    @property
    def lying(self) -> Convolution:
        """The same, of images that are one element wide as of images that are one element high.

        Nothing lies elsewhere for it. The library computes elements of a row at once: of a column of 512 elements it
        makes 79 GFLOP/s, of a row of as many 223.
        """
        if not self.images[2] == self.kernel[1] == self.outputs[1] == 1 or self.before[1] or self.after[1]:
            return self
        (n, h, w, c), (high, wide, *channels) = self.images, self.kernel
        turned = {name: getattr(self, name)[::-1] for name in ("outputs", "stride", "dilation", "before", "after")}
        return evolve(self, images=(n, w, h, c), kernel=(wide, high, *channels), **turned)


def images(shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents in the library's order (images, channels, height, width), and strides."""
    n, h, w, c = shape
    return (n, c, h, w), (h * w * c, 1, w * c, c)


def kernels(shape: Sequence[int], groups: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents in the library's order (groups, out, in, height, width), and strides; no groups where there is one."""
    h, w, i, o = shape
    extents, strides = (o // groups, i, h, w), (1, o, w * i * o, i * o)
    return (extents, strides) if groups == 1 else ((groups, *extents), (o // groups, *strides))


EXACTLY = {"relu": (After("zero elu"), After("plus zero"))}
"""What keeps NaN (`elementwise.keeps_nan`): there 0 * (exp(x) - 1) is NaN, for other numbers a zero that has a sign."""


def operands_after(
    library: Library, after: Sequence[After], rank: int, whole: Handle, channels: Handle, dtype: int = FLOAT32
) -> tuple[list[tuple[str, Handle | None, tuple[float, ...]]], list[tuple[int, Handle]]]:
    """What is done after a primitive, as its attributes have it; and the arguments, of a dtype, that this takes."""
    number = row_major(library, (1,) * rank, dtype)
    shown = {"whole": whole, "channels": channels, "number": number, "": None}
    steps = [step for each in after for step in EXACTLY.get(each.name, (each,))]
    done = [(step.name, shown[step.other], step.numbers) for step in steps]
    given = [(n, WEIGHTS if name == "prelu" else SECOND, other) for n, (name, other, _) in enumerate(done, 1)]
    return done, [(AFTER * n | number, other) for n, number, other in given if other is not None]


def _forward(library: Library, of: Convolution, attribute: Handle) -> tuple[Handle, tuple[Any, ...]]:
    """The description of the forward convolution, and what all three are given of windows."""
    x, xs = images(of.images)
    w, _ = kernels(of.kernel, of.groups)
    y, ys = images((of.images[0], *of.outputs, of.kernel[3]))
    windows = (
        sizes(of.stride), sizes([d - 1 for d in of.dilation]), sizes(of.before), sizes(of.after), attribute,
    )  # fmt: skip
    made = library.made(
        "convolution_forward_primitive_desc_create", library.engine, TRAINING, DIRECT,
        strided(library, x, xs, of.dtype), tagged(library, w, ANY, of.dtype), None, strided(library, y, ys, of.dtype),
        *windows,
    )  # fmt: skip
    return Handle(library, "primitive_desc", made), windows


ARGUMENTS = {
    "forward": ((SOURCE, "x"), (WEIGHTS, "w"), (RESULT, "y")),
    "by data": ((RESULT_GRADIENT, "y"), (WEIGHTS, "w"), (SOURCE_GRADIENT, "x")),
    "by kernel": ((SOURCE, "x"), (RESULT_GRADIENT, "y"), (WEIGHTS_GRADIENT, "w")),
}
"""Of images x, kernel w and result y what each kind is given, and what it gives: its last one."""


def _convolved(of: Convolution, kind: str, lasting: tuple[int, ...], after: tuple[After, ...]) -> Primitive:
    def make(library: Library) -> Primitive:
        shapes = {
            "x": images(of.images),
            "w": kernels(of.kernel, of.groups),
            "y": images((of.images[0], *of.outputs, of.kernel[3])),
        }
        plain = {name: strided(library, *each, of.dtype) for name, each in shapes.items()}
        given = plain if not of.by_channel else plain | {n: row_major(library, shapes[n][0], of.dtype) for n in "xy"}
        channels = of.images[3] if kind == "by data" else of.kernel[3]
        whole = plain[ARGUMENTS[kind][2][1]]
        by_channel = row_major(library, (1, channels, 1, 1), of.dtype)
        done, others = operands_after(library, after, 4, whole, by_channel, of.dtype)
        attribute = attributes(library, done)
        description, windows = _forward(library, of, attribute if kind == "forward" else attributes(library))
        if kind != "forward":
            by, bias = ("data", ()) if kind == "by data" else ("weights", (None,))
            made = library.made(
                f"convolution_backward_{by}_primitive_desc_create", library.engine, DIRECT, plain["x"],
                tagged(library, shapes["w"][0], ANY, of.dtype), *bias, plain["y"], *windows[:-1], description,
                attribute,
            )  # fmt: skip
            description = Handle(library, "primitive_desc", made)
        *operands, result = [(number, given[name]) for number, name in ARGUMENTS[kind]]
        return assemble(library, description, [*operands, *others, result], lasting)

    return for_threads(of.flops // FASTER[of.dtype], make)


@lru_cache(ALIKE)
def _convolution(
    of: Convolution, kind: str, lasting: tuple[int, ...], after: tuple[After, ...], count: int
) -> Primitive:
    return _convolved(of, kind, lasting, after)


def convolution(of: Convolution, kind: str, lasting: tuple[int, ...] = (), after: tuple[After, ...] = ()) -> Primitive:
    """The primitive of a convolution: ``"forward"``, or its gradient ``"by data"`` or ``"by kernel"``.

    Its arrays are images, kernel, result; cotangent, kernel, gradient; images, cotangent, gradient; before the last one
    come the operands of what is done after it. Those at the positions `lasting` stay the same.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _convolution(of.lying, kind, lasting, after, threads(present()))


# --- matrix products -----------------------------------------------------------------------------------


Lies = bool | tuple[int, ...]


@frozen
class Product:
    """A matrix product of arrays of the same rank, whose leading axes broadcast.

    Attributes
    ----------
    left, right
        Shapes as they are multiplied: (..., rows, inner) and (..., inner, columns).
    left_lies, right_lies
        How they lie in memory: row by row, or with the last two axes the other way round (True), or with these strides
        in elements, of which one of the last two is 1.
    dtype
        Of all arrays: `handles.FLOAT32` or `BFLOAT16`, of which sums are float32.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    left_lies: Lies
    right_lies: Lies
    dtype: int = FLOAT32

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the result."""
        batch = [max(a, b) if a and b else 0 for a, b in zip(self.left[:-2], self.right[:-2], strict=True)]
        return (*batch, self.left[-2], self.right[-1])

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * math.prod(self.result) * self.left[-1]


def _matrices(library: Library, shape: tuple[int, ...], lies: Lies, dtype: int) -> Handle:
    if isinstance(lies, tuple):
        return strided(library, shape, lies, dtype)
    if not lies:
        return row_major(library, shape, dtype)
    rows, columns = shape[-2:]
    strides, step = [], rows * columns
    for n in reversed(shape[:-2]):
        strides.append(step)
        step *= n
    return strided(library, shape, (*strides[::-1], 1, rows), dtype)


ALIASING, GAP = 128, 16  # elements


def _apart(of: Product) -> tuple[int, ...] | None:
    """Strides that keep the rows of a right operand apart in the caches; None where they are apart.

    Where rows begin at multiples of 512 bytes few sets of the first cache have all that the library's product without
    AVX-512 goes through: of 100 x 6272 x 1024 it makes 41 GFLOP/s, and 94 with 64 bytes between rows, on one core.
    """
    *batch, rows, columns = of.right
    if rows == 1 or columns % ALIASING or math.prod(batch) != 1:
        return None
    step = columns + GAP
    return (*(rows * step,) * len(batch), step, 1)


@lru_cache(ALIKE)
def _product(of: Product, lasting: tuple[int, ...], after: tuple[After, ...], count: int) -> Primitive:
    def make(library: Library) -> Primitive:
        a = _matrices(library, of.left, of.left_lies, of.dtype)
        b = _matrices(library, of.right, of.right_lies, of.dtype)
        out = row_major(library, of.result, of.dtype)
        channels = row_major(library, (*(1,) * (len(of.result) - 1), of.result[-1]), of.dtype)
        done, others = operands_after(library, after, len(of.result), out, channels, of.dtype)

        def made(wanted: Handle) -> Primitive:
            """The primitive that has the right operand so."""
            found = library.made("matmul_primitive_desc_create", library.engine, a, wanted, None, out, attribute)
            given = [(SOURCE, a), (WEIGHTS, b), *others, (RESULT, out)]
            return assemble(library, Handle(library, "primitive_desc", found), given, lasting)

        attribute = attributes(library, done)
        found = made(tagged(library, of.right, ANY, of.dtype) if lasting else b)
        apart = None if not lasting or found.is_steady else _apart(of)
        return found if apart is None else made(strided(library, of.right, apart, of.dtype))

    return for_threads(of.flops // FASTER[of.dtype], make)


def product(of: Product, lasting: tuple[int, ...] = (), after: tuple[After, ...] = ()) -> Primitive:
    """The primitive of a matrix product; its arrays are left, right, operands of what is done after it, result.

    With ``(1,)`` as `lasting` the right one stays the same.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _product(of, lasting, after, threads(present()))
