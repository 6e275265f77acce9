"""Rules of joins: what is put together of parts of one tensor, or of what got an axis for it; repetitions, padding."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import Any

from attrs import define

from nnc_func.facets.dims import known
from nnc_func.facets.movement import aligned_left, part_sizes
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import same_aval, that
from nnc_func.graph.rules.pattern import Param, Shaped, computed, shape_of
from nnc_func.graph.rules.rule import rewrite, rewriter, rule, whole_graph
from nnc_func.op import Op

concat, stack, split, slice_, reshape = OPS["concat"], OPS["stack"], OPS["split"], OPS["slice"], OPS["reshape"]
expand_dims, squeeze = OPS["expand_dims"], OPS["squeeze"]
RESHAPING = frozenset((reshape, expand_dims, squeeze))
PARTS = RESHAPING | {split, slice_}
tile, pad, broadcast_to = OPS["tile"], OPS["pad"], OPS["broadcast_to"]

# --- parts of one tensor -------------------------------------------------------------------------------


@define(eq=False)
class Piece:
    """A range of one axis of a tensor; `without_axis` where it has one element there, and the axis is dropped."""

    source: Value
    start: Any
    count: Any
    without_axis: bool = False


def other_axes(listed: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    """What is said of each axis but one."""
    return (*listed[:at], *listed[at + 1 :])


Starts = dict[Node, list[Any]]  # of each split, where its parts start, and where the last one stops


def starts_of(node: Node, at: int) -> list[Any]:
    """Where the parts of a split start along its axis, and where the last one stops."""
    return [0, *accumulate(part_sizes(node.args[0].shape[at], node.params["sections"]))]


def piece_of(value: Value, at: int, splits: Starts) -> Piece | None:
    """The value as a range of the axis of another tensor, all of it along the others; None if it is not.

    What is found of a split is kept in `splits`: of n parts, each costs as much as one does.
    """
    node = value.node
    if node.op is split and normalise_axis(node.params["axis"], len(value.shape)) == at:
        starts = splits.get(node)
        if starts is None:
            starts = splits[node] = starts_of(node, at)
        return Piece(node.args[0], starts[value.index], value.shape[at])
    if node.op is slice_:
        (source,) = node.args
        starts, stops, steps = (value for _, value in node.items)
        whole = other_axes(starts, at) == (0,) * (len(starts) - 1)
        if whole and other_axes(stops, at) == other_axes(source.shape, at) and all(s == 1 for s in steps):
            return Piece(source, starts[at], value.shape[at])
    if node.op in RESHAPING and len(node.args[0].shape) == len(value.shape) + 1:
        (inner,) = node.args
        found = piece_of(inner, at, splits) if inner.shape == (*value.shape[:at], 1, *value.shape[at:]) else None
        if found is not None and not found.without_axis:
            return Piece(found.source, found.start, 1, without_axis=True)
    return None


def adjacent(values: tuple[Value, ...], at: int) -> Piece | None:
    """What the values are together, one after another along an axis, if they are parts of one tensor."""
    splits: Starts = {}
    first = piece_of(values[0], at, splits)
    if first is None or not known(first.start):
        return None
    stop = first.start + first.count
    for value in values[1:]:
        other = piece_of(value, at, splits)
        if other is None or other.source is not first.source or other.without_axis is not first.without_axis:
            return None
        if not known(other.start) or other.start != stop:
            return None
        stop = other.start + other.count
    return Piece(first.source, first.start, stop - first.start, first.without_axis) if known(stop) else None


def shown(piece: Piece, at: int, builder: Any) -> Value:
    """The range of the axis: of the tensor itself if it is all of it."""
    source = piece.source
    if piece.start == 0 and piece.count == source.shape[at]:
        return source
    rank = len(source.shape)
    params = {
        "starts": tuple(piece.start if i == at else 0 for i in range(rank)),
        "stops": tuple(piece.start + piece.count if i == at else n for i, n in enumerate(source.shape)),
        "steps": (1,) * rank,
    }
    return builder.apply(slice_, (source,), params)  # type: ignore[no-any-return]


def joined(values: tuple[Value, ...], at: int, builder: Any) -> Value:
    """The values one after another along an axis: what they are parts of, if that is so, else a concatenation."""
    if len(values) == 1:
        return values[0]
    found = adjacent(values, at)
    if found is None:
        return builder.apply(concat, values, {"axis": at})  # type: ignore[no-any-return]
    value = shown(found, at, builder)
    if not found.without_axis:
        return value
    shape = values[0].shape
    wanted = (*shape[:at], found.count * shape[at], *shape[at + 1 :])
    return builder.apply(reshape, (value,), {"shape": wanted})  # type: ignore[no-any-return]


def _is_join_of_parts(op: Op, operands: tuple[Op, ...]) -> bool:
    return (op is concat or op is stack) and len(operands) > 1 and all(o in PARTS for o in operands)


def _halves(x):
    first = slice_(x, starts=(0,), stops=(1,), steps=(1,))
    return concat(first, slice_(x, starts=(1,), stops=(2,), steps=(1,)), axis=0)


def _elements(x):
    first, second = (slice_(x, starts=(i, 0), stops=(i + 1, 2), steps=(1, 1)) for i in range(2))
    return stack(reshape(first, shape=(2,)), squeeze(second, axis=0), axis=0)


@rule
def drop_concat_of_one(x, a: Param):
    """One tensor, put together with nothing, is dropped."""
    return rewrite(concat(x, axis=a)).to(x)


@rewriter(_is_join_of_parts, of=(concat, stack), looks=3, samples=(_halves, _elements))
def show_adjacent_parts(node: Node, builder: Any) -> Any:
    """What is put together of adjacent parts of one tensor is that part of it."""
    at = normalise_axis(node.params["axis"], len(node.aval.shape))
    found = adjacent(node.args, at)
    if found is None or (node.op is stack and not found.without_axis):
        return None
    value = shown(found, at, builder)
    if node.op is stack or not found.without_axis:
        return value
    return builder.apply(reshape, (value,), {"shape": node.aval.shape})


def _is_concat_of_reshaped(op: Op, operands: tuple[Op, ...]) -> bool:
    return op is concat and len(operands) > 0 and all(o in RESHAPING for o in operands)


def _with_axes(x, y):
    return concat(expand_dims(x, axis=0), expand_dims(y, axis=0), axis=0)


@rewriter(_is_concat_of_reshaped, of=(concat,), samples=(_with_axes,))
def stack_what_gets_an_axis(node: Node, builder: Any) -> Any:
    """What is put together along an axis that all of it got for that is stacked."""
    at = normalise_axis(node.params["axis"], len(node.aval.shape))
    for a in node.args:
        inner = a.node.args[0].shape
        if (*inner[:at], 1, *inner[at:]) != a.shape:
            return None
    return builder.apply(stack, tuple(a.node.args[0] for a in node.args), {"axis": at})


# --- parts that are reshaped ---------------------------------------------------------------------------


def _reshaped_before(part: Value, reshaped: Node, made: dict[Node, Node], builder: Any) -> Value | None:
    """The part of a tensor that is reshaped before it is split; None unless the axis is joined with the next."""
    node = part.node
    (x,) = node.args
    at = normalise_axis(node.params["axis"], len(x.shape))
    if at + 1 >= len(x.shape) or not all(map(known, x.shape)) or x.aval.layout is not None:
        return None
    (m, n), rest = x.shape[at : at + 2], x.shape[at + 2 :]
    if reshaped.aval.shape != (*x.shape[:at], part.shape[at] * n, *rest):
        return None
    if node not in made:
        sections = node.params["sections"]
        scaled = tuple(size * n for size in sections) if isinstance(sections, tuple) else sections
        wide = builder.apply(reshape, (x,), {"shape": (*x.shape[:at], m * n, *rest)})
        made[node] = builder.made(split, (wide,), split.canonical({"sections": scaled, "axis": at}), None)
    return made[node].result(part.index)


def _reshaped_parts():
    x = Shaped("x", (2, 4, 3))
    first, second = (reshape(split(x, sections=2, axis=1), shape=(2, 6)) for _ in range(2))
    return first - second


@whole_graph(of=RESHAPING, samples=(_reshaped_parts,))
def reshape_before_split(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """A tensor, parts of which are reshaped alike, is reshaped before it is split: no part is copied for it then."""
    seen = builder.seen(order)
    reshaped = [n for op in RESHAPING for n in seen.of(op) if n.args[0].node.op is split]
    reshaped.sort(key=seen.place)
    times = Counter(n.args[0].node for n in reshaped)
    made: dict[Node, Node] = {}
    replaced: dict[Value, Value] = {}
    for node in reshaped:
        (part,) = node.args
        builder.where = part.node.origin
        if times[part.node] > 1 and (found := _reshaped_before(part, node, made, builder)) is not None:
            replaced[node] = found
    return replaced, len(made)


# --- repetitions and padding ---------------------------------------------------------------------------


def _repeats_ones(r: Any, x: Any) -> bool:
    return all(
        (known(times) and times == 1) or (known(n) and n == 1)
        for times, n in zip(*aligned_left(r, x.shape), strict=True)
    )


@rule
def broadcast_instead_of_tiling(x, r: Param):
    """What is repeated along axes of extent 1 is broadcast, and nothing is copied."""
    repeated = tile(x, repetitions=r)
    return (
        rewrite(repeated)
        .to(broadcast_to(x, shape=shape_of(repeated)))
        .when(that(_repeats_ones, r, x, says=f"{x} has extent 1 along axes that {r} repeats"))
    )


@computed
def _times(first, then):
    """How often two repetitions, one after the other, repeat each axis."""
    return tuple(a * b for a, b in zip(*aligned_left(first, then), strict=True))


@rule
def merge_tiles(x, r: Param, q: Param):
    """Two repetitions in a row are one."""
    return rewrite(tile(tile(x, repetitions=r), repetitions=q)).to(tile(x, repetitions=_times(r, q)))


@rule
def drop_pad(x, w: Param, v: Param):
    """Nothing that is put around a tensor is dropped."""
    padded = pad(x, widths=w, value=v)
    return rewrite(padded).to(x).when(same_aval(x, padded))


@computed
def _widths(first, then):
    """What two paddings put around together."""
    return tuple((a + c, b + d) for (a, b), (c, d) in zip(first, then, strict=True))


@rule
def merge_pads(x, w: Param, u: Param, v: Param):
    """Two paddings in a row with one value are one."""
    return rewrite(pad(pad(x, widths=w, value=v), widths=u, value=v)).to(pad(x, widths=_widths(w, u), value=v))
