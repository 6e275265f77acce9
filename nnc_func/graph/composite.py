"""Composites: functions of other operators, declared as operators are. All that is known of them follows from those."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from nnc_func.declaration import Declaration, declared
from nnc_func.errors import DeviceError, DTypeError, OperatorError, ShapeError
from nnc_func.facets.dtypes import weak
from nnc_func.facets.samples import Samples, Tolerance
from nnc_func.graph.origin import with_line

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

SCALARS = (bool, int, float, complex)


@frozen(eq=False, repr=False, slots=True)
class Composite(Declaration):
    """A function of operators: what it is called with, and what it is made of.

    It is no operator: applying it applies those that it is made of, on every layer alike, so that its shape, dtype,
    derivatives and cost are theirs. Calling it applies it wherever its arguments live, as operators do.

    Attributes
    ----------
    define
        ``define(o, *tensors, **params)``: the result, or a tuple of results, with the operators ``o``.
    least
        The tensors that cannot be left out; further ones are None where they are.
    derivative
        None: it is as smooth as its operators. `Refusal` or `Constant` where no derivative is of use.
    samples, tolerance
        The facets that cannot follow from others.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.composites import COMPOSITES
    >>> COMPOSITES["square_distance"].signature()
    'square_distance(x, y, *, axis=-1)'
    """

    define: Callable[..., Any]
    least: int
    derivative: Any = None
    samples: Samples = Samples()
    tolerance: Tolerance = Tolerance()
    _parameters: Mapping[str, Any] = field(init=False, factory=dict)

    def __call__(self, *args: Any, **params: Any) -> Any:
        for arg in args:
            functions = getattr(arg, "_functions", None)
            if functions is not None:
                return self.over(functions, *args, **params)
        raise OperatorError(
            f"{self.name}: none of the arguments is a tensor of a stack; "
            f"use stack.ops.{self.name}(...), or make a tensor with stack.asarray(...)"
        )

    def __reduce__(self) -> tuple[Any, ...]:  # pickled as where it was declared
        return _declared_in, (self.module, self.name)

    def over(self, o: Ops[Any], *args: Any, **params: Any) -> Any:
        """The composite by these operators; Python's numbers among the tensors take the dtype of the others.

        Raises
        ------
        OperatorError
            Too few or too many tensors, unknown, missing or unfit parameters.
        ShapeError, DTypeError
            One of its operators does not take its operands.
        DeviceError
            One of them is no tensor, array or number.
        """
        if not self.least <= len(args) <= (len(self.args) if not self.variadic else len(args)):
            most = "" if self.least == len(self.args) else f" to {len(self.args)}"
            least = f"at least {self.least}" if self.variadic else f"{self.least}{most}"
            raise OperatorError(f"{self.name} takes {least} tensors, given {len(args)}; call {self.signature()}")
        tensors: list[Any] = []
        parameters = dict(self.canonical(params))
        try:
            tensors = _tensors(o, args)
            return self.define(o, *tensors, **parameters)
        except (ShapeError, DTypeError, OperatorError) as error:
            raise type(error)(f"{self.name}({_said(o, tensors, parameters)}): {with_line(str(error))}") from None
        except DeviceError as error:
            raise DeviceError(f"{self.name}: {with_line(str(error))}") from None


def _tensors(o: Ops[Any], args: tuple[Any, ...]) -> list[Any]:
    """The arguments, of which numbers and arrays of the host have become carriers."""
    if all(a is None or type(a) not in SCALARS for a in args):
        return [*args]
    dtypes = [o.dtype(a) for a in args if a is not None and type(a) not in SCALARS]
    return [o.full(shape=(), value=a, dtype=weak(a, dtypes)) if type(a) in SCALARS else a for a in args]


def _said(o: Ops[Any], tensors: Iterable[Any], parameters: Mapping[str, Any]) -> str:
    """The arguments, as an error names them."""
    given = [f"{o.dtype(x)}[{', '.join(map(str, x.shape))}]" for x in tensors if x is not None]
    return ", ".join([*given, *(f"{name}={value!r}" for name, value in parameters.items())])


def _declared_in(module: str, name: str) -> Any:
    found = importlib.import_module(module)
    return getattr(found, name, None) or getattr(found, f"{name}_")


def composite(**facets: Any) -> Callable[[Callable[..., Any]], Composite]:
    """Declare a composite: a function of ``o``, then tensors (positional only), then parameters (keyword only).

    A tensor whose default is None may be left out. Parameters are converted by their annotations, as operators' are.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> @composite()
    ... def doubled(o, x, /):
    ...     \"""Twice x.\"""
    ...     return o.add(x, x)
    >>> doubled(nnc.eager().asarray([1.0, 2.0])).numpy()
    array([2., 4.])
    """

    def decorate(function: Callable[..., Any]) -> Composite:
        import inspect

        found = [*inspect.signature(function).parameters.values()][1:]
        least = sum(p.kind is p.POSITIONAL_ONLY and p.default is p.empty for p in found)
        return Composite(**declared(function, leading=1), define=function, least=least, **facets)

    return decorate
