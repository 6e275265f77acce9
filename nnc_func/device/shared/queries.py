"""What devices say of themselves, those that do: their machine, and which kernel they run. A device need not."""

from __future__ import annotations

from typing import Any

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.errors import DeviceError
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.machine import CORE, Machine
from nnc_func.op import Op


def machine_of(device: Any) -> Machine:
    """The machine that a device describes; a core of an ordinary processor for one that describes none.

    Examples
    --------
    >>> from nnc_func.device import NumPy
    >>> machine_of(NumPy(machine=Machine(launch=1e-5))).launch
    1e-05
    """
    found: Machine = getattr(device, "machine", CORE)
    return found


def has_libraries(device: Any) -> bool:
    """Whether a device has libraries of kernels beside its array namespace.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> has_libraries(nnc.NumPy())
    False
    """
    return bool(getattr(device, "libraries", ()))


def kernel_of(device: Any, op: Op, avals: tuple[Aval, ...], items: Items) -> Kernel | None:
    """The kernel that a device runs an operator by, for arguments of these avals; None where it says nothing of it.

    Raises
    ------
    DeviceError
        It has none.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> add = nnc.lazy().type.ops["add"]
    >>> kernel_of(nnc.NumPy(), add, (nnc.Aval((2,), "float32"),) * 2, ()).ufunc
    'add'
    """
    choose = getattr(device, "choose", None)
    return None if choose is None else choose(op, avals, items)


def writes_at_once(device: Any, op: Op, avals: tuple[Aval, ...], items: Items) -> bool:
    """Whether a device has a kernel of an operator that writes its results where they are planned.

    Any other computes a new array, by way of others perhaps, in memory that nobody plans; then it is copied.
    """
    try:
        found = kernel_of(device, op, avals, items)
    except DeviceError:
        return False
    return found is not None and (found.into is not None or found.ufunc is not None)
