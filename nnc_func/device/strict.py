"""Strict: a device that has what the array API standard has and no more, through array-api-strict.

What runs on it runs on every namespace that keeps to the standard. It pretends to be several devices, so that a
missing transfer is found on a machine that has only one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from attrs import field

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.shared.base import ArrayDevice
from nnc_func.device.shared.host import foreign
from nnc_func.device.shared.namespace import namespace
from nnc_func.errors import DeviceError
from nnc_func.layer import layer
from nnc_func.op import Op

INSTALL = "install array-api-strict, or all that the tests need: pip install 'nnc_func[test]'"
HERE = "CPU_DEVICE"
CREATION = frozenset({"arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros"})


class Placed:
    """The namespace with one of its pretended devices as the default: kernels create arrays beside their arguments."""

    def __init__(self, xp: Any, device: Any) -> None:
        self._xp = xp
        self._device = device
        self.__name__ = xp.__name__

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        return partial(found, device=self._device) if name in CREATION else found


@layer()
class Strict(ArrayDevice):
    """The array API standard, to the letter; on the host, in the memory of a device that it pretends to be.

    It has no `Memory`: programs keep values until their last use. NumPy arrays and Python numbers are nobody's
    arrays but data of the host, and are brought over where an operator is given one, as on every device; an array of
    another device (of another pretended one, too) is refused.

    Attributes
    ----------
    device
        Which device it pretends to be: ``"CPU_DEVICE"``, ``"device1"``, ``"device2"``.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager(nnc.Strict())
    >>> stack.ops.add([1.0, 2.0], 1).numpy()
    array([2., 3.])
    """

    device: str = HERE
    _found: dict[str, Any] = field(init=False, factory=dict, eq=False, repr=False)

    name: ClassVar[str] = "array_api_strict"

    def __repr__(self) -> str:
        return "Strict()" if self.device == HERE else f"Strict({self.device!r})"

    @property
    def xp(self) -> Any:
        """The array namespace, which creates arrays on the pretended device.

        Raises
        ------
        DeviceError
            array-api-strict is not installed, or pretends no such device.
        """
        return self._found.get("xp") or self._import()

    def _import(self) -> Any:
        xp = namespace("array_api_strict", INSTALL)
        try:
            place = xp.Device(self.device)
        except ValueError:
            known = ", ".join(sorted(str(d._device) for d in xp.__array_namespace_info__().devices()))
            raise DeviceError(f"array-api-strict pretends no device {self.device!r}; it has: {known}") from None
        self._found["array"] = type(xp.zeros((), device=place))
        self._found["place"] = place
        self._found["xp"] = found = Placed(xp, place)
        return found

    @property
    def array_type(self) -> Any:
        """The class of array-api-strict's arrays, whichever device they pretend to be on."""
        return self._found.get("array") or (self.xp, self._found["array"])[1]

    def owns(self, array: Any) -> bool:
        """Whether it is an array on the pretended device."""
        return isinstance(array, self.array_type) and array.device == self._found["place"]

    def resolve(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Callable[..., Any]:
        """The kernel that keeps to the standard, as a function of arrays of the pretended device and of no other.

        Raises
        ------
        DeviceError
            There is none; or, where it is called, an array of another device, a pretended one too.
        """
        call, own, here = super().resolve(op, avals, items), self.array_type, self._found["place"]

        def run(*arrays: Any) -> Any:
            for a in arrays:
                if isinstance(a, own) and a.device != here:
                    raise foreign(self, a, op.name)
            return call(*arrays)

        return run

    def _scalar(self, value: Any, dtypes: Any) -> Any:
        return super()._scalar(value, tuple(map(_numpy_dtype, dtypes)))

    def place(self, array: Any) -> Any:
        """A host array as one of this device: a copy.

        Raises
        ------
        DeviceError
            The standard has no such dtype.
        """
        xp = self.xp
        try:
            return xp.asarray(array, copy=True)
        except TypeError as error:
            raise DeviceError(f"{self!r}: {error}; cast it to one of the standard's dtypes first") from None

    def _cast(self, array: Any, dtype: Any) -> Any:
        return self.xp.astype(array, getattr(self.xp, dtype.name))

    def to_numpy(self, array: Any) -> Any:
        """The array on the host."""
        return np.asarray(array.to_device(self.xp.Device(HERE)))

    def aval(self, array: Any) -> Aval:
        """Shape and NumPy dtype of an array."""
        return Aval(array.shape, _numpy_dtype(array.dtype))


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    return dtype if isinstance(dtype, np.dtype) else np.dtype(str(dtype).rpartition(".")[2])
