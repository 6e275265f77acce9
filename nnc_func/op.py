"""The operator record and the catalogue: operators as data, one decorated Python signature each.

A record knows callables only. Which layer reads which facet is told in ``nnc_func/facets/``; no layer is
imported here.
"""

from __future__ import annotations

import importlib
import inspect
import operator as python
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import field, frozen

from nnc_func.errors import OperatorError
from nnc_func.facets import layouts, places
from nnc_func.facets.derivatives import Derivative
from nnc_func.facets.dtypes import DTypeRule
from nnc_func.facets.kernels import Kernel, ufunc
from nnc_func.facets.laws import Law
from nnc_func.facets.samples import Refused, Samples, Tolerance
from nnc_func.facets.views import CostRule, Parts, View, per_element

REQUIRED = inspect.Parameter.empty
Items = tuple[tuple[str, Any], ...]
MEMO_LIMIT = 10_000  # parameter sets remembered for an operator


def _laws(laws: Iterable[Law]) -> frozenset[Law]:
    return frozenset(laws)


@frozen(eq=False, repr=False, slots=True)
class Op:
    """One operator: its signature, and one facet for each layer that has a say in it.

    Calling it applies it wherever its arguments live: ``op(x, y)`` asks the first tensor (or rule variable)
    among the arguments to bind it.

    Attributes
    ----------
    name, doc
        The name is unique within a catalogue; the docstring's first sentence goes into the generated docs.
    args
        Names of the tensor arguments. With `variadic` the last one stands for any number.
    params
        Keyword parameters: name to default, or `REQUIRED`.
    converters
        Parameter name to the function that brings it to canonical, hashable form.
    several
        It has several results: `bind` returns a tuple, and the shape and dtype rules give one.
    compares_bits
        Some parameter is a float or any number: equal keys (``0.0`` and ``-0.0``, 1 and True) may differ in bits.
    is_sized
        Some parameter is an extent, a tuple of them, or any number: it may be symbolic.
    shape, dtype, layout, place, kernels, laws, pure, effect, view, parts, derivative, cost, onnx, samples, tolerance
        The facets.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> CATALOGUE["add"].args
    ('a', 'b')
    """

    name: str
    module: str
    doc: str
    args: tuple[str, ...]
    variadic: bool
    params: Mapping[str, Any]
    converters: Mapping[str, Callable[[Any], Any]]
    shape: Callable[..., Any]
    dtype: DTypeRule
    kernels: tuple[Kernel, ...]
    derivative: Derivative
    laws: frozenset[Law] = field(default=frozenset(), converter=_laws)
    layout: Callable[..., Any] = layouts.row_major
    place: Callable[..., Any] = places.common
    several: bool = False
    pure: bool = True
    effect: bool = False
    view: View | None = None
    parts: Parts | None = None
    cost: CostRule = per_element()
    onnx: Any = Refused("not mapped yet")
    samples: Samples = Samples()
    tolerance: Tolerance = Tolerance()
    compares_bits: bool = field(init=False)
    is_sized: bool = field(init=False)
    _canonical: dict[Any, Items] = field(init=False, factory=dict)

    @is_sized.default
    def _any_sizes(self) -> bool:
        return any(c in (sizes, extent, number, nested) for c in self.converters.values())

    @compares_bits.default
    def _any_float(self) -> bool:
        return any(c in (float, number) for c in self.converters.values())

    def __repr__(self) -> str:
        return self.name

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # Hypothesis prints with this
        printer.text(self.name)

    def __reduce__(self) -> tuple[Any, ...]:  # an operator pickles as where it was declared
        return named, (self.module, self.name)

    def __call__(self, *args: Any, **params: Any) -> Any:
        for arg in args:
            bind = getattr(arg, "_bind", None)
            if bind is not None:
                return bind(self, *args, **params)
        raise OperatorError(
            f"{self.name}: none of the arguments is a tensor of a stack; "
            f"use stack.ops.{self.name}(...), or make a tensor with stack.asarray(...)"
        )

    def has(self, law: str) -> Law | None:
        """The law of that name that the operator declares, if it does."""
        return next((each for each in self.laws if each.name == law), None)

    def canonical(self, params: Mapping[str, Any]) -> Items:
        """The parameters in the signature's order, defaults filled in, each one hashable.

        Raises
        ------
        OperatorError
            An unknown parameter, a missing one, or a value of the wrong kind.
        """
        if not self.params and not params:
            return ()
        if self.compares_bits:  # 0.0 and -0.0, 1 and True are equal keys, so these are converted each time
            return self._convert(params)
        key = (*params.items(), *map(type, params.values()))  # 2 and 2.0 are equal keys
        try:
            found = self._canonical.get(key)
        except TypeError:  # a list among them
            return self._convert(params)
        if found is None:
            if len(self._canonical) >= MEMO_LIMIT:
                self._canonical.clear()
            found = self._canonical[key] = self._convert(params)
        return found

    def _convert(self, params: Mapping[str, Any]) -> Items:
        for name in params:
            if name not in self.params:
                wanted = ", ".join(self.params) or "none"
                raise OperatorError(f"{self.name} has no parameter {name!r}; it has: {wanted}")
        items = []
        for name, default in self.params.items():
            value = params.get(name, default)
            if value is REQUIRED:
                raise OperatorError(f"{self.name} needs the parameter {name!r}; call {self.signature()}")
            convert = self.converters.get(name)
            if convert is not None and value is not None:
                try:
                    value = convert(value)
                except (TypeError, ValueError) as error:
                    raise OperatorError(f"{self.name}: {name}={value!r} is not usable: {error}") from None
            items.append((name, value))
        return tuple(items)

    def key(self, items: Items) -> Any:
        """Of the parameters: equal exactly where they are equal in type and bits (``0.0`` and ``-0.0`` differ)."""
        return (items, repr(items)) if self.compares_bits else items

    def check_arity(self, given: int) -> None:
        """Raise OperatorError unless that many tensor arguments fit."""
        wanted = len(self.args)
        if given != wanted and not (self.variadic and given >= wanted - 1):
            least = f"at least {wanted - 1}" if self.variadic else str(wanted)
            raise OperatorError(f"{self.name} takes {least} tensors, given {given}; call {self.signature()}")

    def signature(self) -> str:
        """As one would write it: ``sum(x, *, axis=None, keepdims=False)``."""
        tensors = [*self.args]
        if self.variadic:
            tensors[-1] = f"*{tensors[-1]}"
        keywords = [n if d is REQUIRED else f"{n}={d!r}" for n, d in self.params.items()]
        star = ["*"] if keywords and not self.variadic else []
        return f"{self.name}({', '.join([*tensors, *star, *keywords])})"


def named(module: str, name: str) -> Op:
    """The operator that was declared in that module under that name."""
    found = importlib.import_module(module)
    op = getattr(found, name, None) or getattr(found, f"{name}_", None)
    if not isinstance(op, Op):
        raise OperatorError(f"no operator {name!r} in {module}: an operator must be a module's member to be pickled")
    return op


# --- converters: from annotation to canonical parameter -----------------------------------------------


def sizes(value: Any) -> tuple[Any, ...]:
    """A tuple of extents; one alone is a tuple of one. Symbolic extents stay as they are."""
    if isinstance(value, (tuple, list)):
        return tuple(extent(v) for v in value)
    return (extent(value),)


def extent(value: Any) -> Any:
    """A whole number, or a symbolic extent."""
    return value if getattr(value, "is_symbolic", False) else python.index(value)


def number(value: Any) -> Any:
    """A Python number, of its own type; a symbolic extent stays as it is."""
    if isinstance(value, (bool, int, float, complex)) or getattr(value, "is_symbolic", False):
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    raise TypeError(f"wanted a number, given {type(value).__name__}")


def axes(value: Any) -> Any:
    """An axis or a tuple of axes."""
    return tuple(python.index(v) for v in value) if isinstance(value, (tuple, list)) else python.index(value)


def nested(value: Any) -> Any:
    """Lists become tuples, all the way down; NumPy integers become integers."""
    if isinstance(value, (tuple, list)):
        return tuple(nested(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


def function(value: Any) -> Any:
    """A function of the host."""
    if not callable(value):
        raise TypeError(f"wanted a function, given {type(value).__name__}")
    hash(value)
    return value


CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int": python.index,
    "float": float,
    "number": number,
    "str": str,
    "Axes": axes,
    "Sizes": sizes,
    "Extent": extent,
    "DType": np.dtype,
    "Nested": nested,
    "Function": function,
}


def _converter(annotation: Any) -> Callable[[Any], Any] | None:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return CONVERTERS.get(text.split("|")[0].strip())


# --- the decorator ------------------------------------------------------------------------------------


def operator(
    *,
    shape: Callable[..., Any],
    dtype: DTypeRule,
    derivative: Derivative,
    kernels: Any,
    laws: Iterable[Law] = (),
    **facets: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operator: positional-only arguments are tensors, keyword-only ones are parameters.

    The annotation of a parameter says how it is brought to canonical form: ``bool``, ``int``, ``float``,
    ``number``, ``str``, ``Axes``, ``Extent``, ``Sizes``, ``DType``, ``Nested`` or ``Function`` (see `CONVERTERS`);
    ``| None`` may follow.

    Raises
    ------
    OperatorError
        No docstring, or no kernel.
    """

    def decorate(function: Callable[..., Any]) -> Op:
        name = function.__name__.rstrip("_")
        found = inspect.signature(function).parameters.values()
        doc = inspect.getdoc(function)
        if not doc:
            raise OperatorError(f"operator {name} has no docstring")
        listed = tuple(kernels) if isinstance(kernels, (tuple, list)) else (kernels,)
        if not listed:
            raise OperatorError(f"operator {name} has no kernel")
        return Op(
            name=name,
            module=function.__module__,
            doc=doc,
            args=tuple(p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)),
            variadic=any(p.kind is p.VAR_POSITIONAL for p in found),
            params={p.name: p.default for p in found if p.kind is p.KEYWORD_ONLY},
            converters={
                p.name: c for p in found if p.kind is p.KEYWORD_ONLY and (c := _converter(p.annotation)) is not None
            },
            shape=shape,
            dtype=dtype,
            kernels=tuple(ufunc(k) if isinstance(k, str) else k for k in listed),
            derivative=derivative,
            laws=laws,
            **facets,
        )

    return decorate


# --- catalogues ---------------------------------------------------------------------------------------


def _ops(ops: Iterable[Op]) -> tuple[Op, ...]:
    return tuple(ops)


@frozen(repr=False, eq=False)
class Catalogue(Mapping[str, Op]):
    """Operators by name: a value that a stack is given. Equal if they hold the same operators.

    Raises
    ------
    OperatorError
        Two operators of one name.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> "add" in CATALOGUE
    True
    """

    ops: tuple[Op, ...] = field(converter=_ops)
    _by_name: Mapping[str, Op] = field(init=False)
    _hash: int = field(init=False)

    @_by_name.default
    def _index(self) -> Mapping[str, Op]:
        by_name: dict[str, Op] = {}
        for op in self.ops:
            if by_name.setdefault(op.name, op) is not op:
                raise OperatorError(f"two operators named {op.name!r} in one catalogue")
        return by_name

    @_hash.default
    def _hashed(self) -> int:
        return hash(frozenset(self.ops))

    def __getitem__(self, name: str) -> Op:
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(f"no operator named {name!r} in this catalogue of {len(self.ops)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self.ops)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalogue) and (self is other or frozenset(self.ops) == frozenset(other.ops))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<catalogue of {len(self.ops)} operators>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalogue, (self.ops,)

    def with_ops(self, *ops: Op) -> Catalogue:
        """This catalogue and these operators.

        Raises
        ------
        OperatorError
            Two operators of one name.
        """
        return Catalogue((*self.ops, *ops))


def members(*modules: Any) -> Catalogue:
    """The catalogue of all operators that these modules declare, in their order."""
    return Catalogue(
        tuple(op for m in modules for op in vars(m).values() if isinstance(op, Op) and op.module == m.__name__)
    )
