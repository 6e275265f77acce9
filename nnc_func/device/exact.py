"""Exact: a device that rounds nothing. Its floating numbers are rationals, or integers modulo a prime.

An identity of sums, products and quotients either holds there or does not: there is no tolerance. Modulo a prime one
random point is enough: a false identity of degree d holds at it with probability d / p (Schwartz 1980, Zippel 1979).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from attrs import field

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.exact_arithmetic.arrays import ExactArray, ExactNamespace
from nnc_func.device.exact_arithmetic.numbers import FLOAT64, InexactError, Residue, fraction_of, residue_of
from nnc_func.device.shared.base import ArrayDevice
from nnc_func.device.shared.namespace import check_dtypes
from nnc_func.errors import DeviceError
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.machine import Machine
from nnc_func.layer import layer
from nnc_func.op import Op

PYTHON = Machine(arithmetic=1e6, contractions=1e6)  # that adds rationals one by one


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
    def machine(self) -> Machine:
        """A core on which Python computes with rationals."""
        return PYTHON

    @property
    def xp(self) -> Any:
        """The array namespace."""
        found = self._found.get("xp")
        if found is None:
            kind = "integers modulo a prime" if self.modular else "rationals"
            found = self._found["xp"] = ExactNamespace(kind, self.number, self.opaque)
        return found

    def number(self, value: Any, dtype: Any = None) -> Any:
        """A number as an exact one; `dtype` is the one that a floating number was given in, float64 if not told.

        Raises
        ------
        DeviceError
            It is NaN or infinite.
        """
        if type(value) is (Residue if self.modular else Fraction):
            return value
        if isinstance(value, float):
            if not np.isfinite(value):
                raise InexactError(f"{value} is no exact number: an exact device has neither infinity nor NaN")
            value = fraction_of(value, dtype or FLOAT64)
        exact = Fraction(value)
        return Residue(residue_of(exact), self.opaque) if self.modular else exact

    def resolve(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Callable[..., Any]:
        """A kernel that any array namespace can run, as a function of exact arrays.

        Raises
        ------
        DeviceError
            No such kernel; or, where it is called, what it computes is not rational, or other numbers than its own.
        RunError
            A division by zero, or an order of residues was asked for.
        """
        call, dtypes = super().resolve(op, avals, items), check_dtypes(op, avals, items)

        def run(*arrays: Any) -> Any:
            for a in arrays:
                if isinstance(a, ExactArray) and a.xp is not self.xp and not self.owns(a):
                    raise self._foreign(op, a)
            try:
                found = call(*arrays)
                if op.multi_result:
                    return tuple(self.xp.array(self.place(f).elements, d) for f, d in zip(found, dtypes, strict=True))
                return self.xp.array(self.place(found).elements, dtypes)
            except InexactError as error:
                raise self._explained(op, arrays, items, error) from error

        return run

    def _explained(self, op: Op, arrays: tuple[Any, ...], items: Items, error: InexactError) -> DeviceError:
        """What has no exact answer, with the operator and the shapes."""
        said = ", ".join([*(repr(self.aval(a)) for a in arrays), *(f"{k}={v!r}" for k, v in items)])
        return DeviceError(f"{op.name}({said}): {error}")

    def _foreign(self, op: Op, array: ExactArray) -> DeviceError:
        return DeviceError(
            f"{op.name} on {self!r} was given an array of {array.xp.kind}, which is none of its own; make it of the "
            "same numbers: stack.asarray(host array)"
        )

    def fold_constant(self, op: Op, *operands: Any, **params: Hashable) -> Any:
        """A constant computed while a graph is optimised: no floating one, for a graph's constants are rounded.

        Raises
        ------
        DeviceError
            It is floating: that is left to the run.
        """
        found = self.bind(op, *operands, **params)
        if kind_of(found.dtype) == "f":
            raise DeviceError(f"{op.name}: a graph's constants are of the host, where {found!r} would be rounded")
        return found.elements

    def owns(self, array: Any) -> bool:
        """Whether it is an exact array of the same numbers."""
        return isinstance(array, ExactArray) and (array.xp.kind, array.xp.opaque) == (self.xp.kind, self.opaque)

    def place(self, array: Any) -> Any:
        """A host array as an exact one."""
        return array if isinstance(array, ExactArray) else self.xp.array(np.array(array))

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
