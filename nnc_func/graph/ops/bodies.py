"""What a fused operator asks of its body: which operators may stand in it, dtypes, shapes, cost; one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.body import Application, Body, bodies_of
from nnc_func.declaration import Items
from nnc_func.device.kernels.move import dtype_of
from nnc_func.device.shared.kernel_choice import fresh
from nnc_func.device.shared.namespace import choose
from nnc_func.errors import DeviceError, OperatorError, ShapeError
from nnc_func.facets import shapes
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.views import Cost
from nnc_func.graph.ops import reduce
from nnc_func.graph.ops.bitwise import bit_cast
from nnc_func.graph.ops.unary import cast
from nnc_func.memo import cached_by_body
from nnc_func.op import Op

Pattern = tuple[bool, ...]  # along which axes of all that is computed a value has elements of its own
GATHERED = {reduce.sum_: np.add, reduce.mean: np.add, reduce.max_: np.maximum, reduce.min_: np.minimum}
"""Reductions that are gathered block after block, and by which functions."""
REDUCTIONS = frozenset({*GATHERED, reduce.prod, reduce.any_, reduce.all_})
ELEMENTWISE = frozenset({cast, bit_cast})  # whose shape rule does not say so


# --- which operators -------------------------------------------------------------------------------------


def is_reduction(op: Op) -> bool:
    """Whether it is a reduction that a group may end with."""
    return op in REDUCTIONS


def is_fusible(op: Op) -> bool:
    """Whether an operator may stand in the body of a fused one: elementwise or a reduction, pure, of one result.

    An operator is declared elementwise by its shape rule, `shapes.broadcast`.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> is_fusible(CATALOGUE["tanh"]), is_fusible(CATALOGUE["matmul"])
    (True, False)
    """
    if not op.pure or op.multi_result or op.view is not None or op.holds_body:
        return False
    return op.shape is shapes.broadcast or op in ELEMENTWISE or is_reduction(op)


@cached_by_body(4096)
def check_fusible(body: Body, name: str, given: int) -> None:
    """Raise OperatorError unless a fused operator of that name, of so many operands, can have this body.

    Raises
    ------
    OperatorError
        It has no application, or other parameters than there are operands; an operator that is neither elementwise nor
        a reduction.
    """
    if body.parameters != given:
        raise OperatorError(f"{name} has {given} operands for a body of {body.parameters} parameters: {body}")
    if not body.applications:
        raise OperatorError(f"{name} needs an operator at least in its body, given {body}")
    for each in body.applications:
        if not is_fusible(each.op):
            raise OperatorError(
                f"{each.op.name} cannot stand in the body of {name}: it takes elementwise operators and reductions, "
                "of one result"
            )


def check_one_result(body: Body, name: str) -> None:
    """Raise OperatorError unless the result of the last application is the body's one result."""
    if body.results != (body.parameters + len(body.applications) - 1,):
        raise OperatorError(f"{name} has one result, that of the last operator in its body, given {body}")


def check_computes(body: Body, name: str, effects: bool = False) -> None:
    """Raise OperatorError if an operator in a body, or in one within it, does more than compute; with `effects` they
    may have effects, which tokens put in order.
    """
    for op in () if body.is_pure else body.operators:
        if not op.pure and not (effects and op.effect):
            raise OperatorError(f"{op.name} cannot stand in the body of {name}: it does more than compute")


def over_blocks(op: Op, items: Items, rank: int) -> int:
    """Of a reduction over the first axes, how many these are: it is gathered block after block; else 0."""
    axes = shapes.normalise_axes(dict(items)["axis"], rank) if op in GATHERED else ()
    return len(axes) if axes == tuple(range(len(axes))) and len(axes) < rank else 0


def block_kernel(op: Op, dtypes: tuple[Any, ...], items: Items = ()) -> Kernel | None:
    """The kernel of NumPy's that computes an operator in blocks; None if that cannot be done."""
    if not is_fusible(op) or op.variadic:
        return None
    reduces = is_reduction(op)
    avals = tuple(Aval((1,) if reduces else (4,), d) for d in dtypes)
    try:
        found = choose(op, avals, dict(items), "numpy")
    except DeviceError:
        return None
    if not found.infallible or (found.ufunc is None and found.into is None):
        return None
    if found.scratch is not None and any(shape != (4,) for shape, _ in found.scratch(avals, **dict(items))):
        return None
    if reduces and dtypes[0].kind in "fc" and op.dtype(*dtypes, **dict(items)) != dtypes[0]:
        return None
    return found


def are_in_blocks(avals: tuple[Any, ...], *, body: Body, **_: Any) -> bool:
    """Whether NumPy's kernels compute each operator of a body on arguments of these avals in blocks."""
    return _are_in_blocks(body, tuple([a.dtype for a in avals]))


@cached_by_body(4096)
def _are_in_blocks(body: Body, given: tuple[Any, ...]) -> bool:
    found = dtypes_in(body, given)
    return all(
        block_kernel(a.op, tuple([found[i] for i in a.operands]), a.items) is not None for a in body.applications
    )


# --- of all values ---------------------------------------------------------------------------------------


@cached_by_body(4096)
def dtypes_in(body: Body, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Dtypes of all values of a body, by those of its parameters."""
    return tuple(body.values(lambda op, dtypes, items: op.dtype(*dtypes, **dict(items)), given))


def shapes_in(body: Body, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shapes of all values of a body, by those of its parameters."""
    if body.symbols or any(type(extent) is not int for shape in given for extent in shape):
        return _shapes_in(body, given)  # what is taken to be equal there is noted each time
    return _known_shapes_in(body, given)


def _shapes_in(body: Body, given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(body.values(lambda op, each, items: op.shape(*each, **dict(items)), given))


_known_shapes_in = cached_by_body(4096)(_shapes_in)


def flops_of(body: Body, args: tuple[Any, ...]) -> Any:
    """Arithmetic of a body on arguments of these avals."""
    total: Any = 0

    def applied(op: Op, avals: list[Aval], items: Items) -> Any:
        nonlocal total
        params = dict(items)
        shape, dtype = op.shape(*(a.shape for a in avals), **params), op.dtype(*(a.dtype for a in avals), **params)
        found = tuple(map(Aval, shape, dtype)) if op.multi_result else (Aval(shape, dtype),)
        total += op.cost(tuple(avals), found, **params).flops
        return found if op.multi_result else found[0]

    body.values(applied, [Aval(a.shape, a.dtype) for a in args])
    return total


def depends_on_values(items: Items) -> bool:
    """Whether what a loop or a branch computes depends on values, or that of one within it does."""
    params = dict(items)
    return bool(
        params.get("counted") or params.get("conditional") or "bodies" in params
        or any(depends_on_values(each.items) for body in bodies_of(items) for each in body.applications)
    )  # fmt: skip


def cost_of(args: tuple[Any, ...], results: tuple[Any, ...], *, body: Body, **_: Any) -> Cost:
    """Arithmetic of a body; what goes to memory are arguments and results."""
    return Cost(flops_of(body, args))


def one_by_one(xp: Any, xs: Any, body: Body) -> list[Any]:
    """One operator after another, in any namespace: all values of the body."""
    return body.values(lambda op, arrays, items: fresh(xp, op.kernels[-1], items)(*arrays), xs)


@cached_by_body(4096)
def functions_of(body: Body, given: tuple[Aval, ...], xp: Any) -> tuple[tuple[Any, ...], tuple[Aval, ...]]:
    """The kernels that a namespace runs for a body, as functions of arrays that give new ones; and avals of all values.

    Parameters
    ----------
    given
        Avals of the parameters.
    """
    kernels, found = kernels_of(body, given, xp)
    return tuple([fresh(xp, k, each.items) for k, each in zip(kernels, body.applications, strict=True)]), found


def kernels_of(body: Body, given: tuple[Aval, ...], xp: Any) -> tuple[tuple[Kernel, ...], tuple[Aval, ...]]:
    """The kernels that a namespace runs for a body, one for each application; and avals of all values."""
    kernels: list[Kernel] = []

    def chosen(op: Op, avals: list[Aval], items: Items) -> Any:
        params = dict(items)
        shape, dtype = op.shape(*(a.shape for a in avals), **params), op.dtype(*(a.dtype for a in avals), **params)
        kernels.append(choose(op, tuple(avals), params, xp.__name__))
        return [*map(Aval, shape, dtype)] if op.multi_result else Aval(shape, dtype)

    found = body.values(chosen, given)
    return tuple(kernels), tuple(found)


def computed(body: Body, arrays: Sequence[Any], xp: Any) -> list[Any]:
    """Results of a body by the kernels that a namespace runs, one after another: each an array of its own.

    Examples
    --------
    >>> import numpy as np
    >>> one, other = computed(Body(1, [], (0, 0)), [np.zeros(2)], np)
    >>> np.shares_memory(one, other)
    False
    """
    functions, _ = functions_of(body, tuple([Aval(a.shape, dtype_of(a)) for a in arrays]), xp)
    calls, found = iter(functions), list[Any]()
    values = body.values(lambda op, xs, items: next(calls)(*xs), arrays)
    made = [op for each in body.applications for op in (each.op,) * each.count]
    shared = {i for i in range(len(values)) if i < body.parameters or made[i - body.parameters].view is not None}
    for i in body.results:
        found.append(xp.asarray(values[i], copy=True) if i in shared else values[i])
        shared.add(i)
    return found


def check_readable(body: Body) -> None:
    """Refuse an operator that reads what a block does not have: a reduction over blocks, or one that has lost its axes.

    Raises
    ------
    ShapeError
        There is one; names it.
    """
    for each in body.applications:
        for i in each.operands:
            if i < body.parameters:
                continue
            read: Application = body.applications[i - body.parameters]
            if is_reduction(read.op) and not read.params["keepdims"]:
                raise ShapeError(f"blockwise: {each.op.name} reads a {read.op.name} without keepdims=True")
