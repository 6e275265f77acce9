"""Special cases that the array API standard has and NumPy's loops have not: of infinities, signed zeros and NaN.

Each is where a function's arguments are special, and what it gives there; everywhere else NumPy's loop computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from nnc_func.device.kernels.blocks import grid, wide
from nnc_func.device.kernels.move import NUMPY, Arrays, converted, dtype_of, of_parts
from nnc_func.facets import dtypes
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.shapes import broadcast

EXACT = "exact"  # a namespace whose numbers are neither infinite nor NaN, and have one zero


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
        if found is None or not np.count_nonzero(found):
            call(*arrays, out)
            return
        found = np.broadcast_to(found, out.shape)
        given = self.give(np, *[np.broadcast_to(a, out.shape)[found] for a in arrays])
        call(*arrays, out)
        out[found] = given


def _of_kinds(dtype: dtypes.DTypeRule, kinds: str, wanted: bool, avals: Any, **_: Any) -> bool:
    return (kind_of(dtype(*(a.dtype for a in avals))) in kinds) is wanted


BLOCK = 8192  # elements: what is special is found in a block while that is in the innermost caches


def _blocks(special: Special, call: Callable[..., Any], arrays: Arrays, out: Any) -> None:
    if out.size <= BLOCK:
        special.mended(call, out, *arrays)
        return
    given = [wide(a, out.shape) for a in arrays]
    every = slice(None)
    for where in grid(out.shape, BLOCK, out.ndim).blocks():
        at = [tuple([w if n != 1 else every for w, n in zip(where, a.shape, strict=True)]) for a in given]
        special.mended(call, out[where], *[a[here] for a, here in zip(given, at, strict=True)])


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
        if found is None or not np.count_nonzero(found):
            return call(*arrays)
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
        is_special = kind_of(wanted) in special.kinds and xp.__name__ != EXACT
        where = special.where(xp, *given) if is_special else None
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


def _of_root(xp: Any, a: Any, b: Any) -> Any:
    """Where NumPy takes a square root for the power of one half: if the exponent is one number of several elements."""
    if xp is np and (b.item() != 0.5 if b.ndim == 0 else a.shape == b.shape and a.size > 1 and all(b.strides)):
        return None
    return (b == 0.5) & ((a == -math.inf) | (a == 0))


POWER = Special(_of_root, lambda xp, a, b: xp.abs(a), "f")
"""The power of one half is infinite of minus infinity and zero of minus zero, where a square root is NaN and -0.0."""


# --- complex numbers --------------------------------------------------------------------------------------


def _endless_or_nothing(xp: Any, z: Any) -> Any:
    return ~xp.isfinite(z) | (z == 0)


def _endless_or_nothing_on_a_host(xp: Any, z: Any) -> Any:
    """NumPy computes the rest; CuPy's real parts lose what exp(a) cos(b) has in common with one, so none of it."""
    return _endless_or_nothing(xp, z) if xp is np else xp.ones_like(xp.isfinite(z))


def _expm1(xp: Any, z: Any) -> Any:
    """exp(z) - 1, nothing of which cancels: the real part is expm1(a) cos(b) - 2 sin(b / 2)^2."""
    a, b = xp.real(z), xp.imag(z)
    size = xp.expm1(xp.where(a == 0, xp.zeros_like(a), a))  # of zeros of either sign it is zero
    turns = xp.isfinite(b) & (b != 0)
    angle = xp.where(turns, b, xp.zeros_like(b))
    endless = xp.isinf(a)
    below = endless & (a < 0)
    half = xp.sin(angle / 2)
    real = xp.where(below, size, size * xp.cos(angle) - 2 * half * half)
    imag = xp.where(turns, xp.exp(a) * xp.sin(angle), b)
    nowhere = ~xp.isfinite(b)
    real = xp.where(nowhere & ~endless, xp.full_like(a, math.nan), real)
    imag = xp.where(nowhere, xp.where(below, xp.zeros_like(b), xp.full_like(b, math.nan)), imag)
    return of_parts(xp, real, imag)


EXPM1 = Special(_endless_or_nothing_on_a_host, _expm1, "c")


def _log1p(xp: Any, z: Any) -> Any:
    """log(1 + z) near zero: the real part is half of log1p(a (2 + a) + b^2)."""
    a, b = xp.real(z), xp.imag(z)
    return of_parts(xp, xp.log1p(a * (2 + a) + b * b) / 2, xp.imag(xp.log(1 + z)))


LOG1P = Special(lambda xp, z: xp.abs(z) <= 0.5, _log1p, "c")
"""NumPy takes the logarithm of the magnitude of 1 + z, which loses what is small beside one."""


def _tanh(xp: Any, z: Any) -> Any:
    """One with the sign of the real part, beside a zero with that of the imaginary part."""
    a, b = xp.real(z), xp.imag(z)
    return of_parts(xp, xp.sign(a), xp.copysign(xp.zeros_like(b), b))


TANH = Special(lambda xp, z: xp.isinf(xp.real(z)), _tanh, "c")


def _sign(xp: Any, z: Any) -> Any:
    """Zero of zeros of any signs, NaN in both parts of NaN in one."""
    return xp.where(xp.isnan(z), xp.full_like(z, complex(math.nan, math.nan)), xp.zeros_like(z))


SIGN = Special(lambda xp, z: xp.isnan(z) | (z == 0), _sign, "c")
