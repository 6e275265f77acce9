"""NumPy's methods of arrays, on tensors: each is NumPy's function of its name, with the parameters of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.declaration import SYNONYMS, wrong_name
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.graph.pauses import paused_here
from nnc_func.graph.tensors.arithmetic import OPS, Arithmetic


def _numpys(function: Any) -> Callable[..., Any]:
    """NumPy's function as a method; it asks the tensor what to do."""
    name = function.__name__

    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        if not SYNONYMS.keys().isdisjoint(keywords):
            raise wrong_name(name, keywords)
        return function(self, *args, **keywords)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"``numpy.{name}`` of it."
    return method


def _reduction(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """As `_numpys`; straight to the operator where only axes are given."""
    op = OPS[name]

    def method(self: Any, axis: Any = None, keepdims: bool = False, **numpy: Any) -> Any:
        if any(value is not None for value in numpy.values()):
            if not SYNONYMS.keys().isdisjoint(numpy):
                raise wrong_name(name, numpy)
            return function(self, axis=axis, keepdims=keepdims, **numpy)
        return self._bind(op, self, axis=axis, keepdims=keepdims)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"``numpy.{name}`` of it: over axes, all of them if None."
    return method


class Methods(Arithmetic):
    """What NumPy's arrays have as methods and attributes. Those that write give the handle another value."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: Any
        dtype: Any
        size: Any
        ndim: Any
        numpy: Any

    sum, mean = _reduction("sum", np.sum), _reduction("mean", np.mean)
    max, min = _reduction("max", np.max), _reduction("min", np.min)
    prod, any, all = _numpys(np.prod), _numpys(np.any), _numpys(np.all)
    std, var, round = _numpys(np.std), _numpys(np.var), _numpys(np.round)
    argmax, argmin, argsort = _numpys(np.argmax), _numpys(np.argmin), _numpys(np.argsort)
    cumsum, cumprod, trace, diagonal = map(_numpys, (np.cumsum, np.cumprod, np.trace, np.diagonal))
    ravel, squeeze, swapaxes, repeat = map(_numpys, (np.ravel, np.squeeze, np.swapaxes, np.repeat))
    take, choose, nonzero, searchsorted = map(_numpys, (np.take, np.choose, np.nonzero, np.searchsorted))
    clip, conj, conjugate, dot = map(_numpys, (np.clip, np.conj, np.conjugate, np.dot))
    flatten, put = _numpys(np.ravel), _numpys(np.put)

    def reshape(self, *shape: Any) -> Any:
        """The same elements in another shape; one extent may be -1."""
        return self._bind(OPS["reshape"], self, shape=shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Any:
        """With its axes in another order, reversed if none is given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return self._bind(OPS["permute_dims"], self, axes=order)

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """With its axes reversed."""
        return self._bind(OPS["permute_dims"], self, axes=None)

    @property
    def mT(self) -> Any:  # noqa: N802 - the standard's name
        """With its last two axes exchanged."""
        if self.ndim < 2:
            raise ShapeError(f"mT wants matrices, given shape {self.shape}")
        return self._bind(OPS["permute_dims"], self, axes=(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    @property
    def real(self: Any) -> Any:
        """Real parts."""
        if self.dtype.kind == "c":
            return np.real(self)
        return +self if paused_here() else self  # whoever asks whether it is there gets it too

    @property
    def imag(self) -> Any:
        """Imaginary parts; zeros of real numbers."""
        return np.imag(self)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Cast to another dtype. Whether memory is shared is not seen: values stay."""
        return self._bind(OPS["cast"], self, dtype=dtype)

    def compress(self, condition: Any, axis: Any = None) -> Any:
        """``numpy.compress`` of it."""
        return np.compress(condition, self, axis=axis)  # type: ignore[call-overload]

    # --- values ---------------------------------------------------------------------------------------

    def copy(self: Any) -> Any:
        """Another handle of the value: writing into one leaves the other as it is."""
        return +self

    def tolist(self) -> Any:
        """Its elements as Python numbers, in lists as deep as its rank."""
        return self.numpy().tolist()

    def tobytes(self) -> bytes:
        """Its elements as bytes, in C order."""
        return self.numpy().tobytes()  # type: ignore[no-any-return]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.size * self.itemsize

    def sort(self: Any, axis: Any = -1) -> None:
        """Give the handle its elements in order along an axis."""
        self[...] = np.sort(self, axis=axis)

    def fill(self: Any, value: Any) -> None:
        """Give the handle that number everywhere."""
        self[...] = value

    # --- Python's protocols ---------------------------------------------------------------------------

    def __round__(self: Any, digits: int | None = None) -> Any:
        return np.round(self, 0 if digits is None else digits)

    def __format__(self, how: str) -> str:
        if not how:
            return str(self)
        value = self.numpy()
        if value.size != 1:
            raise OperatorError(
                f"the format {how!r} is of one number, given a tensor of shape {value.shape}; format its elements, or "
                "numpy.array2string(x.numpy(), …)"
            )
        return format(value.item(), how)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or hasattr(type(self), name):
                return object.__getattribute__(self, name)  # which says what is wrong
            hint = f"; use stack.ops.{name}(x)" if name in OPS else ""
            hint = hint or (f"; use numpy.{name}(x)" if callable(getattr(np, name, None)) else "")
            raise AttributeError(f"a tensor has no attribute {name!r}{hint}")
