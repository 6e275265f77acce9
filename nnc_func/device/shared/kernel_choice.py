"""Which of an operator's kernels runs on an array namespace, and that kernel as a function of arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.errors import DeviceError
from nnc_func.facets.kernels import Kernel, takes_layouts
from nnc_func.op import Op


def first_that_runs(op: Op, avals: tuple[Aval, ...], params: dict[str, Any], on: str) -> Kernel:
    """The first kernel of the operator's own that runs on that namespace and takes these arguments: a pure function.

    Raises
    ------
    DeviceError
        There is none.
    """
    for kernel in op.kernels:
        if runs(kernel, op, avals, params, on):
            return kernel
    given = ", ".join(map(repr, avals))
    raise DeviceError(f"{op.name} has no kernel on {on} for ({given}); its kernels are {[k.name for k in op.kernels]}")


def runs(kernel: Kernel, op: Op, avals: tuple[Aval, ...], params: dict[str, Any], on: str) -> bool:
    """Whether a kernel of the operator runs on that namespace and takes these arguments."""
    return (
        (kernel.namespaces is None or on in kernel.namespaces)
        and takes_layouts(kernel, op, avals, params)
        and kernel.accepts(avals, **params)
    )


def fresh(xp: Any, kernel: Kernel, items: Items) -> Callable[..., Any]:
    """The kernel as a function of arrays that returns new ones."""
    if kernel.ufunc is not None:
        return getattr(xp, kernel.ufunc)  # type: ignore[no-any-return]
    assert kernel.compute is not None, kernel
    return partial(kernel.compute, xp, **dict(items))
