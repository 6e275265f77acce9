"""Scalar expressions as the prover's terms: booleans and integers are bit-vectors, float16 z3's own floating numbers.

Integers behave as NumPy's: they wrap around, divided by zero they give 0, shifted by as many bits as they have, or
more, they give zero or their sign. Elements of any other dtype are of a sort of which nothing is known, and so is what
an operator computes of them: of equal elements an equal one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import z3
from attrs import frozen

from nnc_func.facets.dtypes import BOOL
from nnc_func.facets.lowering import Expression, LoweringError
from nnc_func.testing.proofs.tensors import Symbol

HALF = np.dtype("float16")
NEAREST = z3.RNE()
EXPONENT = 16  # the largest known exponent of an integer power that is multiplied out


@frozen(eq=False)
class Term:
    """An element: a term of the prover, and the dtype that says what its bits mean."""

    term: Any
    dtype: Any


def sort_of(dtype: Any) -> Any:
    """The prover's sort of a dtype.

    Examples
    --------
    >>> sort_of(np.dtype("int8")), sort_of(np.dtype("bool")), sort_of(np.dtype("float64"))
    (BitVec(8), BitVec(1), float64)
    """
    if dtype == BOOL:
        return z3.BitVecSort(1)
    if dtype.kind in "iu":
        return z3.BitVecSort(8 * dtype.itemsize)
    return z3.FPSort(5, 11) if dtype == HALF else z3.DeclareSort(dtype.name)


def is_modelled(dtype: Any) -> bool:
    """Whether arithmetic of that dtype is known here."""
    return bool(dtype.kind in "biu" or dtype == HALF)


def _modelled(*elements: Term) -> None:
    for x in elements:
        if not is_modelled(x.dtype):
            raise LoweringError(f"nothing is known of {x.dtype} elements")


def _discrete(*elements: Term) -> None:
    _modelled(*elements)
    for x in elements:
        if x.dtype == HALF:
            raise LoweringError("it is not modelled of floats")


class Terms:
    """The algebra of terms."""

    def number(self, value: Any, dtype: Any) -> Term:
        """A number in a dtype, to which it is converted as an array is; a symbol is any number of its own dtype."""
        if isinstance(value, Symbol):
            return self.cast(Term(z3.Const(value.name, sort_of(value.dtype)), value.dtype), dtype)
        if dtype == HALF:
            return Term(z3.fpToFP(NEAREST, z3.FPVal(float(value), z3.Float64()), sort_of(dtype)), dtype)
        if not is_modelled(dtype):
            held = np.dtype(dtype).type(value)
            return Term(z3.Const(f"{dtype.name}:{held.tobytes().hex()}", sort_of(dtype)), dtype)
        return Term(z3.BitVecVal(int(np.asarray(value).astype(dtype)), sort_of(dtype)), dtype)

    def cast(self, x: Term, dtype: Any) -> Term:
        """The element in another dtype."""
        if x.dtype == dtype:
            return x
        if dtype == HALF and x.dtype.itemsize == 1:
            return Term(_as_half(x), dtype)
        if x.dtype == HALF and dtype == BOOL:
            return self.truth(z3.Not(z3.fpIsZero(x.term)))
        if x.dtype.kind not in "biu" or dtype.kind not in "biu":
            raise LoweringError(f"a cast from {x.dtype} to {dtype} is not modelled")
        return Term(_converted(x, dtype), dtype)

    def truth(self, condition: Any) -> Term:
        """A truth of the prover's as a boolean element."""
        return Term(z3.If(condition, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1)), BOOL)

    # --- arithmetic -----------------------------------------------------------------------------------------

    def add(self, a: Term, b: Term) -> Term:
        """The sum."""
        return _both(a, b, lambda x, y: x + y, z3.fpAdd)

    def subtract(self, a: Term, b: Term) -> Term:
        """The difference."""
        return _both(a, b, lambda x, y: x - y, z3.fpSub)

    def multiply(self, a: Term, b: Term) -> Term:
        """The product."""
        return _both(a, b, lambda x, y: x * y, z3.fpMul)

    def divide(self, a: Term, b: Term) -> Term:
        """The quotient of floats."""
        _modelled(a, b)
        if a.dtype != HALF:
            raise LoweringError("a quotient is modelled of float16 only")
        return Term(z3.fpDiv(NEAREST, a.term, b.term), HALF)

    def floor_divide(self, a: Term, b: Term) -> Term:
        """The quotient rounded down, as the kernels have it."""
        _discrete(a, b)
        x, y, zero = a.term, b.term, z3.BitVecVal(0, a.term.size())
        if a.dtype.kind != "i":
            return Term(z3.If(y == zero, zero, z3.UDiv(x, y)), a.dtype)
        rest = z3.SRem(x, y)
        below = z3.And(rest != zero, (rest < zero) != (y < zero))
        return Term(z3.If(y == zero, zero, z3.If(below, x / y - 1, x / y)), a.dtype)

    def remainder(self, a: Term, b: Term) -> Term:
        """What is left of it, of the divisor's sign."""
        _discrete(a, b)
        x, y, zero = a.term, b.term, z3.BitVecVal(0, a.term.size())
        rest = x % y if a.dtype.kind == "i" else z3.URem(x, y)
        return Term(z3.If(y == zero, zero, rest), a.dtype)

    def power(self, a: Term, b: Term) -> Term:
        """Of integers with a known exponent, or the base 1: an exponent below zero is refused by the kernel."""
        _discrete(a, b)
        exponent, base = z3.simplify(b.term), z3.simplify(a.term)
        if z3.is_bv_value(base) and base.as_long() == 1:
            return a
        if not z3.is_bv_value(exponent):
            raise LoweringError("a power is modelled of known exponents only")
        times = exponent.as_signed_long() if b.dtype.kind == "i" else exponent.as_long()
        if not 0 <= times <= EXPONENT:
            raise LoweringError(f"a power of {times} is not modelled")
        found = z3.BitVecVal(1, a.term.size())
        for _ in range(times):
            found = found * a.term
        return Term(found, a.dtype)

    def negative(self, x: Term) -> Term:
        """The opposite."""
        _modelled(x)
        return Term(-x.term if x.dtype != HALF else z3.fpNeg(x.term), x.dtype)

    def absolute(self, x: Term) -> Term:
        """The magnitude."""
        _modelled(x)
        if x.dtype == HALF:
            return Term(z3.fpAbs(x.term), x.dtype)
        return x if x.dtype.kind != "i" else Term(z3.If(x.term < 0, -x.term, x.term), x.dtype)

    def sqrt(self, x: Term) -> Term:
        """The square root."""
        if x.dtype != HALF:
            raise LoweringError("a root is modelled of float16 only")
        return Term(z3.fpSqrt(NEAREST, x.term), HALF)

    def rounded(self, x: Term, way: str) -> Term:
        """The nearest whole number that way: floor, ceil, trunc, rint."""
        _modelled(x)
        if x.dtype != HALF:
            return x
        modes = {"floor": z3.RTN(), "ceil": z3.RTP(), "rint": z3.RNE(), "trunc": z3.RTZ()}
        return Term(z3.fpRoundToIntegral(modes[way], x.term), HALF)

    # --- questions ------------------------------------------------------------------------------------------

    def less(self, a: Term, b: Term) -> Term:
        """Whether one is less than the other."""
        _modelled(a, b)
        if a.dtype == HALF:
            return self.truth(z3.fpLT(a.term, b.term))
        return self.truth(a.term < b.term if a.dtype.kind == "i" else z3.ULT(a.term, b.term))

    def equal(self, a: Term, b: Term) -> Term:
        """Whether they are equal numbers."""
        _modelled(a, b)
        return self.truth(z3.fpEQ(a.term, b.term) if a.dtype == HALF else a.term == b.term)

    def is_nan(self, x: Term) -> Term:
        """Whether it is no number."""
        _modelled(x)
        return self.truth(z3.fpIsNaN(x.term) if x.dtype == HALF else z3.BoolVal(False))

    def select(self, condition: Term, a: Term, b: Term) -> Term:
        """One of two elements, as a truth value says."""
        return Term(z3.If(condition.term == 1, a.term, b.term), a.dtype)

    # --- bits -----------------------------------------------------------------------------------------------

    def bit_and(self, a: Term, b: Term) -> Term:
        """Bits that both have."""
        return _bits(a, b, lambda x, y: x & y)

    def bit_or(self, a: Term, b: Term) -> Term:
        """Bits that one has."""
        return _bits(a, b, lambda x, y: x | y)

    def bit_xor(self, a: Term, b: Term) -> Term:
        """Bits that one of them alone has."""
        return _bits(a, b, lambda x, y: x ^ y)

    def bit_not(self, x: Term) -> Term:
        """The other bits."""
        _discrete(x)
        return Term(~x.term, x.dtype)

    def left_shift(self, a: Term, b: Term) -> Term:
        """The bits moved up."""
        return _bits(a, b, lambda x, y: x << y)

    def right_shift(self, a: Term, b: Term) -> Term:
        """The bits moved down."""
        return _bits(a, b, lambda x, y: x >> y if a.dtype.kind == "i" else z3.LShR(x, y))


def _both(a: Term, b: Term, whole: Callable[..., Any], floating: Callable[..., Any]) -> Term:
    _modelled(a, b)
    found = floating(NEAREST, a.term, b.term) if a.dtype == HALF else whole(a.term, b.term)
    return Term(found, a.dtype)


def _bits(a: Term, b: Term, function: Callable[..., Any]) -> Term:
    _discrete(a, b)
    return Term(function(a.term, b.term), a.dtype)


def _converted(x: Term, dtype: Any) -> Any:
    """Between booleans and integers: cut off, or filled up with the sign."""
    have, wanted = x.term.size(), sort_of(dtype).size()
    if dtype == BOOL:
        return z3.If(x.term != 0, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))
    if wanted <= have:
        return z3.Extract(wanted - 1, 0, x.term)
    return (z3.SignExt if x.dtype.kind == "i" else z3.ZeroExt)(wanted - have, x.term)


def _as_half(x: Term) -> Any:
    """A boolean or an integer of 8 bits, each of which is a float16."""
    convert = z3.fpSignedToFP if x.dtype.kind == "i" else z3.fpUnsignedToFP
    wide = z3.ZeroExt(7, x.term) if x.dtype == BOOL else x.term
    return convert(NEAREST, wide, sort_of(HALF))


TERMS: Any = Terms()


def expressed(op: Any, args: list[Term], params: dict[str, Any], dtype: Any) -> Term:
    """An operator of elements: by its expression, or, where that says nothing of the dtypes, as an unknown function."""
    if isinstance(op.lowering, Expression):
        with suppress(LoweringError):  # it says nothing of these dtypes
            found: Term = op.lowering.function(TERMS, *args, **params)
            assert found.dtype == dtype, f"{op.name}: a lowering gives {found.dtype}, and the operator {dtype}"
            return found
    name = f"{op.name}{sorted((k, str(v)) for k, v in params.items())}:{[x.dtype.name for x in args]}"
    function = z3.Function(name, *(x.term.sort() for x in args), sort_of(dtype))
    return Term(function(*(x.term for x in args)), dtype)
