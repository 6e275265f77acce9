"""The operators of a catalogue as functions over one interpretation: ``o.add(x, y)`` for any `bind`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nnc_func.errors import PlaceError, UnknownOperatorError
from nnc_func.facets.shapes import normalise_axes
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Catalogue, Op


class Functions:
    """What derivative formulas are written against: every operator of a catalogue, as a function of raw carriers.

    Parameters
    ----------
    bind
        ``bind(op, *args, **params)`` of any layer.
    ops
        The catalogue.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.device import NumPy
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> o = Functions(NumPy().bind, CATALOGUE)
    >>> o.sum_to(np.ones((2, 3)), (3,))
    array([2., 2., 2.])
    """

    def __init__(self, bind: Callable[..., Any], ops: Catalogue) -> None:
        self._bind = bind
        self._transfer = ops.get("transfer")
        self.__dict__.update({name: partial(self.bind, op) for name, op in ops.items()})

    def bind(self, op: Op, *args: Any, **params: Any) -> Any:
        """The operator; what was computed of numbers alone is a number still, and goes to where the tensors are."""
        try:
            return self._bind(op, *args, **params)
        except PlaceError:
            places = [self.place(a) for a in args]
            elsewhere = {p for p in places if p is not None}
            numbers = [p is None and getattr(a, "shape", None) == () for a, p in zip(args, places, strict=True)]
            if self._transfer is None or len(elsewhere) != 1 or not any(numbers):
                raise
            (place,) = elsewhere
            moved = [self._bind(self._transfer, a, place=place) if n else a for a, n in zip(args, numbers, strict=True)]
            return self._bind(op, *moved, **params)

    def __getattr__(self, name: str) -> Any:
        from nnc_func.graph.composites import COMPOSITES  # they are functions of these

        found = COMPOSITES.get(name)
        if found is None:
            if name in CATALOGUE:
                raise UnknownOperatorError(
                    f"{name} is not an operator of this stack, and what is built of it (a derivative, say) needs it; "
                    f"add it: stack.swap(type=stack.type.with_ops({name}))"
                )
            raise AttributeError(f"no operator {name!r} in this catalogue; see stack.type.ops")
        bound = self.__dict__[name] = partial(found.over, self)
        return bound

    def dtype(self, x: Any) -> Any:
        """The NumPy dtype of a carrier; namespaces with dtypes of their own name them as NumPy does."""
        found = x.dtype
        return found if isinstance(found, np.dtype) else np.dtype(str(found).rpartition(".")[2])

    def layout(self, x: Any) -> Any:
        """The layout of a carrier; arrays have none but row-major."""
        while hasattr(x, "primal"):  # under differentiation
            x = x.primal
        return getattr(getattr(x, "aval", None), "layout", None)

    def place(self, x: Any) -> Any:
        """The place of a carrier."""
        while hasattr(x, "primal"):  # under differentiation
            x = x.primal
        return getattr(getattr(x, "aval", x), "place", None)

    def sum_to(self, x: Any, shape: tuple[Any, ...]) -> Any:
        """The sum of `x` over what broadcasting from `shape` has repeated: the transpose of broadcasting."""
        if x.shape == shape:
            return x
        extra = len(x.shape) - len(shape)
        axes = tuple(range(extra)) + tuple(
            i + extra for i, n in enumerate(shape) if not hasattr(n, "symbols") and n == 1 and x.shape[i + extra] != 1
        )
        kept = tuple(n for i, n in enumerate(x.shape) if i not in normalise_axes(axes, len(x.shape)))
        if axes:
            x = self.sum(x, axis=axes, keepdims=False)
        return x if kept == shape else self.reshape(x, shape=shape)

    def projected(self, x: Any, dtype: Any) -> Any:
        """`x` in that dtype; of a complex number that is to be real, its real part: the transpose of promotion."""
        have = self.dtype(x)
        if have == dtype:
            return x
        if have.kind == "c" and dtype.kind != "c":
            x = self.real(x)
        return x if self.dtype(x) == dtype else self.cast(x, dtype=dtype)

    def zeros_like(self, x: Any) -> Any:
        """Zeros of the shape and dtype of a carrier."""
        zeros = self.full(shape=x.shape, value=0, dtype=self.dtype(x))
        place = self.place(x)
        return zeros if place is None else self.transfer(zeros, place=place)

    def number(self, value: Any, x: Any) -> Any:
        """A number, or an extent, as a carrier of the dtype of another one."""
        return self.full(shape=(), value=value, dtype=self.dtype(x))

    def broadcast_like(self, x: Any, y: Any) -> Any:
        """`x` broadcast to the shape of `y`, if it has another."""
        return x if x.shape == y.shape else self.broadcast_to(x, shape=y.shape)
