"""Hypothesis strategies for the arguments of an operator, from its `Samples` facet.

Whatever is drawn fits the operator: shapes and dtypes pass its rules, elements lie in its domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.declaration import REQUIRED
from nnc_func.device.null import Null
from nnc_func.errors import DTypeError, NncError, ShapeError
from nnc_func.facets.samples import Samples
from nnc_func.graph.composite import Composite
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.op import Op
from nnc_func.testing.tensors import MARGIN, arrays, broadcastable_shapes, shapes

Arguments = tuple[list[np.ndarray], dict[str, Any]]
Shape = tuple[int, ...]

REMEMBERED = 1024  # strategies that are kept: making one costs more than a draw
PRECISE = ("float64", "complex128")  # what derivatives are checked in
VARIADIC = 3  # most tensors that a variadic operator is given


# --- arguments of an operator ----------------------------------------------------------------------------


def arguments(op: Op | Composite, dtype: Any = None, *, differentiable: bool = False) -> st.SearchStrategy[Arguments]:
    """Arrays and parameters that the operator takes.

    Parameters
    ----------
    op
        Any operator or composite; its `samples` facet says what is drawn.
    dtype
        The dtype of all arguments whose dtype the operator leaves open; None draws it, one for all or a mix.
    differentiable
        Floating arguments are all float64, or all complex128 where the operator takes complex numbers, and no others
        are drawn where they are possible: what a derivative is checked with. Indices stay integers, conditions stay
        booleans.

    Returns
    -------
    A strategy for ``(arrays, params)``: ``op(*arrays, **params)`` is a legal call.

    Examples
    --------
    >>> from hypothesis import find
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> (x,), params = find(arguments(CATALOGUE["sum"], "int64"), lambda found: found[1]["keepdims"])
    >>> x.dtype, params["keepdims"]
    (dtype('int64'), True)
    """
    return _arguments(op, None if dtype is None else np.dtype(dtype), differentiable)


@lru_cache(maxsize=REMEMBERED)
def _arguments(op: Op | Composite, dtype: np.dtype[Any] | None, differentiable: bool) -> st.SearchStrategy[Arguments]:
    drawn = _from_cases if op.samples.relation == "cases" else _related
    return (
        drawn(op, dtype, differentiable).filter(lambda found: _fits(op, found)).map(lambda found: _prepared(op, found))
    )


def converted(op: Op, lists: Sequence[Arguments]) -> Iterator[Arguments]:
    """For each dtype of the operator the richest of these lists that can be in that dtype, unless it is.

    So each dtype is met by more than zeros, without draws of its own, which cost many times what a conversion does.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> found = converted(CATALOGUE["exp"], [([np.zeros(2, "float32")], {}), ([np.ones(2)], {})])
    >>> [given[0].dtype.name for given, _ in found]
    ['float32', 'float16', 'complex64', 'complex128']
    """
    richest = sorted(lists, key=lambda found: -sum(map(np.count_nonzero, found[0])))
    for name in op.samples.dtypes:
        if not richest or {name} == {x.dtype.name for x in richest[0][0]}:
            continue
        options = [each for given, params in richest for each in _in_dtype(given, params, np.dtype(name))]
        options.sort(key=lambda found: any(x.dtype.name != name for x in found[0]))  # rather of that dtype alone
        made = next((each for each in options if _fits(op, each)), None)
        if made is not None:
            yield made


def _in_dtype(given: list[np.ndarray], params: dict[str, Any], wanted: np.dtype[Any]) -> Iterator[Arguments]:
    """All arguments in another dtype, or those of one dtype; truth values beside others choose, and stay."""
    found = dict.fromkeys(x.dtype for x in given)
    able = [d for d in found if np.can_cast(d, wanted, "same_kind") and (d.kind != "b" or len(found) == 1)]
    for some in (able, *([d] for d in able)):
        if some:
            yield [x.astype(wanted) if x.dtype in some else x for x in given], params


def _prepared(op: Op | Composite, found: Arguments) -> Arguments:
    given, params = found
    return (given if op.samples.prepare is None else op.samples.prepare(*given)), params


def _fits(op: Op | Composite, found: Arguments) -> bool:
    given, params = found
    canonical = dict(op.canonical(params))
    if isinstance(op, Composite):
        return _infers(op, [Aval(x.shape, x.dtype) for x in given], params)
    try:
        op.shape(*(x.shape for x in given), **canonical)
        op.dtype(*(x.dtype for x in given), **canonical)
    except (ShapeError, DTypeError):
        return False
    return True


def _infers(op: Composite, avals: list[Aval], params: dict[str, Any]) -> bool:
    """Whether the operators that a composite is made of take such operands."""
    try:
        _inferred(op, avals, params)
    except (ShapeError, DTypeError):
        return False
    return True


def _inferred(op: Composite, avals: list[Aval], params: dict[str, Any]) -> None:
    op.over(_abstract(), *avals, **params)


@cache
def _abstract() -> Ops[Any]:
    """The operators over shapes and dtypes alone."""
    from nnc_func.stacks import eager

    return Ops(eager(Null()).shape.bind, CATALOGUE).functions


def _domain(samples: Samples, position: int) -> tuple[float, float]:
    one_each = isinstance(samples.domain[0], tuple)
    low, high = samples.domain[min(position, len(samples.domain) - 1)] if one_each else samples.domain
    return float(low), float(high)


@st.composite
def _related(draw: Any, op: Op | Composite, dtype: Any, differentiable: bool) -> Arguments:
    samples = op.samples
    count = draw(st.integers(1, VARIADIC)) + len(op.args) - 1 if op.variadic else len(op.args)
    sides = draw(_sides(count, samples.relation, samples.min_rank))
    kinds = _dtypes(draw, op, count, dtype, differentiable)
    if not _mixes(op, kinds):
        kinds = [kinds[0]] * count
    pick = lambda options: draw(st.sampled_from(list(options)))  # noqa: E731 - the facet's `draw`
    params = samples.params(sides, pick) if samples.params else {}
    given = [
        draw(arrays(side, kind, _domain(samples, i), avoid=samples.avoid, distinct=samples.distinct))
        for i, (side, kind) in enumerate(zip(sides, kinds, strict=True))
    ]
    if samples.distinct and count > 1:
        assume(_apart(given))
    return given, params


@cache
def _sides(count: int, relation: str, min_rank: int) -> st.SearchStrategy[tuple[Shape, ...]]:
    if relation == "equal":
        return shapes(min_rank=min_rank).map(lambda shape: (shape,) * count)
    return broadcastable_shapes(count, min_rank=min_rank) if count else st.just(())


def _mixes(op: Op | Composite, kinds: list[Any]) -> bool:
    """Whether the operator takes these dtypes together, as far as its defaults tell; `arguments` asks it again."""
    try:
        if isinstance(op, Composite):
            _inferred(op, [Aval((2,) * op.samples.min_rank, kind) for kind in kinds], _defaults(op))
        else:
            op.dtype(*kinds, **_defaults(op))
    except DTypeError:
        return False
    except (TypeError, NncError):  # the rule wants a parameter that has not been drawn, or other shapes
        return True
    return True


def _defaults(op: Op | Composite) -> dict[str, Any]:
    return {name: value for name, value in op.params.items() if value is not REQUIRED}


@cache
def _taken(op: Op | Composite, count: int) -> tuple[str, ...]:
    """Of the dtypes that its samples name, those that the operator takes."""
    return tuple(d for d in op.samples.dtypes if _mixes(op, [np.dtype(d)] * count)) or op.samples.dtypes


def _dtypes(draw: Any, op: Op | Composite, count: int, dtype: Any, differentiable: bool) -> list[np.dtype[Any]]:
    if dtype is not None:
        return [np.dtype(dtype)] * count
    taken = _taken(op, count)
    if differentiable and any(np.dtype(d).kind in "fc" for d in taken):
        return [np.dtype(draw(st.sampled_from([d for d in PRECISE if d in taken] or PRECISE[:1])))] * count
    one = st.sampled_from(taken)
    if count > 1 and not draw(st.integers(0, 3)):  # a quarter of the time
        return [np.dtype(draw(one)) for _ in range(count)]
    return [np.dtype(draw(one))] * count


def _apart(given: list[np.ndarray]) -> bool:
    """Whether broadcast elements of different arguments differ: at a tie there is no derivative."""
    floats = [x for x in given if x.dtype.kind == "f"]
    return all(bool(np.all(np.abs(a - b) >= MARGIN / 2)) for i, a in enumerate(floats) for b in floats[:i])


@st.composite
def _from_cases(draw: Any, op: Op | Composite, dtype: Any, differentiable: bool) -> Arguments:
    specs, params = draw(st.sampled_from(_cases(op, dtype, differentiable)))
    samples = op.samples
    given = []
    for i, (shape, kind, domain) in enumerate(specs):
        given.append(
            draw(arrays(shape, kind, domain or _domain(samples, i), avoid=samples.avoid, distinct=samples.distinct))
        )
    if samples.distinct:
        floats = [x.reshape(-1) for x in given if x.dtype.kind == "f"]
        assume(len(np.unique(np.concatenate(floats))) == sum(map(len, floats)) if floats else True)
    return given, dict(params)


@cache
def _cases(op: Op | Composite, dtype: Any, differentiable: bool) -> list[tuple[list[Any], dict[str, Any]]]:
    """The facet's cases, written out, that have the wanted dtype; all of them if none has it."""
    written = []
    for specs, params in op.samples.cases:
        written += _written(specs, params, op.samples.dtypes, dtype, differentiable)
    written = [c for c in written if _takes(op, c)] or written
    wanted = np.dtype(dtype) if dtype is not None and not differentiable else None
    kept = [c for c in written if _only(c[0], wanted, differentiable)]
    return kept or written


def _takes(op: Op | Composite, case: tuple[list[Any], dict[str, Any]]) -> bool:
    specs, params = case
    if isinstance(op, Composite):
        return _infers(op, [Aval(shape, kind) for shape, kind, _ in specs], params)
    try:
        op.dtype(*(kind for _, kind, _ in specs), **dict(op.canonical(params)))
    except DTypeError:
        return False
    return True


def _written(
    specs: Any, params: dict[str, Any], dtypes: Sequence[str], dtype: Any, differentiable: bool
) -> list[tuple[list[Any], dict[str, Any]]]:
    """One case for each dtype that a bare shape may take."""
    bare = any(not _has_dtype(spec) for spec in specs)
    options = [np.dtype(d) for d in dtypes] if bare else [np.dtype("float64")]
    if bare and dtype is not None:
        options = [np.dtype(dtype)]
    if bare and differentiable:
        options = [d for d in options if d.name in PRECISE] or options
    return [([_spec(spec, each) for spec in specs], params) for each in options]


def _has_dtype(spec: Any) -> bool:
    return len(spec) > 1 and isinstance(spec[0], tuple)


def _spec(spec: Any, dtype: np.dtype[Any]) -> tuple[Shape, np.dtype[Any], Any]:
    if not _has_dtype(spec):
        return spec, dtype, None
    return spec[0], np.dtype(spec[1]), spec[2] if len(spec) > 2 else None


def _only(specs: list[Any], wanted: np.dtype[Any] | None, differentiable: bool) -> bool:
    """Whether the open dtypes of a case are wanted: of floats the precise ones for derivatives, else one argument's."""
    if differentiable:
        floats = {kind.name for _, kind, _ in specs if kind.kind in "fc"}
        return bool(floats) and floats <= set(PRECISE)
    return wanted is None or any(kind == wanted for _, kind, _ in specs)
