"""Devices whose arrays are not NumPy's, as the kit looks at them: each result is brought to the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.errors import DeviceError, RuleError
from nnc_func.layer import PassThrough, layer, swap
from nnc_func.op import Op
from nnc_func.stack import Stack


@layer(on="device")
class Shown(PassThrough):
    """A device that computes as the one below, and gives NumPy arrays.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> eager = nnc.eager(nnc.Strict())
    >>> Shown(eager.device).bind(eager.type.ops["add"], np.float32([1]), 1)
    array([2.], dtype=float32)
    """

    device: Any

    def bind(self, op: Op, *args: Any, **params: Any) -> Any:
        """The results, on the host."""
        found = self.device.bind(op, *args, **params)
        return tuple(map(self.device.to_numpy, found)) if op.multi_result else self.device.to_numpy(found)

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """A NumPy array of what the device makes of a value."""
        return self.device.to_numpy(self.device.asarray(value, dtype))

    def aval(self, array: Any) -> Aval:
        """Of an array of the host."""
        return Aval(array.shape, array.dtype)

    def to_numpy(self, array: Any) -> Any:
        """Itself."""
        return np.asarray(array)


def with_elements(operator: Any) -> Any:
    """The layer on a device whose arrays the kit reads: its own, if NumPy reads those.

    Of a stack as a device the stack's own device computes: what a rule does is not to be told by what other rules, and
    looser numerics, make of it there.

    Raises
    ------
    RuleError
        The device has no elements, so that no values can be compared.
    """
    device = operator.device
    while isinstance(device, Stack):
        device = device.device
    try:
        found = device.asarray(np.zeros(1))
        read = isinstance(found.dtype, np.dtype) and np.asarray(found).shape == (1,)
    except DeviceError as error:
        raise RuleError(f"{device!r} computes nothing: give a stack on a device that does, such as NumPy()") from error
    except TypeError:  # CuPy's way to say that an array is not on the host
        read = False
    wanted = device if read else Shown(device)
    return operator if wanted is operator.device else swap(operator, device=wanted)
