"""Products of bfloat16 by oneDNN, where none of their terms is lost for being small.

What processors have for these reads numbers below the least normal one, 2^-126, as zero, and writes zeros for them. An
operand's elements have 8 significant bits: if the least one of each but for zeros, is 2^i and 2^j or more, then all
products, their sums and what those are rounded to are multiples of 2^(i + j - 14), and where that is a normal number
none of them is lost. Operands are looked at before each run, which takes a fraction of what the product does. Where
something may be lost they are widened, and it is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.facets.dtypes import is_bfloat16

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import After

Run = Callable[..., None]
KEEPS = frozenset({"add", "subtract", "relu", "fast relu"})  # what may be done after, and makes nothing smaller
CHUNK = 1 << 18  # elements that are looked at together: what is made of them stays in the second cache
INFINITE = 0xFF00  # twice the bits of infinity; those of NaN are more
ZERO = 0xFFFF  # stands for the magnitude of an array of zeros: greater than that of NaN
BITS, BIAS, LEAST = 7, 127, 126  # of bfloat16: those behind the first one; of exponents; the least one, negated
PAIR = 2 * BIAS + 2 * BITS - LEAST  # what exponents of two operands have to sum up to, as they are stored
OTHER = BIAS + BITS - LEAST  # what the exponent of something that is added has to be


def multiplies(avals: Sequence[Any], after: Sequence[After] = (), fast: bool = False) -> bool:
    """Whether arrays are of bfloat16, and the processor multiplies that; and what follows keeps what is small."""
    if not all(is_bfloat16(a.dtype) for a in avals) or not (fast or all(each.name in KEEPS for each in after)):
        return False
    from nnc_func.device.onednn.bfloat16 import is_native
    from nnc_func.device.onednn.library import present

    return is_native(present())


def exponent(x: Any, buffer: Any, finite: bool = False) -> int:
    """The exponent, as it is stored, of the least element but for zeros; 0: it is no normal number.

    Parameters
    ----------
    x
        Of bfloat16, however it lies.
    buffer
        Memory for its elements, uint16, or for as many as are looked at together.
    finite
        Whether it is 0 as well if there are NaN or infinities.

    Examples
    --------
    >>> import ml_dtypes
    >>> x = np.array([0, -0.5, 4, np.inf], ml_dtypes.bfloat16)
    >>> exponent(x, np.empty(4, np.uint16)) - BIAS, exponent(x[:1], np.empty(1, np.uint16)) - BIAS
    (-1, 129)
    """
    bits = x.view(np.uint16)
    if not x.flags.c_contiguous:
        bits = bits.transpose(sorted(range(x.ndim), key=lambda axis: -x.strides[axis]))
    bits = bits.reshape(-1)  # a copy where it has gaps
    least = ZERO
    for start in range(0, bits.size, buffer.size or 1):
        part = bits[start : start + buffer.size]
        magnitudes = buffer[: part.size]
        np.add(part, part, magnitudes)  # without the sign
        if finite and np.maximum.reduce(magnitudes) >= INFINITE:
            return 0
        np.subtract(magnitudes, 1, magnitudes)  # of a zero the greatest number
        least = min(least, int(np.minimum.reduce(magnitudes)))
    return (least + 1) >> (BITS + 1)


class Exact:
    """A product as a function of operands and result: by the processor's instructions, or in float32.

    Parameters
    ----------
    run
        By these.
    widely
        ``widely(operands, out)``: in float32.
    lasting
        Positions of operands that have the same elements until somebody says otherwise: they are looked at once.
    finite
        Whether those of NaN or infinities are computed in float32 too.
    buffer
        See `exponent`.
    """

    __slots__ = ("_buffer", "_finite", "_lasting", "_run", "_widely")

    def __init__(
        self, run: Run, widely: Callable[..., None], lasting: Collection[int], finite: bool, buffer: Any
    ) -> None:
        self._run, self._widely, self._lasting, self._finite, self._buffer = run, widely, lasting, finite, buffer

    def __call__(self, *arrays: Any) -> None:
        *operands, out = arrays
        if self._keeps(operands):
            self._run(*arrays)
        else:
            self._widely(operands, out)

    def fixed(self, arrays: Mapping[int, Any]) -> Run:
        """See `Kernel.bound`."""
        run: Any = self._run
        return Exact(run.fixed(arrays), self._widely, self._lasting, self._finite, self._buffer)

    def _keeps(self, operands: Sequence[Any]) -> bool:
        left, right, *others = [self._exponent(place, x) for place, x in enumerate(operands)]
        return min(left, right) > 0 and left + right >= PAIR and all(each >= OTHER for each in others)

    def _exponent(self, place: int, x: Any) -> int:
        if place not in self._lasting:
            return exponent(x, self._buffer, self._finite)
        from nnc_func.device.onednn.packing import remembered

        both: tuple[int, int] = remembered(x, lambda: (exponent(x, self._buffer), exponent(x, self._buffer, True)))
        return both[self._finite]


def exact(
    of: Callable[..., Run], widely: Callable[..., None], lasting: Collection[int] = (), finite: bool = False
) -> Callable[..., Run]:
    """What makes of scratch memory, `scratch` and then its own, a product that loses nothing.

    Parameters
    ----------
    of
        Makes of its own scratch memory what computes it by the processor's instructions.
    widely, lasting, finite
        As those of `Exact`.
    """
    return lambda buffer, *own: Exact(of(*own), widely, lasting, finite, buffer)


def scratch(avals: Sequence[Any]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """Memory in which operands of these avals are looked at."""
    return (((min(CHUNK, max(math.prod(a.shape) for a in avals)),), np.dtype(np.uint16)),)
