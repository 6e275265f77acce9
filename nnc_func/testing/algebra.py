"""The laws of algebra that operators declare, each held against drawn arguments; see `facets.laws`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.facets.laws import Law
from nnc_func.op import Op
from nnc_func.testing.comparing import equal

FACTOR = 64.0  # how many times its rounding error a law that holds nearly may be off, of the largest number on the way
ODD_NUMBERS = (np.nan, np.inf, -np.inf, -0.0, 0.0)


def check_law(stack: Any, op: Op, law: Law, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Raise AssertionError where an operator breaks a law that it declares for these arguments.

    Where the law holds of every number, NaN and infinities are put among them.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.facets.laws import cancels
    >>> stack = nnc.lazy()
    >>> check_law(stack, stack.type.ops["subtract"], cancels(0), [np.ones(3), np.ones(3)], {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: subtract is not cancels(0)...
    """
    f = Application(stack, op, law, params)
    check = CHECKS[law.name]
    kinds = {kind_of(x.dtype) for x in given}
    if len(op.args) == 2 and law.name != "commutative" and given[0].dtype != given[1].dtype:
        return  # the rest is of operands of one dtype, as rules ask for: narrower integers wrap around earlier
    if kinds <= set(law.kinds):
        check(f, given)
        if law.name in EVERYWHERE:
            check(f, [_odd(x) for x in given])
    elif kinds <= set(law.kinds + law.nearly):
        f.ulps = FACTOR + op.tolerance.ulps
        check(f, given)


def _odd(x: Any) -> Any:
    """The array with NaN, infinities and zeros of both signs among its elements, if its dtype has them."""
    found = x.copy()
    if kind_of(x.dtype) in "fc" and x.size:
        count = min(x.size, len(ODD_NUMBERS))
        found.reshape(-1)[:count] = np.array(ODD_NUMBERS[:count]).astype(x.dtype)
    return found


class Application:
    """An operator as a function of arrays, and the comparison of what a law says are equal."""

    def __init__(self, stack: Any, op: Op, law: Law, params: Mapping[str, Any]) -> None:
        self.stack, self.op, self.law, self.params = stack, op, law, params
        self.ulps = 8 + op.tolerance.ulps if law.rounds else 0.0

    def __call__(self, *args: Any) -> Any:
        return self.stack.device.bind(self.op, *args, **self.params)

    def other(self, name: Any, *args: Any) -> Any:
        """Another operator of the stack, without parameters."""
        return self.stack.device.bind(self.stack.type.ops[name], *args)

    def same(self, found: Any, wanted: Any, *on_the_way: Any) -> None:
        """Equal: bit by bit but for the sign of zeros, or within rounding of the largest number on the way."""
        found, wanted = np.asarray(found), np.asarray(wanted)
        said = f"{self.op} is not {self.law}"
        if not self.ulps or kind_of(wanted.dtype) not in "fc":
            equal(np.asarray(found, wanted.dtype), wanted, 0.0, said)
            return
        scale = max((_largest(x) for x in (found, wanted, *on_the_way)), default=1.0)
        allowed = self.ulps * float(limits_of(wanted.dtype).eps) * max(scale, 1.0)
        alike = np.isclose(found, wanted, rtol=0.0, atol=allowed, equal_nan=True)
        assert np.all(alike), f"{said}: {found!r}, {wanted!r}"


def _largest(x: Any) -> float:
    size = np.abs(np.asarray(x, np.complex128))
    return float(np.max(size[np.isfinite(size)], initial=0.0))


Check = Callable[[Application, Sequence[Any]], None]

# --- one operator ----------------------------------------------------------------------------------------


def _commutes(f: Application, given: Sequence[Any]) -> None:
    a, b = given[:2]
    found, wanted = f(a, b), f(b, a)
    assert found.tobytes() == wanted.tobytes(), f"{f.op} is not commutative: {found!r}, {wanted!r}"


def _associates(f: Application, given: Sequence[Any]) -> None:
    a, b = given[:2]
    inner, other = f(a, b), f(b, a)
    f.same(f(inner, a), f(a, other), inner, a, np.float64(_largest(a)) ** 2 * _largest(b))


def _repeats(f: Application, given: Sequence[Any]) -> None:
    once = given[0] if len(f.op.args) == 2 else f(given[0])
    f.same(f(once, once) if len(f.op.args) == 2 else f(once), once)


def _undoes_itself(f: Application, given: Sequence[Any]) -> None:
    f.same(f(f(given[0])), given[0])


def _is_identity(f: Application, given: Sequence[Any]) -> None:
    f.same(f(given[0]), given[0])


def _number(f: Application, given: Sequence[Any], wanted: Callable[[Any, Any], Any]) -> None:
    law: Any = f.law
    for x in given:
        e = np.full((), law.value).astype(x.dtype)
        full = np.full(x.shape, e)
        if law.side in ("both", "right"):
            f.same(f(x, e), wanted(x, full))
        if law.side in ("both", "left"):
            f.same(f(e, x), wanted(x, full))


def _has_unit(f: Application, given: Sequence[Any]) -> None:
    _number(f, given, lambda x, _: x)


def _absorbs(f: Application, given: Sequence[Any]) -> None:
    held = f.law.kinds or f.law.side != "left"  # zero over zero is no number
    _number(f, [x for x in given if held or np.all(x != 0)], lambda _, full: full)


def _has_one_answer(f: Application, given: Sequence[Any]) -> None:
    found, value = f(given[0]), f.law.value
    f.same(found, np.full(found.shape, value).astype(found.dtype))


def _cancels(f: Application, given: Sequence[Any]) -> None:
    for x in given:
        found, value = f(x, x), f.law.value
        if f.law.kinds or np.all(x != 0):
            f.same(found, np.full(found.shape, value).astype(found.dtype))


def _is_odd(f: Application, given: Sequence[Any]) -> None:
    for i, x in enumerate(given):
        f.same(f(*given[:i], -x, *given[i + 1 :]), -f(*given), *given)


def _rounds(f: Application, given: Sequence[Any]) -> None:
    found = f(given[0])
    finite = found[np.isfinite(found)]
    assert np.array_equal(finite, np.round(finite)), f"{f.op} gives no whole numbers: {found!r}"
    f.same(f(np.round(given[0])), np.round(given[0]))


def _is_not_negative(f: Application, given: Sequence[Any]) -> None:
    found = f(*given)
    assert not np.any(found < 0), f"{f.op} is not {f.law}: {found!r}"


def _keeps_not_negative(f: Application, given: Sequence[Any]) -> None:
    _is_not_negative(f, [np.abs(x) for x in given])


def _increases(f: Application, given: Sequence[Any]) -> None:
    x = np.sort(given[0].reshape(-1))
    found = f(x).astype(np.float64)
    slack = 4 * float(limits_of(given[0].dtype).eps) * (1 + np.abs(found[1:])) * (1 + f.op.tolerance.ulps)
    assert np.all(np.isnan(x) == np.isnan(found)), f"{f.op} makes NaN of numbers: {x!r}, {found!r}"
    known = np.isfinite(found[1:]) & np.isfinite(found[:-1])
    assert np.all((np.diff(found) >= -slack)[known]), f"{f.op} is not increasing: {x!r}, {found!r}"


# --- two operators ---------------------------------------------------------------------------------------


def _inverts(f: Application, given: Sequence[Any]) -> None:
    law: Any = f.law
    inner = f.stack.type.ops[law.value]
    domain = inner.samples.domain
    low, high = domain[0] if isinstance(domain[0], tuple) else domain
    inside = np.clip(given[0].real.astype("float64"), low, high)
    f.same(f(f.other(law.value, inside)), inside)


def _is_undone(f: Application, given: Sequence[Any]) -> None:
    a, b = given[:2]
    inner = f(a, b)
    if not (f.law.kinds or np.all(b != 0)) or inner.shape != a.shape:
        return
    f.same(f.other(f.law.value, inner, b), a, inner, b)


def _ignores(f: Application, given: Sequence[Any]) -> None:
    for i, x in enumerate(given):
        f.same(f(*given[:i], f.other(f.law.value, x), *given[i + 1 :]), f(*given))


def _is_opposite(f: Application, given: Sequence[Any]) -> None:
    f.same(f(*given), ~f.other(f.law.value, *given))


def _has_dual(f: Application, given: Sequence[Any]) -> None:
    (other, through), dtype = _names(f), np.result_type(*given[:2])
    a, b = (x.astype(dtype) for x in given[:2])  # bits of a narrower dtype are not those of the result
    f.same(f(f.other(through, a), f.other(through, b)), f.other(through, f.other(other, a, b)))


def _complements(f: Application, given: Sequence[Any]) -> None:
    value, through = _names(f)
    found = f(given[0], f.other(through, given[0]))
    f.same(found, np.full(found.shape, float(value)).astype(found.dtype))


def _is_absorbed(f: Application, given: Sequence[Any]) -> None:
    a, b = np.broadcast_arrays(*given[:2])
    f.same(f(a, f.other(f.law.value, a, b)), a)


def _distributes(f: Application, given: Sequence[Any]) -> None:
    a, b = given[:2]
    both = [(a, b, np.flip(b), False), (b, a, np.flip(a), True)]
    for x, y, z, first in both if f.law.side == "both" else both[f.law.side == "left" :][:1]:
        one, other = (f(y, x), f(z, x)) if first else (f(x, y), f(x, z))
        total = f.other(f.law.value, y, z)
        f.same(f(total, x) if first else f(x, total), f.other(f.law.value, one, other), one, other)


def _turns(f: Application, given: Sequence[Any]) -> None:
    inner, outer = _names(f)
    x, y = given[0], np.flip(given[0])
    one, other = f(x), f(y)
    if inner == outer == "multiply" or inner == "add" or np.all(x > 0):
        f.same(f(f.other(inner, x, y)), f.other(outer, one, other), one, other)


def _names(f: Application) -> Any:
    return f.law.value


CHECKS: Mapping[str, Check] = {
    "commutative": _commutes,
    "associative": _associates,
    "idempotent": _repeats,
    "involution": _undoes_itself,
    "identity": _is_identity,
    "unit": _has_unit,
    "absorbs": _absorbs,
    "always": _has_one_answer,
    "cancels": _cancels,
    "odd": _is_odd,
    "whole": _rounds,
    "nonnegative": _is_not_negative,
    "keeps_nonnegative": _keeps_not_negative,
    "increasing": _increases,
    "inverse_of": _inverts,
    "undone_by": _is_undone,
    "ignores": _ignores,
    "opposite": _is_opposite,
    "dual": _has_dual,
    "complements": _complements,
    "absorption": _is_absorbed,
    "distributes_over": _distributes,
    "turns": _turns,
}
EVERYWHERE = frozenset(CHECKS) - {"commutative", "associative", "odd", "distributes_over"}
"""Laws that are held against NaN and infinities too, where they hold of every number; the others pick among them."""
