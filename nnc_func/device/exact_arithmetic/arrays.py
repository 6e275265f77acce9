"""Arrays of exact numbers, and NumPy's functions on them: what kernels for any array namespace compute with."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np

from nnc_func.device.exact_arithmetic.numbers import FUNCTIONS, OPAQUE, InexactError, NoOrderError, Residue
from nnc_func.facets.dtypes import BFLOAT16, as_dtype, kind_of, promote

ALWAYS = {"isnan": False, "isinf": False, "isfinite": True}  # what is exact is neither


class ExactArray:
    """An array whose floating elements are exact; `dtype` is the one that they stand for.

    Attributes
    ----------
    elements
        A NumPy array: of objects where the dtype is floating, else as it is.
    dtype
        What it stands for.
    xp
        The namespace that made it.
    """

    __slots__ = ("dtype", "elements", "xp")
    __array_ufunc__ = None

    def __init__(self, elements: Any, dtype: Any, xp: Any) -> None:
        self.elements = elements
        self.dtype = np.dtype(dtype)
        self.xp = xp

    shape = property(attrgetter("elements.shape"))
    ndim = property(attrgetter("elements.ndim"))
    size = property(attrgetter("elements.size"))

    def __getitem__(self, key: Any) -> Any:
        key = tuple(map(_bare, key)) if isinstance(key, tuple) else _bare(key)
        return ExactArray(np.asarray(self.elements[key]), self.dtype, self.xp)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.elements[key] = _bare(value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """On the host: exact elements as objects, rounded only where somebody names a dtype."""
        return np.array(self.elements, dtype, copy=True if copy is None else copy)

    def __bool__(self) -> bool:
        return bool(self.elements)

    def __index__(self) -> int:
        if kind_of(self.dtype) not in "biu":
            raise TypeError(f"an index is a whole number, given {self!r}")
        return int(self.elements)

    def __repr__(self) -> str:
        return f"ExactArray({self.elements.tolist()}, {self.dtype.name})"


def _bare(value: Any) -> Any:
    return value.elements if isinstance(value, ExactArray) else value


def _method(name: str, turned: bool = False) -> Callable[..., Any]:
    def method(self: ExactArray, *others: Any) -> Any:
        args = (*others, self) if turned else (self, *others)
        return getattr(self.xp, name)(*args)

    return method


for _sign, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}.items():  # fmt: skip
    setattr(ExactArray, f"__{_sign}__", _method(_name))
    setattr(ExactArray, f"__r{_sign}__", _method(_name, turned=True))
for _sign, _name in {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
    "neg": "negative", "abs": "abs", "invert": "bitwise_invert",
}.items():  # fmt: skip
    setattr(ExactArray, f"__{_sign}__", _method(_name))


# --- the functions -------------------------------------------------------------------------------------


class ExactNamespace:
    """NumPy's functions on exact arrays: whatever comes out floating is exact.

    Attributes
    ----------
    kind
        What its floating numbers are, in words.
    number
        Makes one of a number and the dtype that it was given in.
    opaque
        Functions that are not rational are known, as unknown ones.
    """

    __name__ = "exact"

    def __init__(self, kind: str, number: Callable[[Any, Any], Any], opaque: bool, functions: Any = np) -> None:
        self.kind = kind
        self.number = number
        self.opaque = opaque
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        if name == BFLOAT16:
            return as_dtype(name)
        found = getattr(self._functions, name)
        if isinstance(found, ModuleType):
            return ExactNamespace(self.kind, self.number, self.opaque, found)
        return np.dtype(found) if isinstance(found, type) else partial(self._called, name, found)

    def _called(self, name: str, function: Any, *args: Any, dtype: Any = None, **named: Any) -> Any:
        floating = [a.dtype for a in _arrays((args, named)) if kind_of(a.dtype) == "f"]
        if name in ALWAYS and floating:
            return ExactArray(np.full(args[0].shape, ALWAYS[name]), bool, self)
        known = getattr(function, "__name__", name)
        if not floating and known in OPAQUE:  # integers and booleans too are exact there
            args = tuple(self.array(a.elements.astype("float64")) if isinstance(a, ExactArray) else a for a in args)
        wanted = np.dtype(dtype) if dtype is not None else promote(*floating) if floating else None
        if dtype is not None and kind_of(np.dtype(dtype)) != "f":
            named["dtype"] = dtype
        function = FUNCTIONS.get(name, function) if floating else function
        try:
            found = function(*_unwrapped(args), **_unwrapped(named))
        except ZeroDivisionError:
            raise ZeroDivisionError("division by zero; exact numbers have neither infinity nor NaN") from None
        except NoOrderError:
            raise
        except (TypeError, AttributeError) as error:
            if not floating and known not in OPAQUE:
                raise
            raise self._unknown(known) from error
        made = partial(self._made, wanted=wanted, told=dtype is not None)
        return tuple(map(made, found)) if isinstance(found, (tuple, list)) else made(found)

    def _unknown(self, name: str) -> InexactError:
        """The refusal of a function that has no exact answer."""
        if name in OPAQUE and not self.opaque:
            return InexactError(
                f"{name} is not rational; Exact(modular=True, opaque=True) takes it for an unknown function, "
                "equal at equal arguments"
            )
        return InexactError(f"{name} of {self.kind} is not known here; sums, products and quotients are")

    def _made(self, found: Any, wanted: Any, told: bool) -> Any:
        if type(found) is float and wanted is not None:  # of one element NumPy gives what Python computed
            found = np.array(found, object)
        if not isinstance(found, (np.ndarray, np.generic, Residue, Fraction)):
            return found
        found = np.asarray(found)
        return self.array(found, wanted if told or found.dtype == object else None)  # else indices, or a count

    def sort(self, x: ExactArray, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ExactArray:
        """As the standard has it."""
        found: ExactArray = self._called("sort", np.sort, x, axis=axis, stable=True)
        return _turned(found, axis) if descending else found

    def argsort(self, x: ExactArray, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ExactArray:
        """As the standard has it: equal elements stay in their order, descending too."""
        found: ExactArray = self._called(
            "argsort", np.argsort, _turned(x, axis) if descending else x, axis=axis, stable=True
        )
        return ExactArray(x.shape[axis] - 1 - _turned(found, axis).elements, found.dtype, self) if descending else found

    def astype(self, x: ExactArray, dtype: Any, copy: bool = True) -> ExactArray:
        """In another dtype; what has been floating is not cut off."""
        dtype = np.dtype(dtype)
        if kind_of(x.dtype) == "f" and kind_of(dtype) not in "f":
            raise InexactError(
                f"an exact device does not cut off {x.dtype.name} to {dtype.name}; compare, round or floor it, "
                "and keep it floating"
            )
        if kind_of(dtype) != "f":
            return self.array(x.elements.astype(dtype), dtype)
        return self.array(x.elements.astype("int64") if kind_of(x.dtype) == "b" else x.elements, dtype)

    def asarray(self, x: Any, dtype: Any = None, copy: Any = None) -> ExactArray:
        """An array of numbers of the host, or itself; where a copy is asked for, that."""
        if not isinstance(x, ExactArray):
            return self.array(np.array(x, copy=copy), dtype)
        found = x if dtype is None else self.astype(x, dtype)
        return ExactArray(found.elements.copy(), found.dtype, self) if copy else found

    def array(self, found: Any, dtype: Any = None) -> ExactArray:
        """Elements as they stand for that dtype: exact where it is floating."""
        host = np.asarray(found)
        if kind_of(host.dtype) == "c" or (dtype is not None and kind_of(np.dtype(dtype)) == "c"):
            raise InexactError("an exact device has no complex numbers")
        wanted = dtype if host.dtype == object else host.dtype if dtype is None or kind_of(host.dtype) in "b" else dtype
        wanted = np.dtype(wanted or "float64")
        if kind_of(wanted) != "f":
            return ExactArray(host, wanted, self)
        numbers = host.ravel().tolist()
        if host.dtype == object and any(type(n) is float for n in numbers):
            raise InexactError(
                "what was computed is not rational: the kernel has floating numbers of its own, an infinity or a "
                "rounded constant"
            )
        given = min(host.dtype, wanted, key=attrgetter("itemsize")) if kind_of(host.dtype) == "f" else None
        elements = np.fromiter((self.number(n, given) for n in numbers), object, len(numbers))
        return ExactArray(elements.reshape(host.shape), wanted, self)


def _turned(x: ExactArray, axis: int) -> ExactArray:
    return ExactArray(np.flip(x.elements, axis), x.dtype, x.xp)


def _unwrapped(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(map(_unwrapped, value))
    if isinstance(value, dict):
        return {k: _unwrapped(v) for k, v in value.items()}
    return _bare(value)


def _arrays(value: Any) -> list[ExactArray]:
    if isinstance(value, ExactArray):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [a for v in inside for a in _arrays(v)]
