"""Bind kernels: where a layer changes `bind` of a device, programs are planned with that as the kernel of each node."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, ClassVar

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.shared.namespace import copying
from nnc_func.facets.kernels import CALL, Kernel
from nnc_func.layer import PassThrough, chain, defines, layer
from nnc_func.op import Op


def kernel_device(device: Any) -> Any:
    """The device as the engine and the optimiser are to use it: itself, or where a layer changes `bind`, that `bind`.

    A layer that says how results are written, too (`writing`), is taken at its word.

    Examples
    --------
    >>> from nnc_func.device import NumPy
    >>> kernel_device(NumPy())
    NumPy()
    """
    layers = [*chain(device)]
    if any(map(_only_computes, layers)):
        return BindKernels(device)
    changed = any(isinstance(each, PassThrough) and defines(each, "bind") is not None for each in layers)
    return BindFolds(device) if changed else device


def _only_computes(device: Any) -> bool:
    """Whether its class, or one before it in the order of inheritance, has a `bind` but not the `writing` to it."""
    writing, order = defines(device, "writing"), type(device).__mro__
    for name in ("bind", "resolve"):
        own = defines(device, name)
        if isinstance(device, PassThrough):
            if own is not None and writing is None and getattr(device, "has_memory", False):
                return True
        elif own is not None and writing is not None and order.index(own) < order.index(writing):
            return True
    return False


def binds_kernels(device: Any) -> bool:
    """Whether what `Kernel.bound` makes may be called in place of a device's `writing`, which does nothing beyond.

    A device says so (`binds_kernels`), and speaks for its own `writing`: another one, of a layer above it or of a class
    derived from its own, is asked for each kernel.

    Examples
    --------
    >>> from nnc_func.device import NumPy, Null
    >>> binds_kernels(NumPy()), binds_kernels(Null())
    (True, False)
    """
    for each in chain(device):
        own, said = defines(each, "writing"), defines(each, "binds_kernels")
        if own is not None or said is not None:
            order = type(each).__mro__
            is_said = said is not None and (own is None or order.index(said) <= order.index(own))
            return is_said and bool(each.binds_kernels)
    return False


@layer(on="device")
class BindFolds(PassThrough):
    """The device with constants that are folded by its `bind`, which a layer changes."""

    device: Any

    asks_bind: ClassVar[bool] = True  # what is fused would hide operators from the layer

    def fold_constant(self, op: Op, *operands: Any, **params: Hashable) -> Any:
        """A constant computed while a graph is optimised, on the host."""
        return self.device.to_numpy(self.device.bind(op, *operands, **params))


@layer(on="device")
class BindKernels(BindFolds):
    """The device with kernels that call its `bind`, and copy what it gives into the memory that is planned for it.

    Nothing is a view, nor computed in place or in parts of something else.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.device import NumPy
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> add, device = CATALOGUE["add"], BindKernels(NumPy())
    >>> kernel, out = device.choose(add, (), ()), np.empty(2)
    >>> device.writing(add, kernel, (), 1, ())(np.ones(2), np.ones(2), out)
    >>> out
    array([2., 2.])
    """

    def choose(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Kernel:
        """The call, where the device below has a kernel for these arguments.

        Raises
        ------
        DeviceError
            It has none.
        """
        self.device.choose(op, avals, items)
        return CALL

    def candidates(self, op: Op, avals: tuple[Aval, ...], items: Items) -> tuple[Kernel, ...]:
        """The one kernel."""
        return (self.choose(op, avals, items),)

    def writing(self, op: Op, kernel: Kernel, items: Items, outs: int, scratch: tuple[Any, ...]) -> Callable[..., Any]:
        """The call as a function ``f(*arrays, *outs)``."""
        if not kernel.is_call:  # a copy that the plan makes
            return self.device.writing(op, kernel, items, outs, scratch)  # type: ignore[no-any-return]
        return partial(copying, partial(self.device.bind, op, **dict(items)), outs)
