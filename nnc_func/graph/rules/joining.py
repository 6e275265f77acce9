"""Rules of joins: what is put together of parts of one tensor, of joins, or of parts that are reshaped alike."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from nnc_func.facets.dims import known
from nnc_func.facets.movement import part_sizes
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.rule import whole_graph
from nnc_func.graph.rules.substituting import substituted, users_of

concat, stack, split, slice_, reshape = OPS["concat"], OPS["stack"], OPS["split"], OPS["slice"], OPS["reshape"]
expand_dims, squeeze = OPS["expand_dims"], OPS["squeeze"]
RESHAPING = frozenset((reshape, expand_dims, squeeze))

# --- parts of one tensor -------------------------------------------------------------------------------


@frozen
class Piece:
    """A range of one axis of a tensor; `without_axis` where it has one element there, and the axis is dropped."""

    source: Value
    start: Any
    count: Any
    without_axis: bool = False


def piece_of(value: Value, at: int) -> Piece | None:
    """The value as a range of the axis of another tensor, all of it along the others; None if it is not."""
    node = value.node
    if node.op is split and normalise_axis(node.params["axis"], len(value.shape)) == at:
        sizes = part_sizes(node.args[0].shape[at], node.params["sections"])
        return Piece(node.args[0], sum(sizes[: value.index]), sizes[value.index])
    if node.op is slice_:
        (source,) = node.args
        starts, stops, steps = (node.params[name] for name in ("starts", "stops", "steps"))
        whole = all(
            i == at or (a == 0 and b == n) for i, (a, b, n) in enumerate(zip(starts, stops, source.shape, strict=True))
        )
        if whole and all(s == 1 for s in steps):
            return Piece(source, starts[at], value.shape[at])
    if node.op in RESHAPING and len(node.args[0].shape) == len(value.shape) + 1:
        (inner,) = node.args
        found = piece_of(inner, at) if inner.shape == (*value.shape[:at], 1, *value.shape[at:]) else None
        if found is not None and not found.without_axis:
            return Piece(found.source, found.start, 1, without_axis=True)
    return None


def adjacent(values: tuple[Value, ...], at: int) -> Piece | None:
    """What the values are together, one after another along an axis, if they are parts of one tensor."""
    first = piece_of(values[0], at)
    if first is None or not known(first.start):
        return None
    stop = first.start + first.count
    for value in values[1:]:
        other = piece_of(value, at)
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


def _flat(node: Node, at: int, users: dict[Value, list[Any]]) -> tuple[Value, ...]:
    """What is put together, that of a join inside of it too, which nobody else uses."""
    found: list[Value] = []
    for a in node.args:
        inner = a.node
        nested = inner.op is concat and normalise_axis(inner.params["axis"], len(a.shape)) == at
        same = nested and all(b.dtype == a.dtype for b in inner.args) and len(users[a]) == 1
        found += inner.args if same else (a,)
    return tuple(found)


def _runs(values: tuple[Value, ...], at: int) -> list[tuple[Value, ...]]:
    """The values, those together that are parts of one tensor, one after another."""
    runs: list[list[Value]] = []
    for value in values:
        if runs and adjacent((*runs[-1], value), at) is not None:
            runs[-1].append(value)
        else:
            runs.append([value])
    return [tuple(run) for run in runs]


def _merged(node: Node, users: dict[Value, list[Any]], builder: Any) -> Value:
    at = normalise_axis(node.params["axis"], len(node.aval.shape))
    values = _flat(node, at, users)
    if any(v.dtype != node.dtype or v.aval.layout is not None for v in values):
        return node
    runs = _runs(values, at)
    if len(runs) > 1 and not all(len(run) == 1 or _disappears(run, users) for run in runs):
        runs = [(value,) for value in values]
    if len(runs) == len(node.args) and len(runs) > 1:
        return node
    return joined(tuple(joined(run, at, builder) for run in runs), at, builder)


def _disappears(run: tuple[Value, ...], users: dict[Value, list[Any]]) -> bool:
    """Whether nobody else uses the parts, so that one of all of them is less."""
    return all(value.node.op is not split and len(users.get(value, ())) == 1 for value in run)


def _stacked(node: Node, users: dict[Value, list[Any]], builder: Any) -> Value:
    """A concatenation of what got an axis for it."""
    at = normalise_axis(node.params["axis"], len(node.aval.shape))
    for a in node.args:
        if a.node.op not in RESHAPING or len(users[a]) > 1:
            return node
        inner = a.node.args[0].shape
        if (*inner[:at], 1, *inner[at:]) != a.shape:
            return node
    return builder.apply(stack, tuple(a.node.args[0] for a in node.args), {"axis": at})  # type: ignore[no-any-return]


def _unstacked(node: Node, users: dict[Value, list[Any]], builder: Any) -> Value:
    """A stack of parts of one tensor without the axis along which they lie."""
    at = normalise_axis(node.params["axis"], len(node.aval.shape))
    if any(a.dtype != node.dtype or a.aval.layout is not None for a in node.args):
        return node
    found = adjacent(node.args, at)
    return shown(found, at, builder) if found is not None and found.without_axis else node


@whole_graph()
def merge_joins(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """What is put together of adjacent parts of one tensor is that part of it, and joins of joins are one."""
    joins = [n for n in order if n.op is concat or n.op is stack]
    if not joins:
        return roots, 0
    users = users_of(roots, order)
    replaced: dict[Value, Value] = {}
    for node in joins:
        builder.where = node.origin
        for find in (_merged, _stacked) if node.op is concat else (_unstacked,):
            found = find(node, users, builder)
            if found is not node and found.aval == node.aval:
                replaced[node] = found
                break
    return (substituted(roots, replaced, builder), len(replaced)) if replaced else (roots, 0)


# --- parts that are reshaped alike ---------------------------------------------------------------------


def _reshaped_parts(node: Node, users: dict[Value, list[Any]]) -> list[tuple[Value, Node]] | None:
    """Parts and their reshapes, if all parts that are used are used by one that joins the axis with the next."""
    (x,) = node.args
    at = normalise_axis(node.params["axis"], len(x.shape))
    if at + 1 >= len(x.shape) or not all(map(known, x.shape)) or x.aval.layout is not None:
        return None
    found = []
    for value in node.results:
        using = users.get(value, [])
        if not using:
            continue
        reshaped = using[0]
        m, n = value.shape[at : at + 2]
        if len(using) != 1 or reshaped is None or reshaped.op not in RESHAPING:
            return None
        if reshaped.aval.shape != (*value.shape[:at], m * n, *value.shape[at + 2 :]):
            return None
        found.append((value, reshaped))
    return found if len(found) > 1 else None


@whole_graph()
def reshape_before_split(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """A tensor is reshaped before it is split, where all its parts are reshaped alike."""
    splits = [n for n in order if n.op is split]
    if not splits:
        return roots, 0
    users = users_of(roots, order)
    replaced: dict[Value, Value] = {}
    times = 0
    for node in splits:
        pairs = _reshaped_parts(node, users)
        if pairs is None:
            continue
        (x,) = node.args
        at = normalise_axis(node.params["axis"], len(x.shape))
        m, n = x.shape[at : at + 2]
        builder.where = node.origin
        wide = builder.apply(reshape, (x,), {"shape": (*x.shape[:at], m * n, *x.shape[at + 2 :])})
        sections = tuple(size * n for size in part_sizes(m, node.params["sections"]))
        made = builder.apply(split, (wide,), {"sections": sections, "axis": at})
        replaced |= {reshaped: made[value.index] for value, reshaped in pairs}
        times += 1
    return (substituted(roots, replaced, builder), times) if times else (roots, 0)
