"""The counted loop: a body that is computed so many times, which carries values from one time to the next."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from nnc_func.aval import Aval
from nnc_func.body import Body, bodies_of
from nnc_func.device.kernels.move import dtype_in, dtype_of
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.kernels import reference
from nnc_func.facets.samples import Refused, Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.binary import add, multiply
from nnc_func.graph.ops.bodies import check_computes, dtypes_in, flops_of, functions_of, shapes_in
from nnc_func.graph.ops.families import Tensor
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.transcendental import tanh
from nnc_func.op import operator

DEEPEST = 8  # loops inside each other


def parts(given: int, body: Body, constants: int, carries: int) -> tuple[slice, slice, slice]:
    """Where constants, carries and what is sliced stand among `given` operands.

    Raises
    ------
    OperatorError
        The body has other parameters than there are operands, too few results, or cannot stand in a loop.
    """
    if constants < 0 or carries < 0 or constants + carries > given:
        raise OperatorError(f"loop has {constants} constants and {carries} carries among {given} operands")
    if body.parameters != given:
        raise OperatorError(f"loop has {given} operands for a body of {body.parameters} parameters: {body}")
    if not body.results:
        raise OperatorError(f"loop gives what its body gives, which is nothing: {body}")
    if len(body.results) < carries:
        raise OperatorError(f"loop carries {carries} values, and its body has {len(body.results)} results: {body}")
    check_computes(body, "a loop")
    _check_depth(body)
    first = constants + carries
    return slice(0, constants), slice(constants, first), slice(first, given)


@lru_cache(4096)
def _check_depth(body: Body) -> None:
    """Raise OperatorError where a body has loops in loops in loops, deeper than plans of them are read."""
    inside = {body}
    for _ in range(DEEPEST):
        loops = [made for one in inside for made in one.applications if made.op is loop]
        inside = {each for made in loops for each in bodies_of(made.items)}
        if not inside:
            return
    raise OperatorError(f"loops are nested at most {DEEPEST} deep, given one with more in its body")


def _shape(*given: ShapeT, body: Body, constants: int, carries: int, length: int | None) -> tuple[ShapeT, ...]:
    at, carried, sliced = parts(len(given), body, constants, carries)
    count: Any = length
    for shape in given[sliced]:
        if not shape:
            raise ShapeError("loop slices its last operands along their first axis; one of them has no axis")
        if count is None:
            count = shape[0]
        elif not same_extent(count, shape[0]):
            raise ShapeError(f"loop goes {count} times, but the first axis of an operand has extent {shape[0]}")
    if count is None:
        raise OperatorError("loop slices no operand, so it wants length=, the number of times")
    if known(count) and count < 0:
        raise ShapeError(f"loop goes {count} times; that is not negative")
    found = shapes_in(body, (*given[at], *given[carried], *[shape[1:] for shape in given[sliced]]))
    after = [found[i] for i in body.results]
    for n, (was, now) in enumerate(zip(given[carried], after, strict=False)):
        if len(was) != len(now) or not all(map(same_extent, was, now)):
            raise ShapeError(f"a carry keeps its shape: carry {n} of the loop is {was}, and {now} after the body")
    return (*given[carried], *[(count, *shape) for shape in after[carries:]])


def _dtype(*given: Any, body: Body, constants: int, carries: int, length: int | None) -> tuple[Any, ...]:
    _, carried, _ = parts(len(given), body, constants, carries)
    found = dtypes_in(body, given)
    after = tuple([found[i] for i in body.results])
    for n, (was, now) in enumerate(zip(given[carried], after, strict=False)):
        if was != now:
            raise DTypeError(f"a carry keeps its dtype: carry {n} of the loop is {was}, and {now} after the body; cast")
    return after


def avals_of(avals: tuple[Aval, ...], body: Body, constants: int, carries: int) -> tuple[Aval, ...]:
    """Avals of the body's parameters, of operands of these, whatever their layouts."""
    _, _, sliced = parts(len(avals), body, constants, carries)
    shapes = [*(a.shape for a in avals[: sliced.start]), *(a.shape[1:] for a in avals[sliced])]
    return tuple([Aval(shape, a.dtype, None, a.place) for shape, a in zip(shapes, avals, strict=True)])


def steps_of(avals: tuple[Aval, ...], constants: int, carries: int, length: int | None) -> Any:
    """How many times a loop over operands of these avals goes."""
    return length if length is not None else avals[constants + carries].shape[0]


def _interpreted(
    xp: Any, *arrays: Any, body: Body, constants: int, carries: int, length: int | None
) -> tuple[Any, ...]:
    """The operators one after another, time after time, by the kernels that the namespace runs alone."""
    at, carried, sliced = parts(len(arrays), body, constants, carries)
    avals = tuple([Aval(a.shape, dtype_of(a)) for a in arrays])
    count = steps_of(avals, constants, carries, length)
    functions, found = functions_of(body, avals_of(avals, body, constants, carries), xp)

    def through(given: list[Any]) -> list[Any]:
        calls = iter(functions)
        found = body.values(lambda op, xs, items: next(calls)(*xs), given)
        return [found[i] for i in body.results]

    stacked = [found[i] for i in body.results[carries:]]
    carry, rows = [*arrays[carried]], list[list[Any]]()
    for i in range(count):
        after = through([*arrays[at], *carry, *[x[i, ...] for x in arrays[sliced]]])
        carry = after[:carries]
        if stacked:
            rows.append(after[carries:])
    empty = [xp.empty((0, *aval.shape), dtype=dtype_in(xp, aval.dtype)) for aval in stacked]
    ys = [xp.stack(column) for column in zip(*rows, strict=True)] if rows else empty
    return (*[xp.asarray(x, copy=True) for x in carry], *ys)


def _cost(
    args: tuple[Any, ...], results: tuple[Any, ...], *, body: Body, constants: int, carries: int, length: int | None
) -> Cost:
    return Cost(steps_of(args, constants, carries, length) * flops_of(body, avals_of(args, body, constants, carries)))


CELL = Body.of(4, (matmul, 2, 0), (matmul, 3, 1), (add, 4, 5), (tanh, 6), results=(7, 7))
FIBONACCI = Body.of(2, (add, 0, 1), results=(1, 2, 2))
SWAPPED = Body.of(3, (multiply, 0, 2), results=(1, 0, 3))


@operator(
    shape=_shape,
    dtype=_dtype,
    multi_result=True,
    kernels=(reference(_interpreted, name="interpreted", applies=True),),
    derivative=NOT_DIFFERENTIABLE("a loop is differentiated step by step: write its steps out with `stack.scan`"),
    cost=_cost,
    onnx=Refused("loops are not exported yet: write the steps out with `stack.scan`"),
    samples=Samples(
        relation="cases",
        cases=tuple(
            (tuple((shape, dtype, (-1.0, 1.0)) for shape in given), {"body": body, **params})
            for given, body, params in (
                (((3, 3), (4, 3), (2, 3), (5, 2, 4)), CELL, {"constants": 2, "carries": 1}),
                (((3,), (3,)), FIBONACCI, {"carries": 2, "length": 4}),
                (((2,), (2,), (0, 2)), SWAPPED, {"carries": 2}),
                (((2,), (2,), (3, 2)), SWAPPED, {"carries": 2}),
            )
            for dtype in ("float32", "float64")
        ),
    ),
)
def loop(*xs: Tensor, body: Body, constants: int = 0, carries: int = 0, length: int | None = None) -> Tensor:
    """What a body carries through so many times, and what it gives each time, side by side along a new first axis.

    The operands are `constants` that are the same each time, then `carries`, the first ones, then tensors of which each
    time takes the next slice along the first axis. The body has a parameter for each, in that order, the slices without
    that axis; its results are the next carries, then what is stacked. `length` says how many times, where nothing is
    sliced. A carry keeps its shape and dtype.
    """
