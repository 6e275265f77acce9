"""Operators that rewriting introduces: a mask without branches, and groups of operators computed block by block.

A block stays in the caches from the first step to the last, so memory is read once and written once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.body import Body
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets import layouts, lowering, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE, Linear
from nnc_func.facets.kernels import ALL, Kernel, reference
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.onnx import fused as onnx_fused
from nnc_func.facets.samples import ANY, EXACT, Samples
from nnc_func.graph.ops import in_blocks
from nnc_func.graph.ops.activations import relu
from nnc_func.graph.ops.binary import add, divide, multiply, subtract, where
from nnc_func.graph.ops.bodies import (
    are_in_blocks,
    check_fusible,
    check_one_result,
    check_readable,
    cost_of,
    dtypes_in,
    is_reduction,
    one_by_one,
    over_blocks,
    shapes_in,
)
from nnc_func.graph.ops.compare import greater
from nnc_func.graph.ops.families import Tensor, elementwise, in_steps
from nnc_func.graph.ops.library_chains import LIBRARY_CHAINS
from nnc_func.graph.ops.library_norms import LIBRARY_NORMALISATION
from nnc_func.graph.ops.reduce import SUMMED, max_, mean, sum_
from nnc_func.graph.ops.transcendental import exp
from nnc_func.graph.ops.unary import cast, clip, sqrt
from nnc_func.memo import cached_by_body
from nnc_func.op import operator

MADE_LATE = NOT_DIFFERENTIABLE("it is made after derivatives have been taken: differentiate what it was made of")
NUMPY = frozenset({"numpy"})


# --- masks -----------------------------------------------------------------------------------------------


def _masked_dtype(x: Any, condition: Any) -> Any:
    if condition.kind != "b":
        raise DTypeError(f"masked wants a condition of booleans, given {condition.name}")
    return x


def _masked(xp: Any, x: Any, condition: Any) -> Any:
    return xp.where(condition, x, xp.zeros_like(x))


def _masked_bits(avals: Any, **_: Any) -> bool:
    return bool(avals[0].dtype.itemsize <= 8)


def _masked_into(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
    """Bits times one or zero: no branch to mispredict, many times faster than a masked copy."""
    (x, condition), (out,) = arrays, outs
    if xp is np and not out.ndim:
        out[()] = x if condition else 0
        return
    if x.dtype.kind == "b":
        xp.logical_and(x, condition, out)
        return
    bits = f"i{x.dtype.itemsize}"
    xp.multiply(x.view(bits), condition, out.view(bits))


@elementwise(
    Linear(lambda o, g, x, condition: o.sum_to(o.where(condition, g, 0), x.shape), arguments=(0,)),
    dtype=_masked_dtype,
    kernel=(
        in_steps(_masked_into, dtype=_masked_dtype, name="bits", accepts=_masked_bits, overwrites=ALL),
        reference(_masked, infallible=True),
    ),
    onnx=onnx_elementwise.masked, tolerance=EXACT,
    samples=Samples(relation="cases", cases=tuple(
        (((x, dtype), (condition, "bool")), {})
        for x, condition in (((2, 3), (2, 3)), ((3,), (2, 1)), ((), ()), ((0, 2), (2,)))
        for dtype in ANY
    )),
    data_movement=True,
    lowering=lowering.Expression(lowering.masked),
)  # fmt: skip
def masked(x: Tensor, condition: Tensor, /) -> Tensor:
    """`x` where the condition is true, and zero elsewhere, whatever stands in `x` there."""


# --- one result ------------------------------------------------------------------------------------------


def _computed(xp: Any, arrays: Any, outs: Any, body: Body) -> Any:
    scratch = tuple(xp.empty(*each) for each in in_blocks.scratch_of(arrays, body=body))
    in_blocks.write(xp, arrays, outs, scratch, body=body)
    return outs


def _dtype(*given: Any, body: Body) -> Any:
    check_fusible(body, "blockwise", len(given))
    check_one_result(body, "blockwise")
    for each in body.applications:
        if is_reduction(each.op):
            raise OperatorError(f"blockwise computes element by element; {each.op.name} stands in a blockwise_several")
    return dtypes_in(body, given)[-1]


def _reference(xp: Any, *xs: Any, body: Body) -> Any:
    shape, found = shapes.broadcast(*(x.shape for x in xs)), one_by_one(xp, xs, body)[-1]
    return found if found.shape == shape else xp.asarray(xp.broadcast_to(found, shape), copy=True)


def _compute(xp: Any, *arrays: Any, body: Body) -> Any:
    out = xp.empty(shapes.broadcast(*(a.shape for a in arrays)), _dtype(*(a.dtype for a in arrays), body=body))
    return _computed(xp, arrays, (out,), body)[0]


ADAGRAD = Body.of(5, (sqrt, 2), (add, 5, 4), (multiply, 3, 1), (divide, 7, 6), (subtract, 0, 8))
RELU = Body.of(2, (add, 0, 1), (relu, 2))
BOUNDED = Body.of(2, (subtract, 0, 1), (clip, 2, {"min": -0.5, "max": 0.5}), (cast, 3, {"dtype": "float64"}))
CASES = tuple(
    (tuple((shape, dtype, (0.1, 3.0)) for shape in given), {"body": body})
    for given, body in (
        (((3, 4), (3, 4), (3, 4), (), ()), ADAGRAD),
        (((2, 3, 4, 5), (5,)), RELU),
        (((2, 3), (2, 1)), RELU),
        (((0, 3), (3,)), RELU),
        (((), ()), RELU),
        (((3, 2), (2,)), BOUNDED),
        (((5,), (5,)), Body.of(2, (greater, 0, 1), (where, 2, 0, 1))),
    )
    for dtype in ("float32", "float64")
)


@operator(
    shape=shapes.broadcast,
    dtype=_dtype,
    layout=layouts.common,
    kernels=(
        *LIBRARY_CHAINS,
        Kernel(
            "in blocks",
            compute=_compute,
            bound=in_blocks.bound,
            into=in_blocks.write,
            overwrites=ALL,
            scratch=in_blocks.scratch_of,
            accepts=are_in_blocks,
            namespaces=NUMPY,
            infallible=True,
            strided=True,
        ),
        reference(_reference, infallible=True),
    ),
    derivative=MADE_LATE,
    cost=cost_of,
    onnx=onnx_fused.blockwise,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=CASES),
)
def blockwise(*xs: Tensor, body: Body) -> Tensor:
    """A body of elementwise operators, computed block by block so that no intermediate goes to memory.

    The body has a parameter for each tensor; its result is that of its last operator, and has the shape to which all
    tensors broadcast. It has the bits that the operators have one by one; of bfloat16 it is rounded once, at the end.
    """


# --- several results -------------------------------------------------------------------------------------


def _shapes(*given: Any, body: Body) -> Any:
    _check(body, len(given))
    whole, found, read = shapes.broadcast(*given), shapes_in(body, given), body.last_uses()
    for n, each in enumerate(body.applications, body.parameters):
        if is_reduction(each.op):
            of = found[each.operands[0]]
            axes = shapes.normalise_axes(each.params["axis"], len(of))
            gathers = bool(over_blocks(each.op, each.items, len(whole)))
            if of != whole or not axes or (not axes[0] and (not gathers or n in read or n not in body.results)):
                raise ShapeError(
                    f"blockwise_several: {each.op.name} of {of} over the axes {axes}, where all that is computed "
                    f"has {whole}: it reduces rows of that, or it reduces all but rows of it and is a result"
                )
    return tuple(found[position] for position in body.results)


@cached_by_body(4096)
def _check(body: Body, count: int) -> None:
    check_fusible(body, "blockwise_several", count)
    results = body.results
    if not results or len(set(results)) != len(results) or min(results) < count:
        raise OperatorError(f"blockwise_several has different results, each of an operator in its body, given {body}")
    check_readable(body)


def _dtypes(*given: Any, body: Body) -> Any:
    _check(body, len(given))
    found = dtypes_in(body, given)
    return tuple(found[position] for position in body.results)


def _several_reference(xp: Any, *xs: Any, body: Body) -> Any:
    found = one_by_one(xp, xs, body)
    return tuple(found[position] for position in body.results)


def _several_compute(xp: Any, *arrays: Any, body: Body) -> Any:
    shaped = _shapes(*(a.shape for a in arrays), body=body)
    typed = _dtypes(*(a.dtype for a in arrays), body=body)
    return _computed(xp, arrays, tuple(map(xp.empty, shaped, typed)), body)


def _overwrites(count: int, *, body: Body) -> tuple[tuple[int, ...], ...]:
    """Of each result the arguments that nothing reads once it is written.

    A reduction's lie over none: it is written with a block, and other blocks read all of an argument of its shape.
    """
    last = body.last_uses()

    def over(position: int) -> tuple[int, ...]:
        if is_reduction(body.applications[position - count].op):
            return ()
        return tuple(i for i in range(count) if last.get(i, -1) <= position - count)

    return tuple(map(over, body.results))


SQUARES = Body.of(
    5, (multiply, 1, 1), (add, 2, 5), (sqrt, 6), (add, 7, 4), (multiply, 3, 1), (divide, 9, 8), (subtract, 0, 10),
    results=(6, 11),
)  # fmt: skip
SOFTMAX = Body.of(
    1, (max_, 0, {"axis": -1, "keepdims": True}), (subtract, 0, 1), (exp, 2),
    (sum_, 3, {"axis": -1, "keepdims": True}), (divide, 3, 4),
)  # fmt: skip


def _means(*results: int) -> Body:
    return Body.of(2, (multiply, 0, 1), (mean, 2, {"axis": (1, 2)}), (relu, 2), results=results)


SUMS = Body.of(
    2, (multiply, 0, 1), (sum_, 2, {"axis": (0,)}), (mean, 2, {"axis": (0, 1), "keepdims": True}), results=(2, 3, 4)
)
SEVERAL = tuple(
    (tuple((shape, dtype, (0.1, 3.0)) for shape in given), {"body": body})
    for given, body in (
        (((3, 4), (3, 4), (3, 4), (), ()), SQUARES),
        (((5, 3),), SOFTMAX),
        (((2, 3, 4, 5), (5,)), _means(3, 4)),
        (((0, 3, 1), (3, 1)), _means(4, 3)),
        (((5, 2, 3), (5, 1, 3)), SUMS),
        (((0, 3), (3,)), Body.of(2, (multiply, 0, 1), (sum_, 2, {"axis": (0,)}))),
    )
    for dtype in ("float32", "float64")
)


@operator(
    shape=_shapes,
    dtype=_dtypes,
    multi_result=True,
    kernels=(
        LIBRARY_NORMALISATION,
        Kernel(
            "in blocks",
            compute=_several_compute,
            bound=in_blocks.bound,
            into=in_blocks.write,
            overwrites=_overwrites,
            scratch=in_blocks.scratch_of,
            accepts=are_in_blocks,
            namespaces=NUMPY,
            infallible=True,
            strided=True,
        ),
        reference(_several_reference, infallible=True),
    ),
    derivative=MADE_LATE,
    cost=cost_of,
    onnx=onnx_fused.blockwise_several,
    tolerance=SUMMED,
    samples=Samples(relation="cases", cases=SEVERAL),
)
def blockwise_several(*xs: Tensor, body: Body) -> Tensor:
    """As `blockwise`, with as many results as the body has, and with reductions in it.

    A reduction is of a value that has the shape of the whole. One over axes that do not include the first is of rows:
    others may read it, with ``keepdims=True``. One over the first axes, but not over all, gathers blocks: a sum, a
    mean, a maximum or a minimum, which nothing in the body reads. All have the bits that the operators have one by one.
    """
