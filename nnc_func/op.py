"""The operator record and the catalogue: operators as data, one decorated Python signature each.

A record knows callables only. Which layer reads which facet is told in ``nnc_func/facets/``; no layer is
imported here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import field, frozen

from nnc_func.declaration import Declaration, declared
from nnc_func.errors import DTypeError, OperatorError, UnknownOperatorError
from nnc_func.facets import domains, layouts, places
from nnc_func.facets.derivatives import Derivative
from nnc_func.facets.dtypes import DTypeRule
from nnc_func.facets.kernels import Kernel, ufunc
from nnc_func.facets.laws import Law
from nnc_func.facets.lowering import Lowering
from nnc_func.facets.samples import Refused, Samples, Tolerance
from nnc_func.facets.views import CostRule, Parts, View, per_element


def _laws(laws: Iterable[Law]) -> frozenset[Law]:
    return frozenset(laws)


@frozen(eq=False, repr=False, slots=True)
class Op(Declaration):
    """One operator: its signature, and one facet for each layer that has a say in it.

    Calling it applies it wherever its arguments live: ``op(x, y)`` asks the first tensor (or rule variable)
    among the arguments to bind it.

    Attributes
    ----------
    name, module, doc, args, variadic, params, converters, optional, compares_bits, holds_nests, is_sized
        Of its declaration.
    multi_result
        It has several results: `bind` returns a tuple, and the shape and dtype rules give one.
    data_movement
        It only moves elements, whatever they are, or writes given ones: its kernels take bfloat16 as it is.
    takes_all
        ``takes_all(*dtypes, **params)``: whether it takes all elements of operands of these dtypes; where it does not,
        it raises when it is computed of others, as of an index out of range (see `facets.domains`).
    shape, dtype, layout, place, kernels, laws, pure, effect, view, parts, derivative, cost, onnx, lowering, samples,
    tolerance
        The facets.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> CATALOGUE["add"].args
    ('a', 'b')
    """

    shape: Callable[..., Any]
    dtype: DTypeRule
    kernels: tuple[Kernel, ...]
    derivative: Derivative
    laws: frozenset[Law] = field(default=frozenset(), converter=_laws)
    layout: Callable[..., Any] = layouts.row_major
    place: Callable[..., Any] = places.common
    multi_result: bool = False
    pure: bool = True
    effect: bool = False
    data_movement: bool = False
    takes_all: Callable[..., bool] = domains.everything
    view: View | None = None
    parts: Parts | None = None
    cost: CostRule = per_element()
    onnx: Any = Refused("not mapped yet")
    lowering: Lowering | None = None
    samples: Samples = Samples()
    tolerance: Tolerance = Tolerance()

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

    def dtypes(self, given: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """The dtype of the result on arguments of these dtypes, or a tuple of them: what its kernels give.

        Raises
        ------
        DTypeError
            It does not take these dtypes.

        Examples
        --------
        >>> import numpy as np
        >>> from nnc_func.graph.ops import CATALOGUE
        >>> CATALOGUE["divide"].dtypes([np.dtype("int8"), np.dtype("int8")], {})
        dtype('float64')
        """
        try:
            return self.dtype(*given, **params)
        except (TypeError, np.exceptions.DTypePromotionError) as error:
            if self.holds_body and isinstance(error, OperatorError):
                raise  # it is the body, not the dtypes
            said = f"{self.name} does not take dtypes {', '.join(map(str, given))}: " if given else ""
            raise DTypeError(f"{said}{error}") from None

    def has(self, law: str) -> Law | None:
        """The law of that name that the operator declares, if it does."""
        return next((each for each in self.laws if each.name == law), None)


def convert(op: Op, found: Any, conversion: Any, apply: Callable[[Any, Any], Any]) -> Any:
    """Results of an operator, of which some are converted by ``apply(conversion, result)``; None stands for none.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> convert(CATALOGUE["add"], 2, (3,), lambda factor, result: factor * result)
    6
    """
    if conversion is None:
        return found
    rows = zip(conversion, found if op.multi_result else (found,), strict=True)
    after = [result if each is None else apply(each, result) for each, result in rows]
    return tuple(after) if op.multi_result else after[0]


def named(module: str, name: str) -> Op:
    """The operator that was declared in that module under that name."""
    found = importlib.import_module(module)
    op = getattr(found, name, None) or getattr(found, f"{name}_", None)
    if not isinstance(op, Op):
        raise OperatorError(f"no operator {name!r} in {module}: an operator must be a module's member to be pickled")
    return op


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
        No docstring, no kernel, or two kernels of one name.
    """

    def decorate(function: Callable[..., Any]) -> Op:
        fields = declared(function)
        listed = tuple(kernels) if isinstance(kernels, (tuple, list)) else (kernels,)
        if not listed:
            raise OperatorError(f"operator {fields['name']} has no kernel")
        made = tuple(ufunc(k) if isinstance(k, str) else k for k in listed)
        names = [k.name for k in made]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise OperatorError(
                f"operator {fields['name']} has two kernels named {twice!r}: plans tell them apart by it"
            )
        return Op(
            **fields,
            shape=shape,
            dtype=dtype,
            kernels=made,
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
            import difflib  # it takes a millisecond, and is for what goes wrong

            close = difflib.get_close_matches(str(name), self._by_name, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            said = f"no operator named {name!r} in this catalogue of {len(self.ops)}{hint}"
            raise UnknownOperatorError(said) from None

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
