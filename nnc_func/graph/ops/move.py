"""Movement: other shapes, other orders, joins and parts. What can be a view of its argument is one."""

from __future__ import annotations

from functools import partial
from typing import Any

from nnc_func.device.kernels import move as kernels
from nnc_func.device.kernels.move import NUMPY
from nnc_func.errors import OperatorError
from nnc_func.facets import boxes, dtypes, layouts, lowering, movement, shapes
from nnc_func.facets.boxes import Box
from nnc_func.facets.derivatives import Custom, Linear
from nnc_func.facets.dims import product
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.laws import involution, keeps_nonnegative, odd
from nnc_func.facets.onnx import movement as onnx_movement
from nnc_func.facets.samples import ANY, EXACT, NUMBERS, Samples
from nnc_func.facets.views import Parts, View, free
from nnc_func.graph.ops.families import Axes, Decorator, Nested, Sizes, Tensor, holding, number
from nnc_func.op import operator

WHOLE = View(contiguous=True)


def movement_of(
    shape: Any,
    derivative: Any,
    *,
    kernels: Any,
    params: Any = None,
    dtype: Any = dtypes.first,
    min_rank: int = 0,
    **facets: Any,
) -> Decorator:
    """An operator without arithmetic: exact on every device."""
    laws = (odd, keeps_nonnegative)
    facets = {"samples": Samples(dtypes=ANY, params=params, min_rank=min_rank), "laws": laws, **facets}
    return operator(
        shape=shape,
        dtype=dtype,
        derivative=derivative,
        kernels=kernels,
        cost=free,
        tolerance=EXACT,
        data_movement=True,
        **facets,
    )


def view(compute: Any, into: Any = None) -> Kernel:
    """The kernel of a view."""
    return Kernel("view", compute=compute, into=into, infallible=True)


def copy(compute: Any, into: Any, plain: Any = None) -> tuple[Kernel, ...]:
    """A kernel for NumPy and CuPy with `into`, and the reference."""
    return (
        Kernel("copies", compute=plain or compute, into=into, namespaces=NUMPY, infallible=True, strided=True),
        reference(compute, infallible=True),
    )


# --- views ------------------------------------------------------------------------------------------------


def _some_shape(shapes_: Any, draw: Any) -> dict[str, Any]:
    (x,) = shapes_
    size = product(x)
    options = [x, (size,), (1, size), (size, 1, 1), x[::-1], (1, *x)]
    return {"shape": draw(options + ([(-1,), (*x, -1)] if size else []))}


@movement_of(
    shapes.reshaped,
    Linear(lambda o, g, x, *, shape: o.reshape(g, shape=x.shape)),
    params=_some_shape,
    kernels=view(kernels.reshape, kernels.reshape_into),
    layout=layouts.reshaped,
    view=View(contiguous=True, needs_contiguous=True),
    onnx=onnx_movement.reshape,
    lowering=lowering.IN_ORDER,
)
def reshape(x: Tensor, /, *, shape: Sizes) -> Tensor:
    """The same elements, in C order, in another shape; one extent may be -1 and is then computed."""


def _permute_back(o: Any, g: Any, x: Any, *, axes: Any) -> Any:
    if axes is None:
        return o.permute_dims(g, axes=None)
    order = [shapes.normalise_axis(a, len(axes)) for a in axes]
    return o.permute_dims(g, axes=tuple(order.index(i) for i in range(len(order))))


def _some_order(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    forward = tuple(range(rank))
    return {"axes": draw((None, forward, forward[1:] + forward[:1], tuple(a - rank for a in forward[::-1])))}


@movement_of(
    shapes.permuted,
    Linear(_permute_back),
    params=_some_order,
    kernels=view(kernels.permute_dims),
    layout=layouts.permuted,
    view=View(),
    onnx=onnx_movement.permute_dims,
    lowering=lowering.IndexMap(lowering.permuted),
)
def permute_dims(x: Tensor, /, *, axes: Sizes | None = None) -> Tensor:
    """Axes in another order: axis i of the result is axis ``axes[i]``; None reverses them."""


@movement_of(
    movement.broadcast_to,
    Linear(lambda o, g, x, *, shape: o.sum_to(g, x.shape)),
    params=lambda shapes_, draw: {
        "shape": draw((shapes_[0], (2, *shapes_[0]), tuple(3 if n == 1 else n for n in shapes_[0]), (0, *shapes_[0])))
    },
    kernels=view(kernels.broadcast_to),
    view=View(),
    onnx=onnx_movement.broadcast_to,
    lowering=lowering.IndexMap(lambda s, xs, extents, index, **_: lowering.broadcast(s, xs[0], index)),
)
def broadcast_to(x: Tensor, /, *, shape: Sizes) -> Tensor:
    """Repeated along new axes in front and along those of extent 1, without copying."""


@movement_of(
    movement.expanded,
    Linear(lambda o, g, x, *, axis: o.squeeze(g, axis=axis)),
    params=lambda shapes_, draw: {"axis": draw((0, -1, len(shapes_[0]), (0, 1), (-1, 0), ()))},
    kernels=view(kernels.expand_dims),
    view=WHOLE,
    onnx=onnx_movement.expand_dims,
    lowering=lowering.IN_ORDER,
)
def expand_dims(x: Tensor, /, *, axis: Axes) -> Tensor:
    """With new axes of extent 1; `axis` counts in the result."""


def _unit_axes(shapes_: Any, draw: Any) -> dict[str, Any]:
    ones = tuple(i for i, n in enumerate(shapes_[0]) if n == 1)
    return {"axis": draw([(), ones, *ones, *(i - len(shapes_[0]) for i in ones)])}


@movement_of(
    movement.squeezed,
    Linear(lambda o, g, x, *, axis: o.reshape(g, shape=x.shape)),
    params=_unit_axes,
    kernels=view(kernels.squeeze),
    view=WHOLE,
    onnx=onnx_movement.squeeze,
    lowering=lowering.IN_ORDER,
)
def squeeze(x: Tensor, /, *, axis: Axes) -> Tensor:
    """Without those axes, each of which must have extent 1; none is dropped unasked."""


def _some_axes(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"axis": draw([None, (), *range(-rank, rank), tuple(range(rank))])}


@movement_of(
    movement.flipped,
    Linear(lambda o, g, x, *, axis: o.flip(g, axis=axis)),
    params=_some_axes,
    kernels=view(kernels.flip),
    view=View(),
    laws=(involution, odd, keeps_nonnegative),
    onnx=onnx_movement.flip,
    lowering=lowering.IndexMap(lowering.reversed_along),
)
def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """Elements in reverse order along those axes, or all; a view."""


# --- copies -----------------------------------------------------------------------------------------------


def _fold_tiles(o: Any, g: Any, x: Any, *, repetitions: Any) -> Any:
    times, extents = movement.aligned_left(repetitions, x.shape)
    pairs = tuple(n for pair in zip(times, extents, strict=True) for n in pair)
    folded = o.sum(o.reshape(g, shape=pairs), axis=tuple(range(0, len(pairs), 2)))
    return o.reshape(folded, shape=x.shape)


@movement_of(
    movement.tiled,
    Linear(_fold_tiles),
    kernels=copy(kernels.tile, kernels.tile_into),
    params=lambda shapes_, draw: {"repetitions": draw(((), (2,), (3, 1), (2, 1, 2), (1, 2, 1, 1), (0,)))},
    onnx=onnx_movement.tile,
    lowering=lowering.IndexMap(lowering.tiled),
)
def tile(x: Tensor, /, *, repetitions: Sizes) -> Tensor:
    """Copies side by side, `repetitions` for each axis; the shorter of shape and repetitions gets ones in front."""


def _together(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    if not given:
        raise OperatorError("wanted at least one tensor, given none")
    return dtypes.promote(*given)


def part(o: Any, x: Any, axis: int, start: Any, stop: Any) -> Any:
    """A contiguous range of one axis."""
    rank = len(x.shape)
    return o.slice(
        x,
        starts=tuple(start if i == axis else 0 for i in range(rank)),
        stops=tuple(stop if i == axis else n for i, n in enumerate(x.shape)),
        steps=(1,) * rank,
    )


def _concat_transpose(o: Any, g: Any, *xs: Any, axis: int) -> tuple[Any, ...]:
    at, begin, found = shapes.normalise_axis(axis, len(g.shape)), 0, []
    for x in xs:
        found.append(partial(part, o, g, at, begin, begin + x.shape[at]))
        begin = begin + x.shape[at]
    return tuple(found)


def _nothing(**_: Any) -> int:
    return 0


def _concat_boxes(shapes_: Any, result: Any, *, axis: int) -> list[Box]:
    rank, begin, found = len(result), 0, []
    at = shapes.normalise_axis(axis, rank)
    for x in shapes_:
        found.append(Box(tuple(begin if i == at else 0 for i in range(rank)), x, (1,) * rank))
        begin += x[at]
    return found


def _stack_boxes(shapes_: Any, result: Any, *, axis: int) -> list[Box]:
    rank = len(result)
    at = shapes.normalise_axis(axis, rank)
    axes = tuple(i for i in range(rank) if i != at)
    return [
        Box(tuple(n if i == at else 0 for i in range(rank)), (*x[:at], 1, *x[at:]), (1,) * rank, axes)
        for n, x in enumerate(shapes_)
    ]


JOINS = tuple(
    (tuple((shape, dtype) for shape in joined), {"axis": axis})
    for joined, axis in (
        (((2, 3), (1, 3), (0, 3)), 0),
        (((2, 3), (2, 1)), -1),
        (((2,),), 0),
        (((0,), (0,)), 0),
        (((1, 2, 2), (1, 3, 2)), 1),
    )
    for dtype in ANY
)
STACKS = tuple(
    (((shape, dtype),) * n, {"axis": axis})
    for shape, n, axis in (((), 3, 0), ((2,), 1, -1), ((2, 3), 2, 1), ((0, 2), 2, -3), ((1, 2), 3, 2))
    for dtype in ANY
)


@movement_of(
    movement.concatenated,
    Linear(_concat_transpose),
    dtype=_together,
    layout=layouts.shared,
    laws=(keeps_nonnegative,),
    onnx=onnx_movement.concat,
    kernels=copy(kernels.concat, kernels.concatenate_into, kernels.concatenate),
    parts=Parts(_concat_boxes, _nothing),
    samples=Samples(relation="cases", cases=JOINS),
    lowering=lowering.IndexMap(lowering.joined),
)
def concat(*xs: Tensor, axis: int = 0) -> Tensor:
    """Tensors one after another along an existing axis, in their promoted dtype."""


def _stack_transpose(o: Any, g: Any, *xs: Any, axis: int) -> tuple[Any, ...]:
    at = shapes.normalise_axis(axis, len(g.shape))
    return tuple(lambda i=i: o.squeeze(part(o, g, at, i, i + 1), axis=at) for i in range(len(xs)))


@movement_of(
    movement.stacked,
    Linear(_stack_transpose),
    dtype=_together,
    laws=(keeps_nonnegative,),
    onnx=onnx_movement.stack,
    kernels=copy(kernels.stack, kernels.stack_into, lambda xp, *xs, axis: xp.stack(xs, axis=axis)),
    parts=Parts(_stack_boxes, _nothing),
    samples=Samples(relation="cases", cases=STACKS),
    lowering=lowering.IndexMap(lowering.stacked),
)
def stack(*xs: Tensor, axis: int = 0) -> Tensor:
    """Tensors of one shape beside each other along a new axis, in their promoted dtype."""


def _split_dtypes(x: dtypes.DType, *, sections: Any, axis: int) -> tuple[dtypes.DType, ...]:
    return (x,) * movement.part_count(sections)


def _split_vjp(o: Any, g: Any, y: Any, x: Any, *, sections: Any, axis: int) -> Any:
    filled = [
        o.full(shape=part.shape, value=0, dtype=o.dtype(x)) if each is None else each
        for each, part in zip(g, y, strict=True)
    ]
    return o.concat(*filled, axis=axis)


def _some_parts(shapes_: Any, draw: Any) -> dict[str, Any]:
    (x,) = shapes_
    axis = draw(range(-len(x), len(x)))
    n = x[axis]
    return {"sections": draw([1, (n,), (0, n), (n // 2, n - n // 2), *([n] if n else [2])]), "axis": axis}


@movement_of(
    movement.parts,
    Custom(lambda o, ts, y, x, *, sections, axis: o.split(ts[0], sections=sections, axis=axis), (_split_vjp,)),
    dtype=_split_dtypes,
    multi_result=True,
    params=_some_parts,
    min_rank=1,
    laws=(),
    onnx=onnx_movement.split,
    kernels=reference(kernels.split, kernels.split_into, infallible=True, strided=True),
    view=View(),
)
def split(x: Tensor, /, *, sections: Nested, axis: int = 0) -> Any:
    """Parts of an axis, as views: `sections` equal ones, or parts of the extents listed in a tuple (not positions)."""


def _unpad(o: Any, g: Any, y: Any, x: Any, *, widths: Any, value: Any) -> Any:
    starts = tuple(before for before, _ in widths)
    stops = tuple(start + n for start, n in zip(starts, x.shape, strict=True))
    return o.slice(g, starts=starts, stops=stops, steps=(1,) * len(starts))


def _some_widths(shapes_: Any, draw: Any) -> dict[str, Any]:
    return {"widths": tuple(draw(((0, 0), (1, 0), (2, 3))) for _ in shapes_[0]), "value": draw((0, 1, -2))}


@movement_of(
    movement.padded,
    Custom(lambda o, ts, y, x, *, widths, value: o.pad(ts[0], widths=widths, value=0), (_unpad,)),
    dtype=lambda x, *, widths, value: holding(x, value, "value"),
    laws=(),
    onnx=onnx_movement.pad,
    kernels=copy(kernels.pad, kernels.pad_into),
    parts=Parts(
        lambda shapes_, _, *, widths, value: [Box(tuple(w for w, _ in widths), shapes_[0], (1,) * len(widths))],
        lambda *, widths, value: value,
    ),
    samples=Samples(dtypes=NUMBERS, params=_some_widths),
    lowering=lowering.IndexMap(lowering.padded),
)
def pad(x: Tensor, /, *, widths: Nested, value: number = 0) -> Tensor:
    """With `value` put around: a pair of widths (before, after) for each axis, none negative."""


def _assemble_transpose(o: Any, g: Any, *xs: Any, shape: Any, offsets: Any, strides: Any, fill: Any) -> tuple[Any, ...]:
    found = []
    for box in boxes.part_boxes(*(x.shape for x in xs), shape=shape, offsets=offsets, strides=strides):
        starts, stops, steps = zip(*box.bounds(), strict=True) if shape else ((), (), ())
        found.append(partial(o.slice, g, starts=starts, stops=stops, steps=steps))
    return tuple(found)


ASSEMBLIES = tuple(
    (tuple((part_, dtype) for part_ in given), {"shape": whole, "offsets": at, "strides": steps, "fill": fill})
    for given, whole, at, steps, fill in (
        (((),), (), ((),), None, 0),
        (((2, 3), (2, 1)), (2, 4), ((0, 0), (0, 3)), None, 0),
        (((2,), (3,)), (5,), ((1,), (0,)), ((2,), (2,)), 0),
        (((2,), (0,)), (5,), ((3,), (0,)), ((-2,), (1,)), 1),
        (((2, 2),), (5, 3), ((1, 2),), ((3, -1),), 1),
        (((0, 2),), (0, 3), ((0, 0),), None, 0),
    )
    for dtype in ANY
)


@movement_of(
    boxes.assembled,
    Linear(_assemble_transpose, homogeneous=lambda **params: {**params, "fill": 0}),
    dtype=lambda *given, shape, offsets, strides, fill: holding(_together(*given), fill, "fill"),
    laws=(),
    onnx=onnx_movement.assemble,
    kernels=copy(kernels.assemble, kernels.assemble_into),
    parts=Parts(
        lambda shapes_, result, *, shape, offsets, strides, fill: boxes.part_boxes(
            *shapes_, shape=shape, offsets=offsets, strides=strides
        ),
        lambda *, shape, offsets, strides, fill: fill,
    ),
    samples=Samples(relation="cases", cases=ASSEMBLIES),
)
def assemble(*parts: Tensor, shape: Sizes, offsets: Nested, strides: Nested | None = None, fill: number = 0) -> Tensor:
    """A tensor of that shape with each part written at its offset, in steps of its strides, and `fill` elsewhere.

    Parts have the rank of the whole; a stride counts elements, and may be negative. That two parts write one element
    is refused, and decided exactly. Where the parts cover everything the fill is never written: parts are disjoint,
    so they do if their sizes add up to that of the whole. An engine computes parts in place where it can.
    """
