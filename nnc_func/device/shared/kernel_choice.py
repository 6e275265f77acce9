"""Which of an operator's kernels runs on an array namespace, and that kernel as a function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.errors import DeviceError
from nnc_func.facets.kernels import Kernel, layouts_of, takes_layouts
from nnc_func.op import Op

NONE: frozenset[str] = frozenset()


def first_that_runs(
    op: Op, avals: tuple[Aval, ...], params: dict[str, Any], on: str, libraries: Collection[str] = NONE
) -> Kernel:
    """The first kernel of the operator's own that runs on that namespace and takes these arguments: a pure function.

    With those of `libraries` too.

    Raises
    ------
    DeviceError
        There is none.
    """
    found = next(those_that_run(op, avals, params, on, libraries), None)
    if found is not None:
        return found
    given = ", ".join(map(repr, avals))
    raise DeviceError(f"{op.name} has no kernel on {on} for ({given}); its kernels are {[k.name for k in op.kernels]}")


def those_that_run(
    op: Op, avals: tuple[Aval, ...], params: dict[str, Any], on: str, libraries: Collection[str] = NONE
) -> Iterator[Kernel]:
    """The kernels of the operator that run on that namespace and take these arguments, whatever they are, in its order.

    Without those that want some of them to stay the same.
    """
    found = None
    for kernel in op.kernels:
        if kernel.namespaces is not None and on not in kernel.namespaces:
            continue
        if kernel.lasting or (kernel.library is not None and kernel.library not in libraries):
            continue
        if kernel.layouts is not None and found is None:
            found = layouts_of(op, avals, params)
        if takes_layouts(kernel, op, avals, params, found) and kernel.accepts(avals, **params):
            yield kernel


def fresh(xp: Any, kernel: Kernel, items: Items) -> Callable[..., Any]:
    """The kernel as a function of arrays that returns new ones."""
    if kernel.ufunc is not None:
        return getattr(xp, kernel.ufunc)  # type: ignore[no-any-return]
    assert kernel.compute is not None, kernel
    return partial(kernel.compute, xp, **dict(items))
