"""Kernels of oneDNN for matrix products, and what its convolutions share with them.

Devices run them that have this library beside NumPy: `nnc.CPU()`. They compute float32 as NumPy's kernels do: NaN and
infinities are kept, and nothing is rounded to fewer bits in between; and bfloat16 where the processor multiplies it.
What the library has no code of its own for is left to the other kernels. Its scratch memory is planned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from nnc_func.device.kernels import onednn_bfloat16 as narrow
from nnc_func.device.kernels.onednn_calls import call
from nnc_func.errors import NncError
from nnc_func.facets.dtypes import is_bfloat16
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import NHWC, Layout

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import After, Lies, Primitive

NUMPY, LIBRARY = frozenset({"numpy"}), "oneDNN"
PACKED = "onednn, packed"
FAST = "oneDNN, fast math"  # with kernels that lose NaN
WORTH = 4_000_000  # FLOPs of a matrix product from which on it takes less time than by BLAS
WAYS = 16  # in which operands of one call lie, remembered
FLOAT32 = np.dtype(np.float32)
Arrays = tuple[Any, ...]
Scratch = tuple[tuple[tuple[int, ...], Any], ...]
Run = Callable[..., None]


def takes(avals: Sequence[Any]) -> bool:
    """Whether arrays are of float32, with extents that are known, and none is empty."""
    return all(a.dtype == FLOAT32 and all(isinstance(n, int) and n for n in a.shape) for a in avals)


def takes_products(avals: Sequence[Any], after: Sequence[After] = (), fast: bool = False) -> bool:
    """As `takes`; or arrays are of bfloat16, and the processor multiplies these; with `fast` whatever it loses."""
    if takes(avals):
        return True
    return all(isinstance(n, int) and n for a in avals for n in a.shape) and narrow.multiplies(avals, after, fast)


def accepted(make: Callable[..., Primitive], *args: Any, **params: Any) -> bool:
    """Whether the library has code of its own for a primitive."""
    try:
        return make(*args, **params).is_fast
    except NncError:  # it has none at all
        return False


def count() -> int:
    """How many threads the library takes now."""
    from nnc_func.device.onednn.library import present, threads

    return threads(present())


def keeps_nan() -> bool:
    """Whether the library has a rectifier that is exact."""
    from nnc_func.device.onednn import elementwise
    from nnc_func.device.onednn.library import present

    return elementwise.keeps_nan(present())


def leaks() -> bool:
    """Whether the library has a leaky rectifier that is exact."""
    from nnc_func.device.onednn import elementwise
    from nnc_func.device.onednn.library import present

    return elementwise.leaks(present())


def pad(primitive: Primitive) -> Scratch:
    """The scratch memory of a primitive: none, or one run of bytes."""
    return (((primitive.room,), np.dtype(np.uint8)),) if primitive.scratch else ()


def for_one_call(wanted: Scratch) -> Arrays:
    """Scratch memory of those shapes and dtypes."""
    return tuple(np.empty(shape, dtype) for shape, dtype in wanted)


def result_array(shape: tuple[int, ...], dtype: Any, data_format: str = NHWC) -> Any:
    """An uninitialised array; of images, one whose channels are innermost in memory."""
    if data_format == NHWC:
        return np.empty(shape, dtype)
    n, channels, height, width = shape
    return np.empty((n, height, width, channels), dtype).transpose(0, 3, 1, 2)


def contiguous(x: Any) -> Any:
    """The array itself if it is row-major and its elements are aligned, else a copy that is."""
    return x if x.flags.c_contiguous and x.flags.aligned else np.array(x, order="C")


def in_layout(layout: Layout) -> Callable[[Any], Any]:
    """A function that gives an array itself if its axes lie in that order in memory, without gaps, else a copy."""
    if layout is None:
        return contiguous
    back = tuple(map(layout.index, range(len(layout))))

    def ready(x: Any) -> Any:
        seen = x.transpose(layout)
        fits = seen.flags.c_contiguous and x.flags.aligned
        return x if fits else np.array(seen, order="C").transpose(back)

    return ready


def kind_of(other: Any, shape: tuple[int, ...], layout: Layout, channels: int, dtype: Any = FLOAT32) -> str:
    """Which of `After.other` an operand is, beside a result of that shape and layout; ``"none"``: none of them.

    Parameters
    ----------
    channels
        The axis that lies innermost, counted from the last one.
    dtype
        Of the result.
    """
    if other.dtype != dtype:
        return "none"
    given = tuple(other.shape)
    if given == shape:
        return "whole" if getattr(other, "layout", None) == layout else "none"
    if all(n == 1 for n in given):
        return "number"
    rest = [n for i, n in enumerate(given, -len(given)) if i != channels]
    fits = len(given) >= -channels and set(rest) <= {1} and given[channels] == shape[channels]
    return "channels" if fits else "none"


def into(
    of: Callable[..., Callable[..., Run]], xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any
) -> None:
    """A kernel that can be bound, bound for one call."""
    of((*arrays, *outs), **params)(*scratch)(*arrays, *outs)


def widely(
    of: Callable[..., Callable[..., Run]], scratch_of: Callable[..., Scratch], params: Mapping[str, Any],
    operands: Sequence[Any], out: Any,
) -> None:  # fmt: skip
    """What a kernel of these parts computes of bfloat16, computed in float32 and rounded once."""
    given = tuple([x.astype(FLOAT32) for x in operands])
    made = np.empty_like(out, FLOAT32)
    into(of, np, given, (made,), for_one_call(scratch_of(given, **params)), **params)
    out[...] = made


@frozen(eq=False)
class Primitives:
    """What a library computes of two operands, and how.

    Attributes
    ----------
    bound, scratch, takes
        A kernel's `bound`, `scratch` and `accepts`, with parameters more: ``lasting``, operands that stay the same;
        ``after``, what is done with each element of the result (`device.onednn.primitives.After`), whose operands
        follow the two; and of `bound` ``shares``, whether what was put into order is shared.
    """

    bound: Callable[..., Callable[..., Run]]
    scratch: Callable[..., Scratch]
    takes: Callable[..., bool]

    @property
    def fast(self) -> Primitives:
        """The same, where what they lose does not matter: NaN after them, small numbers of bfloat16 in them."""
        return Primitives(
            partial(self.bound, fast=True), partial(self.scratch, fast=True), partial(self.takes, fast=True)
        )


def kernel_of(
    name: str, bound_of: Callable[..., Any], scratch_of: Callable[..., Scratch], takes: Callable[..., bool],
    empty: Callable[..., Any], lasting: tuple[int, ...] = (), **facts: Any,
) -> Kernel:  # fmt: skip
    """A kernel of the library.

    Parameters
    ----------
    bound_of, scratch_of, takes
        The kernel's `bound`, `scratch` and `accepts`; of `lasting` operands, they are given that parameter too.
    empty
        ``empty(*arrays, **params)``: an uninitialised result, or a tuple of several.
    lasting
        Operands that stay the same, which are put into order once when they are bound, and for each call else.
    """
    if lasting:
        bound_of, takes = partial(bound_of, lasting=lasting), partial(takes, lasting=lasting)
        scratch_of = partial(scratch_of, lasting=lasting)

    def compute(xp: Any, *arrays: Any, **params: Any) -> Any:
        found = empty(*arrays, **params)
        outs = found if isinstance(found, tuple) else (found,)
        if lasting:  # which may be others in the next call
            into(bound_of, xp, arrays, outs, for_one_call(scratch_of(arrays, **params)), **params)
        else:
            call(bound_of, scratch_of, count(), (*arrays, *outs), params, len(outs))
        return found

    return Kernel(
        name, compute=compute, into=partial(into, bound_of), scratch=scratch_of,
        bound=partial(bound_of, shares=True) if lasting else bound_of, accepts=takes, by_shape=True, lasting=lasting,
        namespaces=NUMPY, **{"library": LIBRARY, **facts},
    )  # fmt: skip


def product_of(
    avals: Sequence[Any],
    *,
    transpose_a: bool,
    transpose_b: bool,
    lies: tuple[Lies, Lies],
    lasting: tuple[int, ...] = (),
    after: tuple[After, ...] = (),
) -> Primitive:
    """The primitive of a matrix product; `lies`: of each operand, before it is transposed, as in `Product`."""
    from nnc_func.device.onednn.handles import data_type
    from nnc_func.device.onednn.primitives import Product, product

    shapes = [tuple(a.shape) for a in avals[:2]]
    rank = max(map(len, shapes))
    whole = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    swapped = (transpose_a, transpose_b)
    left, right = ((*x[:-2], x[-1], x[-2]) if turned else x for x, turned in zip(whole, swapped, strict=True))
    left_lies, right_lies = (_transposed(x) if turned else x for x, turned in zip(lies, swapped, strict=True))
    if rank > 2 and set(right[:-2]) <= {1} and not left_lies:  # all batches share it: they are rows of one product
        left, right = (math.prod(left[:-1]), left[-1]), right[-2:]
        right_lies = right_lies[-2:] if isinstance(right_lies, tuple) else right_lies
    return product(Product(left, right, left_lies, right_lies, data_type(avals[0].dtype)), lasting, after)


def _transposed(lies: Lies) -> Lies:
    return (*lies[:-2], lies[-1], lies[-2]) if isinstance(lies, tuple) else not lies


PATTERNS = ((False, False), (False, True), (True, False), (True, True))


def patterns(lasting: tuple[int, ...]) -> Any:
    """How operands may lie: what stays the same lies row by row, or is brought to."""
    return PATTERNS[::2] if lasting else PATTERNS


def takes_product(
    avals: Sequence[Any], *, least: int = 0, lasting: tuple[int, ...] = (), fast: bool = False, **more: Any
) -> bool:
    """Whether the library has code for a matrix product of that many FLOPs at least, however its operands lie.

    With a least number it is the choice between the library and BLAS, which one thread can call in turn at no cost.
    """
    return (
        takes_products(avals, more.get("after", ()), fast)
        and (_flops(avals, **more) >= least or is_bfloat16(avals[0].dtype))  # which BLAS does not know
        and all(accepted(product_of, avals, lies=lies, lasting=lasting, **more) for lies in patterns(lasting))
        and (not least or count() > 1 or product_of(avals, lies=PATTERNS[0], lasting=lasting, **more).is_steady)
    )


def _flops(avals: Sequence[Any], *, transpose_a: bool, transpose_b: bool, **_: Any) -> int:
    a, b = (a.shape for a in avals[:2])
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return int(2 * math.prod(batch) * a[-1] * a[-2] * b[-2 if transpose_b else -1])


def product_scratch(
    avals: Sequence[Any], *, lasting: tuple[int, ...] = (), fast: bool = False, **params: Any
) -> Scratch:
    """What the greediest wants, however operands lie."""
    ways = (pad(product_of(avals, lies=lies, lasting=lasting, **params)) for lies in patterns(lasting))
    return (*looked_at(avals, fast), *max(ways, key=_bytes))


def looked_at(avals: Sequence[Any], fast: bool) -> Scratch:
    """Memory in which operands are looked at before they are multiplied, where they are."""
    return () if fast or not is_bfloat16(avals[0].dtype) else narrow.scratch(avals)


def _bytes(wanted: Scratch) -> int:
    return sum(math.prod(shape) for shape, _ in wanted)


def _lies(x: Any) -> Lies:
    """How an operand lies in memory: as in `Product`; or False, where the library cannot take it as it lies."""
    flags = x.flags
    if flags.c_contiguous:
        return False
    if x.swapaxes(-1, -2).flags.c_contiguous:
        return True
    *batch, rows, columns = steps = tuple([n // x.itemsize for n in x.strides])
    below, beside = x.shape[-2:]
    fits = (columns == 1 and rows >= beside) or (rows == 1 and columns >= below)
    return steps if fits and flags.aligned and all(n > 0 for n in batch) else False


class _Product:
    """A matrix product as a function of operands and result: a primitive for each way in which these lie."""

    __slots__ = ("_avals", "_count", "_lasting", "_made", "_params", "_shares", "scratch")

    def __init__(self, avals: Sequence[Any], lasting: tuple[int, ...], shares: bool, scratch: Arrays, params: Any):
        self._avals, self._count, self._lasting, self._shares = avals, len(avals), lasting, shares
        self._made: dict[tuple[Lies, Lies], Run] = {}
        self._params, self.scratch = params, scratch

    def __call__(self, a: Any, b: Any, *arrays: Any) -> None:
        self._way(a, b)(a, b, *arrays)

    def fixed(self, arrays: Mapping[int, Any]) -> Run:
        """See `Kernel.bound`."""
        if not {0, 1} <= arrays.keys():
            return self
        found: Run = self._way(arrays[0], arrays[1]).fixed(arrays)  # type: ignore[attr-defined]
        return found

    def _way(self, a: Any, b: Any) -> Run:
        lies = _lies(a), not self._lasting and _lies(b)
        found = self._made.get(lies)
        if found is None:
            from nnc_func.device.onednn.bound import bound

            if len(self._made) >= WAYS:
                self._made.clear()
            key, primitive = lies, self._primitive(lies)
            if primitive is None:  # what has strides of its own is copied
                lies = lies[0] is True, lies[1] is True
                primitive = product_of(self._avals, lies=lies, lasting=self._lasting, **self._params)
            ready = (*[_as_it_lies if each else contiguous for each in lies], *[contiguous] * (self._count - 3))
            scratch = self.scratch[0] if self.scratch else None
            found = self._made[key] = bound(primitive, scratch, ready, self._shares)
        return found

    def _primitive(self, lies: tuple[Lies, Lies]) -> Primitive | None:
        """That of operands that lie so; None where the library has none, or wants more memory than there is."""
        if not any(isinstance(each, tuple) for each in lies):
            return product_of(self._avals, lies=lies, lasting=self._lasting, **self._params)
        a, b = self._avals[:2]
        if len(a.shape) != len(b.shape) or (len(a.shape) > 2 and a.shape[:-2] != b.shape[:-2]):
            return None
        if not accepted(product_of, self._avals, lies=lies, lasting=self._lasting, **self._params):
            return None
        found = product_of(self._avals, lies=lies, lasting=self._lasting, **self._params)
        return found if found.room <= sum(each.nbytes for each in self.scratch) else None


def bound_product(
    avals: Sequence[Any], *, lasting: tuple[int, ...] = (), shares: bool = False, fast: bool = False, **params: Any
) -> Callable[..., Run]:
    """What makes, of scratch memory, the matrix product as a function of operands and result."""

    def of(*scratch: Any) -> Run:
        return _Product(avals, lasting, shares, scratch, params)

    if not looked_at(avals, fast):
        return of
    inner = avals[0].shape[-2 if params["transpose_a"] else -1]
    pairs = inner % 2 == 1  # elements are multiplied in pairs: of an odd number the last, with a zero
    return narrow.exact(of, partial(widely, bound_product, product_scratch, params), lasting if shares else (), pairs)


def _as_it_lies(x: Any) -> Any:
    return x if x.flags.aligned else np.array(x.swapaxes(-1, -2), order="C").swapaxes(-1, -2)


def _takes_narrow_product(avals: Sequence[Any], **params: Any) -> bool:
    """Whether the library has code for a matrix product of bfloat16, which is not looked at."""
    return is_bfloat16(avals[0].dtype) and takes_product(avals, least=WORTH, fast=True, **params)


def product_kernels(result: Callable[..., Any]) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    """Of a matrix product: those that come before BLAS's, since they are worth a call, and those that come after.

    ``result(*arrays, **params)`` is its shape and dtype. Below `WORTH` BLAS has answered before the library has begun.
    """

    def empty(*arrays: Any, **params: Any) -> Any:
        return result_array(*result(*arrays, **params))

    parts = bound_product, product_scratch
    fast = partial(bound_product, fast=True), partial(product_scratch, fast=True), _takes_narrow_product
    named = f"{PACKED}, fast math"
    before = (
        kernel_of("onednn, fast math", *fast, empty, packed=named, narrow=True, library=FAST),
        kernel_of("onednn", *parts, LARGE_PRODUCT.takes, empty, packed=PACKED, narrow=True),
    )
    after = (
        kernel_of("onednn, small", *parts, takes_product, empty),
        kernel_of(named, *fast, empty, (1,), narrow=True, library=FAST),
        kernel_of(PACKED, *parts, takes_product, empty, (1,), narrow=True),
    )
    return before, after


PRODUCT = Primitives(bound_product, product_scratch, takes_product)
LARGE_PRODUCT = Primitives(bound_product, product_scratch, partial(takes_product, least=WORTH))
