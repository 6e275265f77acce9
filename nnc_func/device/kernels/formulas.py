"""Formulas as calls on registers: a function of arrays is recorded once, and then runs in memory that it is given.

So what is written as a formula, for any array namespace, takes no memory on NumPy but scratch that a plan knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attrs import field, frozen

from nnc_func.device.shared.unrolled import unrolled

POWERS = {2: np.square, -1: np.reciprocal, 0.5: np.sqrt}  # as NumPy's own operator computes them
Call = tuple[Callable[..., Any], tuple[int, ...], int]


@frozen(eq=False)
class Formula:
    """Calls on values: the argument, then registers, then constants, and the result at last.

    Attributes
    ----------
    calls
        (function, numbers of operands, number of the result), one after the other.
    registers
        Dtype of each.
    constants
        Numbers.
    written
        The calls as a function of the argument, the result and registers.
    """

    calls: tuple[Call, ...]
    registers: tuple[np.dtype[Any], ...]
    constants: tuple[Any, ...]
    written: Callable[..., None] = field(repr=False)

    @classmethod
    def of(cls, calls: tuple[Call, ...], registers: tuple[np.dtype[Any], ...], constants: tuple[Any, ...]) -> Formula:
        """Such calls, written out."""
        first = 1 + len(registers)
        shown: list[Any] = [0, *range(2, 1 + first), *constants, 1]  # the result comes behind the argument there
        rows = [(f, (*[shown[i] for i in operands], shown[target])) for f, operands, target in calls]
        return cls(calls, registers, constants, unrolled(rows, 1 + first))

    def run(self, x: Any, out: Any, registers: Sequence[Any]) -> None:
        """Compute it of an array, with registers of its shape, into another, which may lie over it."""
        self.written(x, out, *registers)


@lru_cache(256)
def recorded(function: Callable[..., Any], given: Any, inner: Any, result: Any, params: Any) -> Formula:
    """A function ``(xp, x, **params)`` of arrays of one shape, whose argument is brought to a dtype first.

    Parameters
    ----------
    given, inner, result
        The dtypes of the argument, of that to which it is brought, and of the result.

    Examples
    --------
    >>> found = recorded(lambda xp, x: xp.where(x > 0, x * x, xp.exp(x) - 1), *3 * [np.dtype("float64")], ())
    >>> len(found.calls), [str(each) for each in found.registers]
    (7, ['bool', 'float64', 'float64', 'int64', 'float64'])
    >>> x = np.array([-np.inf, 3.0])
    >>> found.run(x, x, [np.empty(2, dtype) for dtype in found.registers])
    >>> x
    array([-1.,  9.])
    """
    return _Recording(given).of(function, inner, result, dict(params))


class _Value:
    """A value while a formula is recorded: what an array of one element would be in its place."""

    def __init__(self, recording: _Recording, number: int, sample: Any) -> None:
        self.recording, self.number, self.sample = recording, number, sample

    @property
    def dtype(self) -> Any:
        return self.sample.dtype

    __hash__ = object.__hash__  # values are compared by elements

    def __neg__(self) -> Any:
        return self.recording.call(np.negative, (self,))

    def __pow__(self, exponent: Any) -> Any:
        if exponent in POWERS:
            return self.recording.call(POWERS[exponent], (self,))
        return self.recording.call(np.power, (self, exponent))


def _binary(function: Any, swapped: bool = False) -> Any:
    def apply(self: _Value, other: Any) -> Any:
        return self.recording.call(function, (other, self) if swapped else (self, other))

    return apply


ARITHMETIC: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "and": np.bitwise_and,
    "or": np.bitwise_or,
}  # fmt: skip
COMPARISONS: dict[str, Any] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
for _name, _function in ARITHMETIC.items():
    setattr(_Value, f"__{_name}__", _binary(_function))
    setattr(_Value, f"__r{_name}__", _binary(_function, swapped=True))
for _name, _function in COMPARISONS.items():
    setattr(_Value, f"__{_name}__", _binary(_function))


class _Recording:
    """The namespace that a formula is recorded in."""

    def __init__(self, given: Any) -> None:
        self.__name__ = np.__name__  # as a formula sees it
        self.samples: list[Any] = [np.ones(1, given)]
        self.steps: list[tuple[Any, tuple[Any, ...]]] = []  # of each value after the first: its function, its operands

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if not isinstance(function, np.ufunc):
            raise AttributeError(name)
        return lambda *operands: self.call(function, operands)

    def call(self, function: Any, operands: tuple[Any, ...]) -> Any:
        """The result of a function; of constants a constant."""
        samples = [each.sample if isinstance(each, _Value) else each for each in operands]
        with np.errstate(all="ignore"):
            found = function(*samples)
        if not any(isinstance(each, _Value) for each in operands):
            return found
        self.steps.append((function, operands))
        self.samples.append(found)
        return _Value(self, len(self.samples) - 1, found)

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        """Of two values of one dtype, either of which may be a constant."""
        mask = self.call(_mask, (condition, _sample(yes)))
        return self.call(_select, (mask, yes, no))

    def round(self, x: Any) -> Any:
        """To the nearest integer."""
        return self.call(np.rint, (x,))

    def full_like(self, like: Any, number: Any) -> Any:
        """A constant of that dtype."""
        return like.dtype.type(number)

    def zeros_like(self, like: Any) -> Any:
        """Nothing."""
        return self.full_like(like, 0)

    def ones_like(self, like: Any) -> Any:
        """One."""
        return self.full_like(like, 1)

    def of(self, function: Any, inner: Any, result: Any, params: dict[str, Any]) -> Formula:
        """The formula of a function."""
        x: Any = _Value(self, 0, self.samples[0])
        if x.dtype != inner:
            x = self.call(partial(_cast, inner), (x,))
        found = function(self, x, **params)
        if found.dtype != result:
            found = self.call(partial(_cast, result), (found,))
        if found.number != len(self.steps) or not isinstance(self.steps[-1][0], np.ufunc):
            self.call(_copy, (found,))  # it is written last, where the argument may lie
        return self._placed()

    def _placed(self) -> Formula:
        """Calls whose results lie in as few registers as there are values that are still read."""
        last: dict[int, int] = {}
        for n, (_, operands) in enumerate(self.steps, start=1):
            last.update((each.number, n) for each in operands if isinstance(each, _Value))
        registers: list[np.dtype[Any]] = []
        constants: list[Any] = []
        homes: dict[int, int] = {}  # of values
        free: list[int] = []
        calls: list[tuple[Any, list[tuple[bool, int]], int]] = []
        for n, (function, operands) in enumerate(self.steps, start=1):
            values = dict.fromkeys(each.number for each in operands if isinstance(each, _Value))
            dying = [homes[value] for value in values if value and last[value] == n]
            own = isinstance(function, np.ufunc)  # it may write over what it reads
            free += dying if own else []
            target = -1
            if n < len(self.steps):
                dtype = self.samples[n].dtype
                target = next((r for r in free if registers[r] == dtype), len(registers))
                if target == len(registers):
                    registers.append(dtype)
                else:
                    free.remove(target)
                homes[n] = target
                if n not in last:
                    free.append(target)
            free += [] if own else dying
            placed = []
            for each in operands:
                if isinstance(each, _Value):
                    placed.append((False, 1 + homes[each.number] if each.number else 0))
                else:
                    placed.append((True, len(constants)))
                    constants.append(_as_array(each, operands))
            calls.append((function, placed, target))
        first = 1 + len(registers)
        made = [
            (
                _writing(function),
                tuple([first + at if known else at for known, at in placed]),
                1 + target if target >= 0 else -1,
            )
            for function, placed, target in calls
        ]
        return Formula.of(tuple(made), tuple(registers), tuple(constants))


def _sample(value: Any) -> Any:
    return value.sample if isinstance(value, _Value) else value


def _as_array(number: Any, operands: Sequence[Any]) -> Any:
    """A number as NumPy takes it in least time: an array of the dtype that it has beside the values."""
    if isinstance(number, np.generic):
        return np.asarray(number)
    return np.asarray(number, np.result_type(*[each.dtype for each in operands if isinstance(each, _Value)], number))


def _integers(like: Any) -> Any:
    """The integers as wide as a number: it is chosen by its bits, since copies where a mask says so are slow."""
    return np.dtype(f"i{like.dtype.itemsize}")


def _mask(condition: Any, like: Any) -> Any:
    return -condition.astype(_integers(like))


def _mask_into(condition: Any, like: Any, out: Any) -> None:
    np.copyto(out, condition)
    np.negative(out, out=out)


def _select(mask: Any, yes: Any, no: Any) -> Any:
    return np.where(mask != 0, yes, no)


def _select_into(mask: Any, yes: Any, no: Any, out: Any) -> None:
    bits, other = out.view(mask.dtype), no.view(mask.dtype)
    np.bitwise_xor(yes.view(mask.dtype), other, out=bits)
    np.bitwise_and(bits, mask, out=bits)
    np.bitwise_xor(bits, other, out=bits)


def _cast(dtype: Any, x: Any) -> Any:
    return x.astype(dtype)


def _copy(x: Any) -> Any:
    return x.copy()


def _extreme_into(function: Any, x: Any, y: Any, out: Any) -> None:
    function(x, y, out=out)  # NumPy wants it by its name


def _copy_into(x: Any, out: Any) -> None:
    np.copyto(out, x, casting="same_kind")


def _writing(function: Any) -> Any:
    """The function with a place for its result as its last argument."""
    if function in (np.minimum, np.maximum):
        return partial(_extreme_into, function)
    if isinstance(function, np.ufunc):
        return function
    return {_mask: _mask_into, _select: _select_into}.get(function, _copy_into)
