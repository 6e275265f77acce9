"""Exact: a device that rounds nothing. Its floating numbers are rationals, or integers modulo a prime.

An identity of sums, products and quotients either holds there or does not: there is no tolerance. Modulo a prime one
random point is enough: a false identity of degree d holds at it with probability d / p (Schwartz 1980, Zippel 1979).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from functools import lru_cache, partial, reduce
from operator import attrgetter
from random import Random
from typing import Any, ClassVar

import numpy as np
from attrs import field

from nnc_func.aval import Aval
from nnc_func.device.arrays import ArrayDevice
from nnc_func.device.namespace import check_dtypes
from nnc_func.errors import DeviceError
from nnc_func.facets.dtypes import kind_of
from nnc_func.layer import layer
from nnc_func.op import Op

PRIME = (1 << 61) - 1  # of Mersenne: so large that no false identity is met by chance
NEAR = Fraction(1, 10**7)  # of a number: how far from it a simpler fraction may be, which stands for it then
DENOMINATORS = tuple(10**k for k in range(7))
POWERS = 1 << 16  # exponents, at most
ALWAYS = {"isnan": False, "isinf": False, "isfinite": True}  # what is exact is neither
OPAQUE = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh",
)  # fmt: skip


@lru_cache(4096)
def fraction_of(number: float) -> Fraction:
    """The number; or the simplest fraction that rounds to it, since 0.1 stands for a tenth.

    Examples
    --------
    >>> fraction_of(0.1), fraction_of(float(np.float32(1 / 3)))
    (Fraction(1, 10), Fraction(1, 3))
    """
    exact = Fraction(number)
    for denominator in DENOMINATORS:
        found = exact.limit_denominator(denominator)
        if abs(found - exact) <= NEAR * abs(exact):
            return found
    return exact


class Residue:
    """An integer modulo a prime; it has no order, and functions that are not rational are not known of it."""

    __slots__ = ("opaque", "value")

    def __init__(self, value: int, opaque: bool) -> None:
        self.value = value % PRIME
        self.opaque = opaque

    def _of(self, other: Any) -> int:
        if isinstance(other, Residue):
            return other.value
        if isinstance(other, (int, np.integer)):
            return int(other)
        exact = other if isinstance(other, Fraction) else fraction_of(float(other))
        return exact.numerator * pow(exact.denominator, -1, PRIME)

    def _made(self, value: int) -> Residue:
        return Residue(value, self.opaque)

    def __add__(self, other: Any) -> Residue:
        return self._made(self.value + self._of(other))

    def __sub__(self, other: Any) -> Residue:
        return self._made(self.value - self._of(other))

    def __rsub__(self, other: Any) -> Residue:
        return self._made(self._of(other) - self.value)

    def __mul__(self, other: Any) -> Residue:
        return self._made(self.value * self._of(other))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Residue:
        return self._made(self.value * pow(self._of(other), -1, PRIME))

    def __rtruediv__(self, other: Any) -> Residue:
        return self._made(self._of(other) * pow(self.value, -1, PRIME))

    def __pow__(self, other: Any) -> Residue:
        exponent = self._of(other)
        exponent -= PRIME * (exponent > PRIME // 2)
        if abs(exponent) > POWERS:
            raise TypeError("only whole numbers are exponents here")
        return self._made(pow(self.value, exponent, PRIME))

    def __neg__(self) -> Residue:
        return self._made(-self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == self._of(other) % PRIME)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Any) -> bool:
        if not self.opaque:
            raise TypeError("residues have no order")
        return bool(self.value < self._of(other) % PRIME)

    def __gt__(self, other: Any) -> bool:
        return not (self < other or self == other)

    def __le__(self, other: Any) -> bool:
        return bool(self < other or self == other)

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __repr__(self) -> str:
        return f"{self.value} mod p"

    def __getattr__(self, name: str) -> Any:
        """NumPy asks an object for a function by its name: an unknown one, equal at equal arguments."""
        if name not in OPAQUE or not self.opaque:
            raise AttributeError(f"{name} of an exact number is not known")
        return lambda: self._made(Random(f"{name} {self.value}").randrange(PRIME))


# --- arrays --------------------------------------------------------------------------------------------


class ExactArray:
    """An array whose floating elements are exact; `dtype` is the one that they stand for.

    Attributes
    ----------
    elements
        A NumPy array: of objects where the dtype is floating, else as it is.
    dtype
        What it stands for.
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


class ExactNamespace:
    """NumPy's functions on exact arrays: whatever comes out floating is exact."""

    __name__ = "exact"

    def __init__(self, number: Callable[[Any], Any]) -> None:
        self.number = number

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return np.dtype(found) if isinstance(found, type) else partial(self._called, name, found)

    def _called(self, name: str, function: Any, *args: Any, dtype: Any = None, **named: Any) -> Any:
        floating = [a.dtype for a in _arrays((args, named)) if kind_of(a.dtype) == "f"]
        if name in ALWAYS and floating:
            return ExactArray(np.full(args[0].shape, ALWAYS[name]), bool, self)
        if not floating and getattr(function, "__name__", name) in OPAQUE:  # integers and booleans too are exact there
            args = tuple(self.array(a.elements.astype("float64")) if isinstance(a, ExactArray) else a for a in args)
        wanted = np.dtype(dtype) if dtype is not None else reduce(np.promote_types, floating) if floating else None
        if dtype is not None and kind_of(np.dtype(dtype)) != "f":
            named["dtype"] = dtype
        found = function(*_unwrapped(args), **_unwrapped(named))
        return (
            tuple(self.array(f, wanted) for f in found)
            if isinstance(found, (tuple, list))
            else self._made(found, wanted)
        )

    def _made(self, found: Any, wanted: Any) -> Any:
        if type(found) is float and wanted is not None:  # of one element NumPy gives what Python computed
            found = np.array(found, object)
        return self.array(found, wanted) if isinstance(found, (np.ndarray, np.generic, Residue, Fraction)) else found

    def astype(self, x: ExactArray, dtype: Any, copy: bool = True) -> ExactArray:
        """In another dtype; what has been floating is not cut off."""
        dtype = np.dtype(dtype)
        if kind_of(x.dtype) == "f" and kind_of(dtype) not in "f":
            raise DeviceError(f"an exact device does not cut off {x.dtype.name} to {dtype.name}")
        if kind_of(dtype) != "f":
            return self.array(x.elements.astype(dtype), dtype)
        return self.array(x.elements.astype("int64") if kind_of(x.dtype) == "b" else x.elements, dtype)

    def asarray(self, x: Any, dtype: Any = None, copy: Any = None) -> ExactArray:
        """An array of numbers of the host, or itself."""
        if isinstance(x, ExactArray):
            return x if dtype is None else self.astype(x, dtype)
        return self.array(np.asarray(x), dtype)

    def array(self, found: Any, dtype: Any = None) -> ExactArray:
        """Elements as they stand for that dtype: exact where it is floating."""
        host = np.asarray(found)
        if kind_of(host.dtype) == "c" or (dtype is not None and kind_of(np.dtype(dtype)) == "c"):
            raise DeviceError("an exact device has no complex numbers")
        wanted = dtype if host.dtype == object else host.dtype if dtype is None or kind_of(host.dtype) in "b" else dtype
        wanted = np.dtype(wanted or "float64")
        if kind_of(wanted) != "f":
            return ExactArray(host, wanted, self)
        numbers = host.ravel().tolist()
        if host.dtype == object and any(type(n) is float for n in numbers):
            raise DeviceError("what was computed is not rational: a root, or a power with a broken exponent")
        elements = np.fromiter(map(self.number, numbers), object, len(numbers))
        return ExactArray(elements.reshape(host.shape), wanted, self)


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


# --- the device ----------------------------------------------------------------------------------------


@layer()
class Exact(ArrayDevice):
    """Numbers without rounding. Integers and booleans are NumPy's; there are neither complex numbers nor NaN.

    Attributes
    ----------
    modular
        Floating numbers are integers modulo `PRIME`, of which large graphs are computed fast, but which have no order;
        otherwise they are rationals.
    opaque
        Of a residue, functions that are not rational (exp, sqrt) are unknown functions, equal at equal arguments, and
        the order is some order: what stands around them can be compared. Otherwise they are refused.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> ops = nnc.eager(Exact()).ops
    >>> ops.add(ops.divide(1.0, 3.0), ops.divide(2.0, 3.0)).value.elements.item()
    Fraction(1, 1)
    """

    modular: bool = False
    opaque: bool = False
    _found: dict[str, Any] = field(init=False, factory=dict, eq=False, repr=False)

    name: ClassVar[str] = "exact"
    array_type: ClassVar[Any] = ExactArray

    @property
    def xp(self) -> Any:
        """The array namespace."""
        found = self._found.get("xp")
        if found is None:
            found = self._found["xp"] = ExactNamespace(self.number)
        return found

    def number(self, value: Any) -> Any:
        """A number as an exact one.

        Raises
        ------
        DeviceError
            It is NaN or infinite.
        """
        if type(value) is (Residue if self.modular else Fraction):
            return value
        if isinstance(value, float):
            if not np.isfinite(value):
                raise DeviceError(f"{value} is no exact number")
            value = fraction_of(value)
        if not self.modular:
            return Fraction(value)
        exact = Fraction(value)
        return Residue(exact.numerator * pow(exact.denominator, -1, PRIME), self.opaque)

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """The operator computed at once, by a kernel that any array namespace can run.

        Raises
        ------
        DeviceError
            No such kernel, or what it computes is not rational.
        RunError
            A division by zero, or an order of residues was asked for.
        """
        found = super().bind(op, *args, **params)
        arrays = self.arrays(op, args)
        dtypes = check_dtypes(op, tuple(map(self.aval, arrays)), op.canonical(params))
        if op.several:
            return tuple(self.xp.array(f.elements, d) for f, d in zip(found, dtypes, strict=True))
        return self.xp.array(found.elements, dtypes)

    def owns(self, array: Any) -> bool:
        """Whether it is an exact array."""
        return isinstance(array, ExactArray)

    def place(self, array: Any) -> Any:
        """A host array as an exact one."""
        return array if isinstance(array, ExactArray) else self.xp.array(np.asarray(array))

    def _cast(self, array: Any, dtype: Any) -> Any:
        return self.xp.astype(array, dtype)

    def to_numpy(self, array: Any) -> Any:
        """Rationals as the nearest floating numbers.

        Raises
        ------
        DeviceError
            Residues are near to none.
        """
        if self.modular and array.elements.dtype == object:
            raise DeviceError("integers modulo a prime are near to no floating number; look at the array's elements")
        return array.elements.astype(array.dtype)

    def aval(self, array: Any) -> Aval:
        """Shape, and the dtype that it stands for."""
        return Aval(array.shape, array.dtype)
