"""A device that computes through an array namespace derives from these classes: they bind operators, and plan.

The contract that any device fulfils, of these classes or not, is `DeviceSignature` in `nnc_func/layer_protocols.py`;
with memory that an engine plans in it is `PlannedDeviceSignature` there. A device to start from is `cpu.py`, one with
memory of its own `gpu.py`; `tests/device/test_devices.py` holds each against the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Literal

import numpy as np
from attrs import Factory, field

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.shared.dispatch import Dispatch, Infer
from nnc_func.device.shared.host import HOST, foreign, native, numbers
from nnc_func.device.shared.kernel_choice import fresh
from nnc_func.device.shared.namespace import (
    MOST_NUMBERS,
    SCALARS,
    candidates,
    check_dtypes,
    check_shapes,
    choose,
    writing,
)
from nnc_func.errors import DeviceError
from nnc_func.facets.dtypes import converted, scalar, weak
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.machine import CORE, Machine
from nnc_func.layer import Layer, chain, layer
from nnc_func.layer_protocols import ViewsSignature
from nnc_func.op import Op


def checked(op: Op, avals: tuple[Aval, ...], items: Items) -> None:
    """Refuse what the operator's own rules refuse: a bare device is as strict as a stack."""
    check_dtypes(op, avals, items)
    check_shapes(op, avals, items)


@layer()
class ArrayDevice(Layer):
    """Operators computed at once by kernels over an array namespace.

    A subclass says which namespace (`xp`, `name`), which class its arrays are (`array_type`), how data of the host
    becomes one (`place`), and how an array comes back (`to_numpy`).
    """

    _dispatch: Dispatch = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: Dispatch(self, checked), takes_self=True)
    )
    _scalars: dict[Any, Any] = field(init=False, factory=dict, eq=False, repr=False)

    role: ClassVar[Literal["device"]] = "device"
    has_memory: ClassVar[bool] = False
    name: ClassVar[str]  # of the namespace, as kernels name it

    @property
    def xp(self) -> Any:
        """The array namespace."""
        raise DeviceError(f"{type(self).__name__} names no array namespace")

    @property
    def array_type(self) -> Any:
        """The class of this device's arrays."""
        raise DeviceError(f"{type(self).__name__} names no class of arrays")

    @property
    def machine(self) -> Machine:
        """What kernels run on: a core of the host."""
        return CORE

    @property
    def libraries(self) -> frozenset[str]:
        """Libraries of kernels that it has beside the array namespace."""
        return frozenset()

    @property
    def library_setting(self) -> str:
        """What plans with kernels of a library depend on besides: its version, instruction sets, threads."""
        return ""

    def note_version(self, array: Any, owner: Hashable, version: Hashable) -> None:
        """Hear of which version of its owner's the elements of an array are that kernels put into order once."""

    @property
    def ours(self) -> tuple[Any, ...]:
        """The classes whose dtypes count where a scalar takes one beside them."""
        return (self.array_type, *HOST)

    def place(self, array: Any) -> Any:
        """A host array as an array of this device."""
        return self.xp.asarray(array)

    def to_numpy(self, array: Any) -> Any:
        """The array on the host."""
        return np.asarray(array)

    def owns(self, array: Any) -> bool:
        """Whether it is an array of this device."""
        return isinstance(array, self.array_type)

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """The operator computed at once, on arrays of this device, data of the host, and Python scalars.

        Raises
        ------
        DeviceError
            An array of another device, or no kernel for these arguments.
        RunError
            The kernel failed.
        """
        return self._dispatch(op, args, params)

    def resolve(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Callable[..., Any]:
        """The kernel for arguments of these avals as a function of arrays of this device that returns new ones."""
        return fresh(self.xp, self.choose(op, avals, items), items)

    def arrays(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments as arrays of this device: scalars are weak, data of the host is brought over."""
        own = self.array_type
        if len(args) == 2:  # a tensor and a number, in one order or the other: the hot path
            a, b = args
            if type(a) is own and type(b) in SCALARS:
                return a, self._scalar(b, (a.dtype,))
            if type(b) is own and type(a) in SCALARS:
                return self._scalar(a, (b.dtype,)), b
        ours = self.ours
        dtypes = tuple([a.dtype for a in args if isinstance(a, ours)])
        return tuple(
            [a if type(a) is own else self._scalar(a, dtypes) if type(a) in SCALARS else self._own(op, a) for a in args]
        )

    def _scalar(self, value: Any, dtypes: Any) -> Any:
        parts = (value.real, value.imag) if type(value) is complex else (value,)
        key = (type(value), value, dtypes) if all(parts) else None  # 0.0 and -0.0 are equal keys
        found = self._scalars.get(key) if key else None
        if found is None:
            host = np.asarray(scalar(value, weak(value, dtypes)))
            host.flags.writeable = False
            found = self.place(host)
            if key is not None and value == value:  # NaN never meets itself again
                if len(self._scalars) >= MOST_NUMBERS:
                    self._scalars.clear()
                self._scalars[key] = found
        return found

    def _own(self, op: Op, array: Any) -> Any:
        if isinstance(array, HOST):  # of a subclass of NumPy's arrays, masked ones say, the elements alone
            return self.place(np.asarray(array))
        if self.owns(array):
            return array
        raise foreign(self, array, op.name)

    def fold_constant(self, op: Op, *operands: Any, **params: Hashable) -> Any:
        """A constant computed while a graph is optimised, on the host: so the graph knows its elements."""
        return self.to_numpy(self.bind(op, *operands, **params))

    def choose(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Kernel:
        """The kernel for arguments of these avals."""
        return choose(op, avals, dict(items), self.name, self.libraries)

    def candidates(self, op: Op, avals: tuple[Aval, ...], items: Items) -> tuple[Kernel, ...]:
        """All kernels for arguments of these avals, the chosen one first."""
        return candidates(op, avals, dict(items), self.name, self.libraries)

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """An array of this device with that value: itself where it is one already, else a copy.

        Raises
        ------
        DeviceError
            The value is not numbers, or lives on another device.
        DTypeError
            It is complex, and the dtype is not.
        """
        if self.owns(value):
            if dtype is None or (given := self.aval(value).dtype) == dtype:
                return native(value) if isinstance(value, np.ndarray) else value
            return self._cast(value, converted(given, dtype=dtype))
        return self.place(numbers(self, value, dtype))

    def _cast(self, array: Any, dtype: Any) -> Any:
        return array.astype(dtype)

    def aval(self, array: Any) -> Aval:
        """Shape and dtype of an array.

        Raises
        ------
        DeviceError
            It is none.
        """
        try:
            return Aval(array.shape, array.dtype)
        except AttributeError:
            raise foreign(self, array, "an operator") from None

    def synchronise(self) -> None:
        """Wait for what was started; the host has nothing to wait for."""


@layer()
class PlannedDevice(ArrayDevice):
    """An array device with memory to plan in: a subclass has `arena` and `view`, which address bytes."""

    has_memory: ClassVar[bool] = True
    binds_kernels: ClassVar[bool] = False  # see `bind_kernels.binds_kernels`
    views: ClassVar[ViewsSignature | None] = None  # where they lie is not known

    def writing(self, op: Op, kernel: Kernel, items: Items, outs: int, scratch: tuple[Any, ...]) -> Callable[..., Any]:
        """The kernel as a function ``f(*arrays, *outs)``."""
        return writing(self.xp, kernel, items, outs, scratch)

    def row(self, array: Any, number: int) -> Any:
        """The part of an array at a place along its first axis: a view of it."""
        return array[number, ...]

    def decision(self, array: Any) -> int:
        """The one element of an array, by which a run goes on: which branch, how many times, whether once more."""
        return int(array)

    def viewing(self, op: Op, items: Items) -> Callable[..., Any]:
        """A view operator as a function of its operand."""
        return fresh(self.xp, op.kernels[0], items)


def array_dispatch(device: Any, infer: Infer, by_extents: bool = False, **others: Any) -> Dispatch | None:
    """The device's dispatch, with another `infer`; None where a layer of a user's own has a `bind` of its own.

    Examples
    --------
    >>> from nnc_func.device import NumPy, Null
    >>> array_dispatch(NumPy(), checked) is None, array_dispatch(Null(), checked) is None
    (False, True)
    """
    for each in chain(device):
        bind = getattr(type(each), "bind", None)
        if bind is not None:
            return Dispatch(device, infer, by_extents, **others) if bind is ArrayDevice.bind else None
    return None
