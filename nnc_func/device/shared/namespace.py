"""Devices that compute through an array namespace choose kernels here, bind them, and explain where they fail."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.shared.kernel_choice import NONE, first_that_runs, fresh, those_that_run
from nnc_func.device.shared.narrow_emulation import in_float32, is_narrow
from nnc_func.errors import AllocationError, CheckError, DeviceError, DTypeError, NncError, RunError, ShapeError
from nnc_func.facets.kernels import GAPLESS, Kernel
from nnc_func.op import Op

SCALARS = (bool, int, float, complex)
LONG = 120  # characters of a parameter that a message shows
MEMO_LIMIT = 50_000  # resolved kernels remembered
MOST_NUMBERS = 1024  # of Python's remembered as arrays: a rate that changes with each step is met once


def namespace(name: str, install: str) -> Any:
    """The array namespace of that module name.

    Raises
    ------
    DeviceError
        It cannot be imported; says what to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DeviceError(f"this device needs the package {name!r} ({error}); {install}") from None


def choose(
    op: Op, avals: tuple[Aval, ...], params: dict[str, Any], on: str, libraries: Collection[str] = NONE
) -> Kernel:
    """The first kernel of the operator that runs on that namespace and takes these arguments: a pure function.

    Raises
    ------
    DeviceError
        There is none.
    """
    if is_narrow(op, avals, params, on):
        return next(_narrow(op, avals, params, on, libraries), in_float32(op))
    return first_that_runs(op, avals, params, on, libraries)


def candidates(
    op: Op, avals: tuple[Aval, ...], params: dict[str, Any], on: str, libraries: Collection[str] = NONE
) -> tuple[Kernel, ...]:
    """All kernels of the operator that run on that namespace and take these arguments, the default one first."""
    if is_narrow(op, avals, params, on):
        return (*_narrow(op, avals, params, on, libraries), in_float32(op))
    return tuple(those_that_run(op, avals, params, on, libraries))


def _narrow(
    op: Op, avals: tuple[Aval, ...], params: dict[str, Any], on: str, libraries: Collection[str]
) -> Iterator[Kernel]:
    """The kernels that take bfloat16 as it is."""
    if not any(kernel.narrow for kernel in op.kernels):
        return
    yield from (kernel for kernel in those_that_run(op, avals, params, on, libraries) if kernel.narrow)


def by_shape(op: Op) -> bool:
    """Whether the choice among the operator's kernels looks at shapes, not only at dtypes."""
    return any(k.by_shape for k in op.kernels)


def check_dtypes(op: Op, avals: tuple[Aval, ...], items: Items) -> Any:
    """The dtypes of the results; what the operator's dtype rule refuses is: a bare device is as strict as a stack.

    Raises
    ------
    DTypeError
        The operator does not take these dtypes.
    """
    try:
        return op.dtype(*(a.dtype for a in avals), **dict(items))
    except TypeError as error:
        raise DTypeError(f"{op.name}({', '.join(map(repr, avals))}): {error}") from None


def check_shapes(op: Op, avals: tuple[Aval, ...], items: Items) -> None:
    """Refuse what the operator's shape rule refuses, though a kernel may take it: the same words on every engine.

    Raises
    ------
    ShapeError
        The operator does not take these shapes.
    """
    try:
        op.shape(*(a.shape for a in avals), **dict(items))
    except NncError as error:
        said = "".join(f", {k}={v!r}" for k, v in items)
        raise type(error)(f"{op.name}({', '.join(map(repr, avals))}{said}): {error}") from None


def computed(xp: Any, on: str, op: Op, avals: tuple[Aval, ...], items: Items) -> Callable[..., Any]:
    """The operator as a function of arrays of these avals that returns new ones; its errors are ours.

    Raises
    ------
    OperatorError, DTypeError, DeviceError
        The operator does not take such arguments, or has no kernel for them.
    """
    op.check_arity(len(avals))
    check_dtypes(op, avals, items)
    check_shapes(op, avals, items)
    call = fresh(xp, choose(op, avals, dict(items), on), items)

    def run(*arrays: Any) -> Any:
        try:
            return call(*arrays)
        except NncError:
            raise
        except Exception as error:
            raise explained(op, avals, items, error) from error

    return run


def writing(xp: Any, kernel: Kernel, items: Items, outs: int, scratch: tuple[Any, ...]) -> Callable[..., Any]:
    """The kernel as a function ``f(*arrays, *outs)`` that writes into its last arguments."""
    if kernel.ufunc is not None:
        found: Callable[..., Any] = getattr(xp, kernel.ufunc)
        return partial(_gapless, found) if kernel.ufunc in GAPLESS else found
    params = dict(items)
    if kernel.into is not None:
        return partial(_into, kernel.into, xp, scratch, params, outs)
    assert kernel.compute is not None, kernel
    return partial(copying, partial(kernel.compute, xp, **params), outs)


def _gapless(call: Any, x: Any, out: Any) -> None:
    if out.flags.c_contiguous:
        call(x, out)
    else:
        out[...] = call(x)


def _into(into: Any, xp: Any, scratch: Any, params: Any, outs: int, *arrays: Any) -> None:
    into(xp, arrays[:-outs], arrays[-outs:], scratch, **params)


def copying(compute: Any, outs: int, *arrays: Any) -> None:
    """Call a function of arrays, all but the last `outs` of these, and copy its results into those.

    Raises
    ------
    ShapeError
        A result has another shape than the array that it is for.
    """
    results = compute(*arrays[:-outs])
    for out, result in zip(arrays[-outs:], results if isinstance(results, (tuple, list)) else (results,), strict=True):
        if getattr(result, "shape", None) != out.shape:
            raise ShapeError(f"the kernel gave {getattr(result, 'shape', result)}, its shape rule says {out.shape}")
        out[...] = result


def _short(said: str) -> str:
    """A text that is not longer than a message bears: bodies of loops are."""
    return said if len(said) <= LONG else f"{said[:LONG]}…"


def explained(op: Op, avals: tuple[Any, ...], items: Items, error: Exception, where: str = "") -> NncError:
    """A kernel's own error as one of ours, that names the operator, the shapes and the user's line."""
    if not isinstance(error, NncError):
        try:
            check_shapes(op, avals, items)
        except NncError as refusal:
            return refusal.with_traceback(None)  # whose frames hold it, and the operands of whoever asks
    said = ", ".join([*map(repr, avals), *(f"{k}={_short(repr(v))}" for k, v in items)])
    kind = (
        type(error) if isinstance(error, NncError) else AllocationError if isinstance(error, MemoryError) else RunError
    )
    at = f" (built at {where})" if where and where not in str(error) else ""
    failed = f"{op.name}({said}) failed{at}: {type(error).__name__}: {error}"
    found = kind(f"{error}{at}" if isinstance(error, CheckError) else failed)
    found.__cause__ = error
    return found
