"""Operators that rewriting introduces: a mask without branches, and groups of operators computed block by block.

A block stays in the caches from the first step to the last, so memory is read once and written once.
"""

from __future__ import annotations

from typing import Any

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets import layouts, lowering, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE, Linear
from nnc_func.facets.kernels import ALL, Kernel, reference
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.onnx import fused as onnx_fused
from nnc_func.facets.samples import ANY, EXACT, Samples
from nnc_func.graph.ops import in_blocks
from nnc_func.graph.ops.families import Sizes, Tensor, elementwise, in_steps
from nnc_func.graph.ops.lowering import last_uses
from nnc_func.graph.ops.reduce import SUMMED
from nnc_func.graph.ops.steps import (
    Steps,
    are_in_blocks,
    check_readable,
    cost_of,
    is_reduction,
    one_by_one,
    over_blocks,
    parsed,
    step_dtypes,
    step_shapes,
)
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
    moves=True,
    lowering=lowering.Expression(lowering.masked),
)  # fmt: skip
def masked(x: Tensor, condition: Tensor, /) -> Tensor:
    """`x` where the condition is true, and zero elsewhere, whatever stands in `x` there."""


# --- one result ------------------------------------------------------------------------------------------


def _computed(xp: Any, arrays: Any, outs: Any, steps: Steps, **params: Any) -> Any:
    scratch = tuple(xp.empty(*each) for each in in_blocks.scratch_of(arrays, steps=steps, **params))
    in_blocks.write(xp, arrays, outs, scratch, steps=steps, **params)
    return outs


def _dtype(*given: Any, steps: Steps) -> Any:
    if not steps:
        raise OperatorError("blockwise needs a step at least")
    return step_dtypes(steps, given)[-1]


def _reference(xp: Any, *xs: Any, steps: Steps) -> Any:
    shape, found = shapes.broadcast(*(x.shape for x in xs)), one_by_one(xp, xs, steps)[-1]
    return found if found.shape == shape else xp.asarray(xp.broadcast_to(found, shape), copy=True)


def _compute(xp: Any, *arrays: Any, steps: Steps) -> Any:
    out = xp.empty(shapes.broadcast(*(a.shape for a in arrays)), _dtype(*(a.dtype for a in arrays), steps=steps))
    return _computed(xp, arrays, (out,), steps)[0]


ADAGRAD = (("sqrt", 2), ("add", 5, 4), ("multiply", 3, 1), ("divide", 7, 6), ("subtract", 0, 8))
RELU = (("add", 0, 1), ("relu", 2))
BOUNDED = (("subtract", 0, 1), ("clip", 2, ("min", -0.5), ("max", 0.5)), ("cast", 3, ("dtype", "float64")))
CASES = tuple(
    (tuple((shape, dtype, (0.1, 3.0)) for shape in given), {"steps": steps})
    for given, steps in (
        (((3, 4), (3, 4), (3, 4), (), ()), ADAGRAD),
        (((2, 3, 4, 5), (5,)), RELU),
        (((2, 3), (2, 1)), RELU),
        (((0, 3), (3,)), RELU),
        (((), ()), RELU),
        (((3, 2), (2,)), BOUNDED),
        (((5,), (5,)), (("greater", 0, 1), ("where", 2, 0, 1))),
    )
    for dtype in ("float32", "float64")
)


@operator(
    shape=shapes.broadcast,
    dtype=_dtype,
    layout=layouts.common,
    kernels=(
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
def blockwise(*xs: Tensor, steps: Steps) -> Tensor:
    """Elementwise operators, one after another, computed block by block so that no intermediate goes to memory.

    A step is ``(operator's name, position of an operand, ..., (parameter, value), ...)``; positions count the
    arguments, then the steps. The last step is the result, and has the shape to which all arguments broadcast. It has
    the bits that the operators have one by one.
    """


# --- several results -------------------------------------------------------------------------------------


def _shapes(*given: Any, steps: Steps, outputs: tuple[int, ...]) -> Any:
    whole, found, read = shapes.broadcast(*given), step_shapes(steps, given), last_uses(steps)
    _check(steps, len(given), outputs)
    for n, (op, at, items) in enumerate(map(parsed, steps), len(given)):
        if is_reduction(op):
            axes = shapes.normalise_axes(dict(items)["axis"], len(found[at[0]]))
            gathers = bool(over_blocks(op, items, len(whole)))
            if found[at[0]] != whole or not axes or (not axes[0] and (not gathers or n in read or n not in outputs)):
                raise ShapeError(
                    f"blockwise_several: {op.name} of {found[at[0]]} over the axes {axes}, where all that is computed "
                    f"has {whole}: it reduces rows of that, or it reduces all but rows of it and is a result"
                )
    return tuple(found[position] for position in outputs)


def _check(steps: Steps, count: int, outputs: tuple[int, ...]) -> None:
    if not outputs or len(set(outputs)) != len(outputs) or not all(count <= r < count + len(steps) for r in outputs):
        raise OperatorError(
            f"blockwise_several has {count} arguments and {len(steps)} steps: outputs are different positions from "
            f"{count} to {count + len(steps) - 1}, given {outputs}"
        )
    check_readable(steps, count)


def _dtypes(*given: Any, steps: Steps, outputs: tuple[int, ...]) -> Any:
    _check(steps, len(given), outputs)
    found = step_dtypes(steps, given)
    return tuple(found[position] for position in outputs)


def _several_reference(xp: Any, *xs: Any, steps: Steps, outputs: tuple[int, ...]) -> Any:
    found = one_by_one(xp, xs, steps)
    return tuple(found[position] for position in outputs)


def _several_compute(xp: Any, *arrays: Any, steps: Steps, outputs: tuple[int, ...]) -> Any:
    shaped = _shapes(*(a.shape for a in arrays), steps=steps, outputs=outputs)
    typed = _dtypes(*(a.dtype for a in arrays), steps=steps, outputs=outputs)
    return _computed(xp, arrays, tuple(map(xp.empty, shaped, typed)), steps, outputs=outputs)


def _overwrites(count: int, *, steps: Steps, outputs: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Of each result the arguments that no step reads once it is written.

    A reduction's lie over none: it is written with a block, and other blocks read all of an argument of its shape.
    """
    last = last_uses(steps)

    def over(position: int) -> tuple[int, ...]:
        if is_reduction(parsed(steps[position - count])[0]):
            return ()
        return tuple(i for i in range(count) if last.get(i, -1) <= position - count)

    return tuple(map(over, outputs))


SQUARES = (
    ("multiply", 1, 1), ("add", 2, 5), ("sqrt", 6), ("add", 7, 4), ("multiply", 3, 1), ("divide", 9, 8),
    ("subtract", 0, 10),
)  # fmt: skip
SOFTMAX = (
    ("max", 0, ("axis", -1), ("keepdims", True)), ("subtract", 0, 1), ("exp", 2),
    ("sum", 3, ("axis", -1), ("keepdims", True)), ("divide", 3, 4),
)  # fmt: skip
MEANS = (("multiply", 0, 1), ("mean", 2, ("axis", (1, 2))), ("relu", 2))
SUMS = (("multiply", 0, 1), ("sum", 2, ("axis", (0,))), ("mean", 2, ("axis", (0, 1)), ("keepdims", True)))
SEVERAL = tuple(
    (tuple((shape, dtype, (0.1, 3.0)) for shape in given), {"steps": steps, "outputs": outputs})
    for given, steps, outputs in (
        (((3, 4), (3, 4), (3, 4), (), ()), SQUARES, (6, 11)),
        (((5, 3),), SOFTMAX, (5,)),
        (((2, 3, 4, 5), (5,)), MEANS, (3, 4)),
        (((0, 3, 1), (3, 1)), MEANS, (4, 3)),
        (((5, 2, 3), (5, 1, 3)), SUMS, (2, 3, 4)),
        (((0, 3), (3,)), SUMS[:2], (3,)),
    )
    for dtype in ("float32", "float64")
)


@operator(
    shape=_shapes,
    dtype=_dtypes,
    several=True,
    kernels=(
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
def blockwise_several(*xs: Tensor, steps: Steps, outputs: Sizes) -> Tensor:
    """As `blockwise`, with the results that are named by their positions, and with reductions among the steps.

    A reduction is of a value that has the shape of the whole. One over axes that do not include the first is of rows:
    later steps may read it, with ``keepdims=True``. One over the first axes, but not over all, gathers blocks: a sum, a
    mean, a maximum or a minimum, which no step reads. All have the bits that the operators have one by one.
    """
