"""The operators of a stack, or of any layer, as functions: ``ops.add(x, y)`` for any `bind`."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from attrs import field, frozen

from nnc_func.errors import PlaceError, UnknownOperatorError
from nnc_func.facets.shapes import normalise_axes
from nnc_func.graph.composite import Composite
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.pauses import paused_here
from nnc_func.graph.tensors.operator_methods import OperatorMethods
from nnc_func.op import Catalogue, Op

T = TypeVar("T")
SCALARS = (bool, int, float, complex)


def _as_given(value: Any) -> Any:
    return value


@frozen(eq=False, repr=False)
class Ops(OperatorMethods[T]):
    """The operators of a stack, as functions; array-API names where the standard has one.

    Operators that the stack's own catalogue has beyond those below are attributes too; a type checker does not
    know them, so that it finds misspelt names.

    Parameters
    ----------
    bind
        ``bind(op, *args, **params)`` of a layer.
    catalogue
        The stack's operators.
    lift
        Makes a carrier of whatever a composite is given in place of one.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.device import NumPy
    >>> Ops(NumPy().bind).add(np.float32([1, 2]), 1)
    array([2., 3.], dtype=float32)

    What formulas of derivatives are written against:

    >>> Ops(NumPy().bind).functions.sum_to(np.ones((2, 3)), (3,))
    array([2., 2., 2.])
    """

    bind: Callable[..., Any]
    catalogue: Catalogue = CATALOGUE
    lift: Callable[[Any], Any] = _as_given
    _functions: list[Ops[Any]] = field(init=False, factory=list)  # made when they are asked for

    def __attrs_post_init__(self) -> None:
        if self.catalogue is not CATALOGUE:  # operators that it has under other names, or others under these
            own = {n: op for n, op in self.catalogue.items() if n not in CATALOGUE or CATALOGUE[n] is not op}
            vars(self).update({n: partial(self.bind, op) for n, op in own.items() if n not in RESERVED})
            vars(self).update({f"{n}_": vars(self)[n] for n in filter(keyword.iskeyword, own)})

    def __repr__(self) -> str:
        return f"<{len(self.catalogue)} operators>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Ops, (self.bind, self.catalogue, self.lift)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(type(self)), *self.catalogue})

    @property
    def functions(self) -> Ops[Any]:
        """The operators as formulas are written against them."""
        if isinstance(self.bind, FormulaBinding):
            return self
        if not self._functions:
            self._functions.append(Ops(FormulaBinding(self.bind, self.catalogue), self.catalogue))
        return self._functions[0]

    def _compose(self, composite: Composite, *args: Any, **params: Any) -> Any:
        given = [a if a is None or type(a) in SCALARS else self.lift(a) for a in args]
        while given and given[-1] is None:
            given.pop()
        found = composite.over(self.functions, *given, **params)
        if paused_here() and any(found is a for a in given):
            return self.cast(found, dtype=self.dtype(found))  # an operator, which is recorded or not as all others are
        return found

    def _unknown(self, name: str) -> AttributeError:
        """The error of a name that is no operator's, nor a composite's."""
        if name.startswith("_"):
            return AttributeError(name)
        import difflib

        close = difflib.get_close_matches(name, self.catalogue)
        hint = f"; did you mean {' or '.join(close)}?" if close else "; see docs/operators.md"
        return AttributeError(f"no operator {name!r} in this stack's catalogue{hint}")

    # --- what formulas ask of carriers ------------------------------------------------------------------------

    def dtype(self, x: Any) -> Any:
        """The NumPy dtype of a carrier; namespaces with dtypes of their own name them as NumPy does."""
        found = x.dtype
        return found if isinstance(found, np.dtype) else np.dtype(str(found).rpartition(".")[2])

    def layout(self, x: Any) -> Any:
        """The layout of a carrier; arrays have none but row-major."""
        return getattr(getattr(_primal(x), "aval", None), "layout", None)

    def place(self, x: Any) -> Any:
        """The place of a carrier."""
        return _place(x)

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

    def number(self, value: Any, x: Any) -> Any:
        """A number, or an extent, as a carrier of the dtype of another one."""
        return self.full(shape=(), value=value, dtype=self.dtype(x))

    def broadcast_like(self, x: Any, y: Any) -> Any:
        """`x` broadcast to the shape of `y`, if it has another."""
        return x if x.shape == y.shape else self.broadcast_to(x, shape=y.shape)


RESERVED = frozenset(vars(Ops))  # names that no operator of one's own takes from `Ops`


@frozen(eq=False)
class FormulaBinding:
    """Binds the operators that formulas apply; what was computed of numbers alone goes to where the tensors are.

    Parameters
    ----------
    bind
        ``bind(op, *args, **params)`` of a layer.
    catalogue
        The stack's operators.

    Raises
    ------
    UnknownOperatorError
        A formula needs an operator that the stack has not.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.device import NumPy
    >>> FormulaBinding(NumPy().bind, CATALOGUE)(CATALOGUE["negative"], np.ones(2))
    array([-1., -1.])
    """

    bind: Callable[..., Any]
    catalogue: Catalogue

    def __call__(self, op: Op, *args: Any, **params: Any) -> Any:
        try:
            return self.bind(op, *args, **params)
        except UnknownOperatorError:
            if op.name in self.catalogue:
                raise
            raise UnknownOperatorError(
                f"{op.name} is not an operator of this stack, and what is built of it (a derivative, say) needs it; "
                f"add it: stack.swap(type=stack.type.with_ops({op.name}))"
            ) from None
        except PlaceError:
            places = [_place(a) for a in args]
            elsewhere = {p for p in places if p is not None}
            numbers = [p is None and getattr(a, "shape", None) == () for a, p in zip(args, places, strict=True)]
            if "transfer" not in self.catalogue or len(elsewhere) != 1 or not any(numbers):
                raise
            (place,) = elsewhere
            move = partial(self.bind, self.catalogue["transfer"], place=place)
            moved = [move(a) if is_number else a for a, is_number in zip(args, numbers, strict=True)]
            return self.bind(op, *moved, **params)


def _primal(x: Any) -> Any:
    """What a carrier is of, under however many differentiations."""
    while hasattr(x, "primal"):
        x = x.primal
    return x


def _place(x: Any) -> Any:
    at = _primal(x)
    return getattr(getattr(at, "aval", at), "place", None)
