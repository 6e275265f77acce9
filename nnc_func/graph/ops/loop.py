"""The loop: a body that is computed time after time, which carries values from one time to the next."""

from __future__ import annotations

from typing import Any

from nnc_func.aval import Aval
from nnc_func.body import Body, bodies_of
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.derivatives import OfBodies
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.kernels import reference
from nnc_func.facets.onnx import control
from nnc_func.facets.samples import Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.binary import add, multiply
from nnc_func.graph.ops.bodies import check_computes, depends_on_values, dtypes_in, flops_of, shapes_in
from nnc_func.graph.ops.compare import less
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.families import Extent, Policy, Tensor
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.loop_derivative import linearized_loop, tangent_of_loop
from nnc_func.graph.ops.loop_interpretation import interpreted
from nnc_func.graph.ops.loop_schedules import check
from nnc_func.graph.ops.transcendental import tanh
from nnc_func.memo import cached_by_body
from nnc_func.op import operator

DEEPEST = 12  # loops inside each other
ESTIMATE = 16  # times that a loop is taken to go which nothing bounds, where costs are compared


def parts(given: int, body: Body, constants: int, carries: int, counted: bool = False) -> tuple[slice, slice, slice]:
    """Where constants, carries and what is sliced stand among `given` operands.

    Raises
    ------
    OperatorError
        The body has other parameters than there are operands, too few results, or cannot stand in a loop.
    """
    given -= counted
    if constants < 0 or carries < 0 or constants + carries > given:
        raise OperatorError(f"loop has {constants} constants and {carries} carries among {given} operands")
    if body.parameters != given:
        raise OperatorError(f"loop has {given} operands for a body of {body.parameters} parameters: {body}")
    if not body.results:
        raise OperatorError(f"loop gives what its body gives, which is nothing: {body}")
    if len(body.results) < carries:
        raise OperatorError(f"loop carries {carries} values, and its body has {len(body.results)} results: {body}")
    check_computes(body, "a loop", effects=True)
    _check_depth(body)
    first = constants + carries
    return slice(0, constants), slice(constants, first), slice(first, given)


@cached_by_body(4096)
def _check_depth(body: Body) -> None:
    """Raise OperatorError where a body has loops in loops in loops, deeper than plans of them are read."""
    inside = {body}
    for _ in range(DEEPEST):
        holders = [made for one in inside for made in one.applications if made.op.holds_body]
        if not any(made.op is loop for made in holders):
            return
        inside = {each for made in holders for each in bodies_of(made.items)}
    raise OperatorError(f"loops are nested at most {DEEPEST} deep, given one with more in its body")


def _shape(
    *given: ShapeT, body: Body, constants: int, carries: int, length: int | None, reverse: bool, counted: bool,
    conditional: bool, checkpoint: Any,
) -> tuple[ShapeT, ...]:  # fmt: skip
    at, carried, sliced = parts(len(given), body, constants, carries, counted)
    check(checkpoint)
    count: Any = length
    for shape in given[sliced]:
        if not shape:
            raise ShapeError("loop slices its last operands along their first axis; one of them has no axis")
        if count is None:
            count = shape[0]
        elif not same_extent(count, shape[0]):
            raise ShapeError(f"loop goes {count} times, but the first axis of an operand has extent {shape[0]}")
    if counted and given[-1] != ():
        raise ShapeError(f"the number of times of a loop has no axes, given shape {given[-1]}")
    if conditional and (not carries or given[carried][0] != ()):
        raise ShapeError("the first carry of a conditional loop is one truth value, without axes")
    if count is None and not (counted or conditional):
        raise OperatorError("loop slices no operand, so it wants length=, the number of times")
    if count is None and len(body.results) > carries:
        raise OperatorError("loop stacks what its body gives, so it wants length=, how many times it goes at most")
    if conditional and reverse:
        raise OperatorError("a conditional loop goes forward: where it ends is not known when it begins")
    if count is not None and known(count) and count < 0:
        raise ShapeError(f"loop goes {count} times; that is not negative")
    found = shapes_in(body, (*given[at], *given[carried], *[shape[1:] for shape in given[sliced]]))
    after = [found[i] for i in body.results]
    for n, (was, now) in enumerate(zip(given[carried], after, strict=False)):
        if len(was) != len(now) or not all(map(same_extent, was, now)):
            raise ShapeError(f"a carry keeps its shape: carry {n} of the loop is {was}, and {now} after the body")
    return (*given[carried], *[(count, *shape) for shape in after[carries:]])


def _dtype(
    *given: Any, body: Body, constants: int, carries: int, counted: bool, conditional: bool, **rest: Any
) -> tuple[Any, ...]:
    _, carried, _ = parts(len(given), body, constants, carries, counted)
    if counted and given[-1].kind != "i":
        raise DTypeError(f"the number of times of a loop is a signed integer, given {given[-1]}")
    if conditional and carries and given[carried][0].kind != "b":
        raise DTypeError(f"the first carry of a conditional loop is a truth value, given {given[carried][0]}")
    found = dtypes_in(body, given[: len(given) - counted])
    after = tuple([found[i] for i in body.results])
    for n, (was, now) in enumerate(zip(given[carried], after, strict=False)):
        if was != now:
            raise DTypeError(f"a carry keeps its dtype: carry {n} of the loop is {was}, and {now} after the body; cast")
    return after


def avals_of(
    avals: tuple[Aval, ...], body: Body, constants: int, carries: int, counted: bool = False
) -> tuple[Aval, ...]:
    """Avals of the body's parameters, of operands of these, whatever their layouts."""
    _, _, sliced = parts(len(avals), body, constants, carries, counted)
    given = avals[: sliced.stop]
    shapes = [*(a.shape for a in given[: sliced.start]), *(a.shape[1:] for a in given[sliced])]
    return tuple([Aval(shape, a.dtype, None, a.place) for shape, a in zip(shapes, given, strict=True)])


def steps_of(avals: tuple[Aval, ...], constants: int, carries: int, length: int | None, counted: bool = False) -> Any:
    """How many times a loop over operands of these avals goes at most; None: nothing bounds it."""
    if length is not None:
        return length
    first = constants + carries
    return avals[first].shape[0] if first < len(avals) - counted else None


def _cost(
    args: tuple[Any, ...], results: tuple[Any, ...], *, body: Body, constants: int, carries: int, length: int | None,
    counted: bool, conditional: bool, **_: Any,
) -> Cost:  # fmt: skip
    steps = steps_of(args, constants, carries, length, counted)
    once = flops_of(body, avals_of(args, body, constants, carries, counted))
    known_before = not depends_on_values((("body", body), ("counted", counted), ("conditional", conditional)))
    return Cost((ESTIMATE if steps is None else steps) * once, is_estimate=not known_before)


CELL = Body.of(4, (matmul, 2, 0), (matmul, 3, 1), (add, 4, 5), (tanh, 6), results=(7, 7))
FIBONACCI = Body.of(2, (add, 0, 1), results=(1, 2, 2))
SWAPPED = Body.of(3, (multiply, 0, 2), results=(1, 0, 3))
GROWING = Body.of(
    3, (add, 1, 2), (full, {"shape": (), "value": 1.0, "dtype": "float64"}), (less, 3, 4), results=(5, 3, 2, 3)
)


def _cases(dtype: str) -> Any:
    for given, body, params in (
        (((3, 3), (4, 3), (2, 3), (5, 2, 4)), CELL, {"constants": 2, "carries": 1}),
        (((3, 3), (4, 3), (2, 3), (5, 2, 4)), CELL, {"constants": 2, "carries": 1, "reverse": True}),
        (((3,), (3,)), FIBONACCI, {"carries": 2, "length": 4}),
        (((2,), (2,), (0, 2)), SWAPPED, {"carries": 2}),
        (((2,), (2,), (3, 2)), SWAPPED, {"carries": 2}),
        (((2,), (2,), (3, 2)), SWAPPED, {"carries": 2, "reverse": True}),
    ):
        yield tuple((shape, dtype, (-1.0, 1.0)) for shape in given), {"body": body, **params}
    several = (((2,), dtype, (-1.0, 1.0)), ((2,), dtype, (-1.0, 1.0)), ((5, 2), dtype, (-1.0, 1.0)))
    for reverse in (False, True):
        yield (*several, ((), "int64", (-1, 7))), {"body": SWAPPED, "carries": 2, "counted": True, "reverse": reverse}
    yield (((), "bool"), ((), dtype, (-1.0, 1.0)), ((), dtype, (0.1, 1.0))), {
        "body": GROWING, "constants": 0, "carries": 3, "length": 6, "conditional": True,
    }  # fmt: skip


@operator(
    shape=_shape,
    dtype=_dtype,
    multi_result=True,
    kernels=(reference(interpreted, name="interpreted", applies=True),),
    derivative=OfBodies(tangent_of_loop, linearized_loop),
    cost=_cost,
    onnx=control.loop,
    samples=Samples(relation="cases", cases=tuple(case for dtype in ("float32", "float64") for case in _cases(dtype))),
)
def loop(
    *xs: Tensor, body: Body, constants: int = 0, carries: int = 0, length: Extent | None = None, reverse: bool = False,
    counted: bool = False, conditional: bool = False, checkpoint: Policy = "",
) -> Tensor:  # fmt: skip
    """What a body carries through time after time, and what it gives each time, side by side along a new first axis.

    The operands are `constants` that are the same each time, then `carries`, the first ones, then tensors of which each
    time takes the next slice along the first axis. The body has a parameter for each, in that order, the slices without
    that axis; its results are the next carries, then what is stacked. `length` says how many times, where nothing is
    sliced. A carry keeps its shape and dtype.

    With `reverse` the last slice is taken first; what is stacked stands where its slice stood. With `counted` one more
    operand, the last one, is the number of times, at most `length`: a signed integer. With `conditional` the first
    carry is a truth value, and the loop ends before the first time that it is false. The rows of times that did not
    happen are zeros.

    `checkpoint` says what its derivative keeps: "", what it reads of each time, or, where nothing bounds the loop, 100
    carries, from which it computes the others again; "sqrt", what is carried into about √n times, and what it reads of
    about √n times; a number, so many carries at most; "budget:" and a number of bytes, the first of these that fits.
    Under these two, and "carries", products of slices are not computed for all times at once where their rows want more
    than that; "rows:" and a number of bytes says it alone, of a loop that belongs to the derivative of another one. Or
    a policy (`loop_policies`): a function of an application that says whether its results are kept, besides what is
    carried into each time, or the name of one: "carries", none; "products"; "costly", all but what is elementwise.
    """
