"""Rules of parts: slices of slices, slices of what is put together, and sums of tensors that are mostly zero."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from nnc_func.facets.boxes import Box, ascending, part_boxes
from nnc_func.facets.dims import known
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import same_aval, that
from nnc_func.graph.rules.pattern import Param, Shaped, computed
from nnc_func.graph.rules.rule import SIGNED_ZERO, rewrite, rule, whole_graph
from nnc_func.graph.rules.substituting import now

slice_, assemble, add, expand_dims = OPS["slice"], OPS["assemble"], OPS["add"], OPS["expand_dims"]
concat, stack = OPS["concat"], OPS["stack"]

# --- slices of slices ----------------------------------------------------------------------------------


def _known(*bounds: Any) -> bool:
    return all(known(n) for each in bounds for n in each)


def _box(shape: Any, starts: Any, stops: Any, steps: Any) -> Box:
    extents = []
    for start, stop, step in zip(starts, stops, steps, strict=True):
        extents.append(len(range(start, stop, step)))
    return Box(tuple(starts), tuple(extents), tuple(steps))


def _within(outer: Box, inner: Box) -> Box:
    """A box of a box, as one of the tensor that the first is of."""
    starts = (a + b * s for a, b, s in zip(outer.starts, inner.starts, outer.steps, strict=True))
    steps = (s * t for s, t in zip(outer.steps, inner.steps, strict=True))
    return Box(tuple(starts), inner.extents, tuple(steps))


def _bounds(box: Box) -> tuple[Any, ...]:
    return tuple(zip(*box.bounds(), strict=True)) if box.starts else ((), (), ())


@computed
def _merged(x, a, b, c, p, q, r, which):
    """Starts, stops or steps of a slice that has the effect of two, one after the other."""
    return _bounds(_within(_box(x.shape, a, b, c), _box(x.shape, p, q, r)))[which]


@rule
def merge_slices(x, a: Param, b: Param, c: Param, p: Param, q: Param, r: Param):
    """A slice of a slice is one slice of the root."""
    inner = slice_(x, starts=a, stops=b, steps=c)
    starts, stops, steps = (_merged(x, a, b, c, p, q, r, which) for which in range(3))
    return (
        rewrite(slice_(inner, starts=p, stops=q, steps=r))
        .to(slice_(x, starts=starts, stops=stops, steps=steps))
        .when(that(lambda *given: _known(*given), a, b, p, q, says="their bounds are known", kind="profit"))
    )


@rule
def drop_slice(x, a: Param, b: Param, c: Param):
    """A slice that shows all elements in their order is dropped."""
    shown = slice_(x, starts=a, stops=b, steps=c)
    forward = that(lambda c, x: all(s == 1 or n == 1 for s, n in zip(c, x.shape, strict=True)), c, x, says=f"{c} are 1")
    return rewrite(shown).to(x).when(same_aval(x, shown), forward)


# --- slices of what is put together --------------------------------------------------------------------


def _relative(box: Box, wanted: Box) -> Box | None:
    """The second box as one of the first, in whose order its elements are counted; None unless it lies in it."""
    starts, steps = [], []
    for start, n, step, at, count, stride in zip(
        box.starts, box.extents, box.steps, wanted.starts, wanted.extents, wanted.steps, strict=True
    ):
        stride = stride if count > 1 else step
        index, off = divmod(at - start, step)
        last = index + (count - 1) * (stride // step)
        if off or stride % step or not (0 <= index < n and 0 <= last < n):
            return None
        starts.append(index)
        steps.append(stride // step)
    return Box(tuple(starts), wanted.extents, tuple(steps))


class _Whole:
    """What a tensor is put together of: its parts, sorted along the axis that tells most of them apart."""

    def __init__(self, node: Node) -> None:
        parts_of = node.op.parts
        assert parts_of is not None, node
        boxes = parts_of.boxes(tuple(a.shape for a in node.args), node.aval.shape, **node.params)
        listed = zip(node.args, boxes, strict=True)
        parts = [(v, b) for v, b in listed if _known(v.shape, b.starts) and v.dtype == node.dtype and b.size]
        ranges = [_range(box) for _, box in parts]
        self.axis = max(range(len(node.aval.shape)), key=lambda a: len({r[a] for r in ranges}), default=None)
        order = sorted(range(len(parts)), key=lambda i: self._along(ranges[i]))
        self.parts = [parts[i] for i in order]
        self.first = [self._along(ranges[i])[0] for i in order]
        self.last = list(accumulate((self._along(ranges[i])[1] for i in order), max))  # of it and of those before

    def _along(self, span: tuple[tuple[int, int], ...]) -> tuple[int, int]:
        return (0, 0) if self.axis is None else span[self.axis]

    def around(self, wanted: Box) -> tuple[Value, Box, Box] | None:
        """The part in which a box lies, where that lies, and the box as one of it; None if there is no such part."""
        first, last = self._along(_range(wanted))
        at = bisect_right(self.first, first) - 1
        while at >= 0 and self.last[at] >= last:
            value, box = self.parts[at]
            found = _relative(box, wanted)
            if found is not None:
                return value, box, found
            at -= 1
        return None


def _part_shown(node: Node, wholes: dict[Node, _Whole], builder: Any) -> Any:
    """A slice of the one part that it lies in; None if there is no such. What is found of wholes is kept."""
    (value,) = node.args
    whole = value.node
    if whole.op.parts is None or not node.aval.size:
        return None
    params = node.params
    if not _known(params["starts"], params["stops"], value.shape):
        return None
    parts = wholes.get(whole)
    if parts is None:
        parts = wholes[whole] = _Whole(whole)
    found = parts.around(_box(value.shape, params["starts"], params["stops"], params["steps"]))
    return None if found is None else _shown(*found, builder)


def _shown(value: Value, box: Box, found: Box, builder: Any) -> Any:
    axes = range(len(box.starts)) if box.axes is None else box.axes
    part = Box(*(tuple(each[a] for a in axes) for each in (found.starts, found.extents, found.steps)))
    if part.extents != value.shape or any(s != 1 for s, n in zip(part.steps, part.extents, strict=True) if n > 1):
        starts, stops, steps = _bounds(part)
        value = builder.apply(slice_, (value,), {"starts": starts, "stops": stops, "steps": steps})
    dropped = tuple(a for a in range(len(box.starts)) if a not in axes)
    return builder.apply(expand_dims, (value,), {"axis": dropped}) if dropped else value


def _parts_of_joined():
    joined = concat(Shaped("x", (2, 3)), Shaped("y", (2, 3)), axis=0)
    inside, across = (slice_(joined, starts=(i, 1), stops=(i + 2, 3), steps=(1, 1)) for i in (2, 1))
    return inside - across


def _part_of_stacked():
    return slice_(stack(Shaped("x", (3,)), Shaped("y", (3,)), axis=1), starts=(0, 1), stops=(2, 2), steps=(1, 1))


@whole_graph(of=(slice_,), samples=(_parts_of_joined, _part_of_stacked))
def read_parts(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """A slice that lies in one part of what is put together is a slice of that part."""
    wholes: dict[Node, _Whole] = {}
    if all(_part_shown(n, wholes, builder) is None for n in builder.seen(order).of(slice_)):
        return roots, 0
    found: dict[Node, Value] = {}
    times = 0
    for node in order:
        value, new = _rebuilt(node, found, builder)
        if node.op is slice_:
            while new.op is slice_ and (shown := _part_shown(new, wholes, builder)) is not None:
                value, new, times = shown, shown.node, times + 1
        found[node] = value
    return tuple(now(found, r) for r in roots), times


def _rebuilt(node: Node, found: dict[Node, Any], builder: Any) -> tuple[Any, Node]:
    args = tuple(now(found, a) for a in node.args)
    builder.where = node.origin
    new = node if args == node.args else builder.made(node.op, args, node.items, node.avals)
    return new, new


# --- sums of parts -------------------------------------------------------------------------------------


def _is_placed(value: Value, shape: Any, once: Callable[[Node], bool]) -> bool:
    """Whether a value is zero but for parts, and nothing else uses it."""
    node = value.node
    return (
        node.op is assemble
        and once(node)
        and node.params["fill"] == 0
        and node.aval.shape == shape
        and _known(shape, *node.params["offsets"], *(a.shape for a in node.args))
    )


class _Group:
    """Parts that are apart from each other."""

    def __init__(self, node: Node) -> None:
        self.dtype = node.dtype
        self.args: list[Value] = []
        self.boxes: list[Box] = []
        self.lows: list[tuple[tuple[int, int], ...]] = []

    def add(self, args: Any, boxes: list[Box]) -> None:
        self.args += args
        self.boxes += boxes
        self.lows += map(_range, boxes)

    def is_apart(self, boxes: list[Box], dtype: Any) -> bool:
        if dtype != self.dtype:
            return False
        for box in boxes:
            span = _range(box)
            for other, theirs in zip(self.lows, self.boxes, strict=True):
                meet = all(a <= d and c <= b for (a, b), (c, d) in zip(span, other, strict=True))
                if meet and box.common(theirs) is not None:  # of a scalar it is ()
                    return False
        return True


def _range(box: Box) -> tuple[tuple[int, int], ...]:
    rows = map(ascending, box.starts, box.extents, box.steps)
    return tuple((first, first + (n - 1) * step) for first, step, n in rows)


def terms(node: Node, chain: set[Node]) -> list[Value]:
    """What a chain of additions adds, in its order."""
    found: list[Value] = []
    while True:
        left, right = node.args
        inner, other = (left, right) if left.node in chain else (right, left)
        found.append(other)
        if inner.node not in chain:
            found.append(inner)
            return found[::-1]
        node = inner.node


def _grouped(terms: list[Value], shape: Any, once: Callable[[Node], bool]) -> list[Any]:
    """Terms, those that are apart together: each where no element is added in another order than before."""
    groups: list[Any] = []
    for term in terms:
        if not _is_placed(term, shape, once):
            groups.append(term)
            continue
        node = term.node
        boxes = part_boxes(*(a.shape for a in node.args), **{k: v for k, v in node.params.items() if k != "fill"})
        at = len(groups)
        while at and isinstance(groups[at - 1], _Group) and groups[at - 1].is_apart(boxes, node.dtype):
            at -= 1
        if at == len(groups):
            groups.append(_Group(node))
        groups[at].add(node.args, boxes)
    return groups


def _summed(groups: list[Any], node: Node, builder: Any) -> Any:
    """The groups put together and added up, in their order."""
    total = None
    for group in groups:
        if isinstance(group, _Group):
            places = tuple(b.starts for b in group.boxes), tuple(b.steps for b in group.boxes)
            params = {"shape": node.aval.shape, "offsets": places[0], "strides": places[1], "fill": 0}
            term = builder.apply(assemble, tuple(group.args), params)
        else:
            term = group
        total = term if total is None else builder.apply(add, (total, term), {})
    return total


def _placed(name: str, n: int, offset: int, stride: int = 1) -> Any:
    return assemble(Shaped(name, (n,)), shape=(5,), offsets=((offset,),), strides=((stride,),), fill=0)


def _apart_and_added(z):
    return (_placed("x", 2, 0) + _placed("y", 2, 3)) + z


def _interleaved_and_added():
    return _placed("x", 2, 1, 2) + (_placed("y", 3, 0, 2) + _placed("z", 3, 1))


@whole_graph(of=(assemble,), numerics=SIGNED_ZERO, samples=(_apart_and_added, _interleaved_and_added))
def join_added_parts(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Tensors that are zero but for parts, which are apart, and that are added up, are put together at once."""
    seen, asked = builder.seen(order), {r.node for r in roots}
    if len(seen.of(assemble)) < 2:
        return roots, 0

    def once(node: Node) -> bool:
        users = seen.users(node)
        return len(users) == 1 and node not in asked and sum(a.node is node for u in users for a in u.args) == 1

    adds = {n for n in seen.of(add) if all(a.shape == n.aval.shape for a in n.args)}
    chain = {a.node for n in adds for a in n.args if a.node in adds and once(a.node)}
    found: dict[Node, Value] = {}
    for node in order:
        if node in adds and node not in chain:
            listed = terms(node, chain)
            groups = _grouped(listed, node.aval.shape, once)
            if len(groups) < len(listed):
                builder.where = node.origin
                found[node] = _summed(groups, node, builder)
    return found, len(found)
