"""Special cases that the array API standard has and NumPy's loops have not: of infinities, signed zeros and NaN.

Each is where a function's arguments are special, and what it gives there; everywhere else NumPy's loop computes. A
power whose exponent is one number for all is another loop of NumPy (a square, a root), of other last bits and other
special cases: here a power is that of its two numbers, however they lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from nnc_func.device.kernels.move import NUMPY, Arrays, converted, dtype_of, of_parts
from nnc_func.facets import dtypes
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.shapes import broadcast


@frozen
class Special:
    """The special cases of an elementwise function.

    Attributes
    ----------
    where
        ``where(xp, *arrays)``: booleans that broadcast to the result, or None if there are none.
    give
        ``give(xp, *arrays)``: what the function gives there; elsewhere anything.
    kinds
        Of the dtypes of results that have them.
    """

    where: Callable[..., Any]
    give: Callable[..., Any]
    kinds: str

    def mended(self, call: Callable[..., Any], out: Any, *arrays: Any) -> None:
        """Write NumPy's result, and what it is where arguments are special; these may lie where the result does."""
        found = self.where(np, *arrays)
        if found is None or not found.any():
            call(*arrays, out)
            return
        found = np.broadcast_to(found, out.shape)
        given = self.give(np, *[np.broadcast_to(a, out.shape)[found] for a in arrays])
        call(*arrays, out)
        out[found] = given


def _of_kinds(dtype: dtypes.DTypeRule, kinds: str, wanted: bool, avals: Any, **_: Any) -> bool:
    return (kind_of(dtype(*(a.dtype for a in avals))) in kinds) is wanted


BLOCK = 65536  # elements: what is special is found in a block while that is in the innermost caches


def _blocks(special: Special, call: Callable[..., Any], arrays: Arrays, out: Any) -> None:
    if out.size <= BLOCK or not out.flags.c_contiguous:
        special.mended(call, out, *arrays)
        return
    rows = max(1, BLOCK * len(out) // out.size)
    cut = [a.ndim == out.ndim and a.shape[0] != 1 for a in arrays]
    for start in range(0, len(out), rows):
        part = slice(start, start + rows)
        special.mended(call, out[part], *[a[part] if c else a for a, c in zip(arrays, cut, strict=True)])


def corrected(
    numpy: str, standard: str, common: dtypes.DTypeRule, special: Special, plain: tuple[Kernel, ...]
) -> tuple[Kernel, ...]:
    """The kernels of a function with such special cases: its own of NumPy, those of other kinds, and a reference.

    Parameters
    ----------
    numpy, standard
        The names of the function there.
    common
        The rule for the dtype in which it is computed.
    plain
        Its kernels without special cases, the reference last.
    """
    call = getattr(np, numpy)

    def compute(xp: Any, *arrays: Any) -> Any:
        found = special.where(np, *arrays)
        if found is None or not found.any():
            return np.asarray(call(*arrays))
        out = np.empty(broadcast(*(a.shape for a in arrays)), common(*(a.dtype for a in arrays)))
        special.mended(call, out, *arrays)
        return out

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
        _blocks(special, call, arrays, outs[0])

    def standardised(xp: Any, *arrays: Any) -> Any:
        wanted = common(*map(dtype_of, arrays))
        shape = broadcast(*(a.shape for a in arrays))
        given = [xp.broadcast_to(converted(xp, a, wanted), shape) for a in arrays]
        found = getattr(xp, standard)(*given)
        where = special.where(xp, *given) if kind_of(wanted) in special.kinds else None
        return found if where is None else xp.where(where, special.give(xp, *given), found)

    own = Kernel(
        f"{numpy}, special cases", compute=compute, into=into, overwrites="all", infallible=True, strided=True,
        namespaces=frozenset({"numpy"}), accepts=partial(_of_kinds, common, special.kinds, True),
    )  # fmt: skip
    others = partial(_of_kinds, common, special.kinds, False)
    rest = [evolve(k, accepts=_both(k.accepts, others)) if k.namespaces == NUMPY else k for k in plain[:-1]]
    return (own, *rest, reference(standardised, infallible=True))


def _both(first: Callable[..., bool], second: Callable[..., bool]) -> Callable[..., bool]:
    return lambda avals, **params: first(avals, **params) and second(avals, **params)


# --- real numbers -----------------------------------------------------------------------------------------


def _infinite(xp: Any, a: Any, b: Any) -> Any:
    return xp.isinf(a) | xp.isinf(b)


FLOOR_DIVIDE = Special(_infinite, lambda xp, a, b: xp.divide(a, b), "f")
"""The quotient is infinite or zero; NumPy's is what leaves a remainder, NaN or -1."""


def _is_one(b: Any) -> bool:
    return b.size == 1 or not any(b.strides)


def _by_other_loops(xp: Any, a: Any, b: Any) -> Any:
    if xp is np and not _is_one(b):
        return (b == 2) | (b == -1) | (b == 0.5)
    if xp is np and (b.size == 0 or b.flat[0] != 0.5):
        return None
    return (b == 0.5) & ((a == -np.inf) | (a == 0))


def _other_loops(xp: Any, a: Any, b: Any) -> Any:
    if xp is not np:
        return xp.abs(a)
    out = np.empty(b.shape, np.result_type(a, b))
    for exponent, call in ((2, np.square), (-1, np.reciprocal), (0.5, _root)):
        those = b == exponent
        if those.any():
            out[those] = call(a[those].astype(out.dtype, copy=False))
    return out


def _root(a: Any) -> Any:
    """To the power of one half, of which the square of no number is infinite: minus infinity has an infinite one."""
    return np.sqrt(np.where(a == -np.inf, np.inf, a + 0.0))


POWER = Special(_by_other_loops, _other_loops, "f")


# --- complex numbers --------------------------------------------------------------------------------------


def _endless_or_nothing(xp: Any, z: Any) -> Any:
    return ~xp.isfinite(z) | (z == 0)


def _expm1(xp: Any, z: Any) -> Any:
    """exp(z) - 1 of what is not finite or zero: by the real part unless that is a number beside none."""
    a, b = xp.real(z), xp.imag(z)
    size = xp.expm1(xp.where(a == 0, xp.zeros_like(a), a))  # of zeros of either sign it is zero
    turns = xp.isfinite(b) & (b != 0)
    angle = xp.where(turns, b, xp.zeros_like(b))
    endless = xp.isinf(a)
    below = endless & (a < 0)
    real = xp.where(endless & ~below & turns, size * xp.cos(angle), size)
    imag = xp.where(turns, xp.where(below, xp.zeros_like(a), xp.abs(size)) * xp.sin(angle), b)
    nowhere = ~xp.isfinite(b)
    real = xp.where(nowhere & ~endless, xp.full_like(a, np.nan), real)
    imag = xp.where(nowhere, xp.where(below, xp.zeros_like(b), xp.full_like(b, np.nan)), imag)
    return of_parts(xp, real, imag)


EXPM1 = Special(_endless_or_nothing, _expm1, "c")


def _tanh(xp: Any, z: Any) -> Any:
    """One with the sign of the real part, beside a zero with that of the imaginary part."""
    a, b = xp.real(z), xp.imag(z)
    return of_parts(xp, xp.sign(a), xp.copysign(xp.zeros_like(b), b))


TANH = Special(lambda xp, z: xp.isinf(xp.real(z)), _tanh, "c")


def _sign(xp: Any, z: Any) -> Any:
    """Zero of zeros of any signs, NaN in both parts of NaN in one."""
    return xp.where(xp.isnan(z), xp.full_like(z, complex(np.nan, np.nan)), xp.zeros_like(z))


SIGN = Special(lambda xp, z: xp.isnan(z) | (z == 0), _sign, "c")
