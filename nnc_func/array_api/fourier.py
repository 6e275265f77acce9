"""The array API's extension `fft`."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nnc_func.errors import DTypeError
from nnc_func.facets.dtypes import kind_of

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _numbers(xp: ArrayNamespace, x: Any, name: str) -> Any:
    found = xp.asarray(x)
    if kind_of(found.dtype) not in "fc":
        raise DTypeError(f"{name} wants a floating or complex dtype, given {found.dtype}; cast it first")
    return found


def along_axis(name: str) -> Callable[..., Any]:
    """The transform of that name along one axis, as a method of one tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.fft.rfft([1.0, 1.0]).numpy()
    array([2.+0.j, 0.+0.j])
    """

    def function(xp: ArrayNamespace, x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return getattr(xp.ops, name)(_numbers(xp, x, name), n=n, axis=axis, norm=norm)

    return _named(function, name)


def over_axes(name: str) -> Callable[..., Any]:
    """The transform of that name over several axes, as a method of one tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.fft.fftn([[1.0, 1.0]]).numpy()
    array([[2.+0.j, 0.+0.j]])
    """

    def function(
        xp: ArrayNamespace,
        x: Any,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Any:
        lengths = None if s is None else tuple(s)
        along = None if axes is None else tuple(axes)
        return getattr(xp.ops, name)(_numbers(xp, x, name), s=lengths, axes=along, norm=norm)

    return _named(function, name)


def _named(function: Callable[..., Any], name: str) -> Any:
    function.__name__, function.__qualname__ = name, f"Fourier.{name}"
    function.__doc__ = f"The transform `{name}`; see the operator of that name in docs/operators.md."
    return function


def fftfreq(xp: ArrayNamespace, n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Frequencies of the results of `fft`, in cycles for each unit of the sample spacing ``d``.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.fft.fftfreq(4).numpy()
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return xp.to_device(xp.ops.fftfreq(n=n, d=d, dtype=dtype), device)


def rfftfreq(xp: ArrayNamespace, n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Frequencies of the results of `rfft`, in cycles for each unit of the sample spacing ``d``.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.fft.rfftfreq(4).numpy()
    array([0.  , 0.25, 0.5 ])
    """
    return xp.to_device(xp.ops.rfftfreq(n=n, d=d, dtype=dtype), device)


def fftshift(xp: ArrayNamespace, x: Any, /, *, axes: Any = None) -> Any:
    """With the frequency 0 in the middle of axes; all of them if None.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.fft.fftshift([0.0, 1.0, 2.0]).numpy()
    array([2., 0., 1.])
    """
    return xp.ops.fftshift(_numbers(xp, x, "fftshift"), axes=axes)


def ifftshift(xp: ArrayNamespace, x: Any, /, *, axes: Any = None) -> Any:
    """What undoes `fftshift`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.fft.ifftshift([2.0, 0.0, 1.0]).numpy()
    array([0., 1., 2.])
    """
    return xp.ops.ifftshift(_numbers(xp, x, "ifftshift"), axes=axes)
