"""Elementwise functions of the array API: the operators of the same names."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nnc_func.errors import DTypeError

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def unary(name: str) -> Callable[[ArrayNamespace, Any], Any]:
    """The operator of that name as a method of one tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.exp([0.0]).numpy()
    array([1.])
    """

    def function(xp: ArrayNamespace, x: Any, /) -> Any:
        return getattr(xp.ops, name)(x)

    return _named(function, name)


def binary(name: str) -> Callable[[ArrayNamespace, Any, Any], Any]:
    """The operator of that name as a method of two tensors, or of a tensor and a Python number.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.add([1.0], 2).numpy()
    array([3.])
    """

    def function(xp: ArrayNamespace, x1: Any, x2: Any, /) -> Any:
        return getattr(xp.ops, name)(x1, x2)

    return _named(function, name)


def _named(function: Callable[..., Any], name: str) -> Any:
    function.__name__, function.__qualname__ = name, f"ArrayNamespace.{name}"
    function.__doc__ = f"Elementwise `{name}`; see the operator of that name in docs/operators.md."
    return function


def positive(xp: ArrayNamespace, x: Any, /) -> Any:
    """Each element as it is.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.positive([-1.0]).numpy()
    array([-1.])
    """
    found = xp.asarray(x, copy=True)
    if found.dtype.kind == "b":
        raise DTypeError("positive wants numbers, given booleans")
    return found


def pow(xp: ArrayNamespace, x1: Any, x2: Any, /) -> Any:
    """``x1`` to the power ``x2``.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.pow([2.0], 3).numpy()
    array([8.])
    """
    return xp.ops.power(x1, x2)


def clip(xp: ArrayNamespace, x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Elements brought between two bounds, which are numbers, tensors, or left out; the dtype of ``x`` stays.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.clip([1.0, 5.0], max=3).numpy()
    array([1., 3.])
    """
    found = xp.asarray(x)
    for bound, choose in ((min, xp.ops.maximum), (max, xp.ops.minimum)):
        if bound is not None:
            kind = found.dtype
            found = choose(found, bound)
            if found.dtype != kind:
                raise DTypeError(f"clip of {kind} wants bounds of that dtype, given {bound!r}; cast them first")
    return +found if found is x else found
