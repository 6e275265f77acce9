"""Which parts of tensors that are put together are computed where they lie there, so that nothing copies them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from nnc_func.facets import layouts
from nnc_func.facets.boxes import Box, gaps
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import Layout
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, Value

MOST = 32  # boxes into which what no part covers may fall, at the most


@frozen
class SubBuffer:
    """A place in the memory of an assembled value.

    Attributes
    ----------
    root
        The node that is put together, and is no part of another.
    offset, strides
        In bytes, in that node's memory.
    contiguous
        In the order of the tensor's layout, without gaps.
    """

    root: Node
    offset: int
    strides: tuple[int, ...]
    contiguous: bool


@frozen
class SubBuffers:
    """What lives where.

    Attributes
    ----------
    of
        The window of each value that is computed as a part of another.
    parts
        For each node that is put together in this way: where its arguments go, and what no argument covers.
    gapless
        Values that are copied where they lie with gaps, since what shows them cannot show those.
    """

    of: dict[Value, SubBuffer]
    parts: dict[Node, tuple[list[SubBuffer], list[tuple[Box, SubBuffer]]]]
    gapless: set[Value] = Factory(set)


Window = tuple[int, tuple[int, ...], bool]  # as of a `SubBuffer`: its offset, its strides, whether it is contiguous
Windows = tuple[list[Window], list[tuple[Box, Window]] | None]  # of arguments, of what none covers: None, of too much
NO_SUB_BUFFERS = SubBuffers({}, {})


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of an array without gaps.

    Examples
    --------
    >>> row_major((2, 3, 4), 8)
    (96, 32, 8)
    """
    found, step = [], itemsize
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


def _contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int, layout: Layout) -> bool:
    plain = layouts.strides(layout, tuple(shape), itemsize) or row_major(shape, itemsize)
    return all(n == 1 or s == p for n, s, p in zip(shape, strides, plain, strict=True))


def sub_buffers(
    graph: ComputationGraph,
    sequence: Sequence[Node],
    kernels: Mapping[Node, Kernel],
    apart: Collection[Node] = (),
    contiguous: Collection[Value] = (),
) -> SubBuffers:
    """The windows of a graph's values, users first: a part of a part lies in the memory of the whole.

    The parts of nodes in `apart` are copied into them. Values that are to be `contiguous` lie in no window with gaps.
    """
    joins = any(node.op.parts is not None for node in sequence)
    if not joins and not any(node.op.multi_result and node.op.view is not None for node in sequence):
        return NO_SUB_BUFFERS
    found = SubBuffers({}, {})
    gapless = found.gapless
    gapless.update(a for n in sequence if n.op.view is not None and n.op.view.needs_contiguous for a in n.args)
    if not joins:
        return found
    wanted = {*graph.outputs, *(u for _, u in graph.updates)}
    gapless = gapless.union(contiguous)
    forms: dict[Any, Windows] = {}
    for node in reversed(sequence):
        if node.op.parts is not None and node.aval.size and node not in apart and not kernels[node].is_call:
            _assemble(node, found, kernels, wanted, gapless, forms)
    return found


def _assemble(
    node: Node,
    found: SubBuffers,
    kernels: Mapping[Node, Kernel],
    wanted: set[Any],
    gapless: set[Any],
    forms: dict[Any, Windows],
) -> None:
    """Let the arguments of a node be computed in it, those that can; nodes of one form are laid out alike."""
    assert node.op.parts is not None
    aval = node.aval
    if any(a.aval.dtype != aval.dtype or a.aval.layout != aval.layout for a in node.args):
        return
    base = found.of.get(node) or SubBuffer(node, 0, aval.strides or row_major(aval.shape, aval.dtype.itemsize), True)
    if aval.layout is not None and base.root in wanted:
        return  # parts of fresh results are views of flat memory
    form = node.op, node.op.key(node.items), aval, tuple([a.aval for a in node.args]), base.offset, base.strides
    if form not in forms:
        forms[form] = _windows(node, base)
    windows, free = forms[form]
    if free is None:
        return
    places = [SubBuffer(base.root, *window) for window in windows]
    chosen: dict[Value, SubBuffer] = {}
    for value, place in zip(node.args, places, strict=True):
        if value not in chosen and _may_live(value, place, found, kernels, wanted, gapless):
            chosen[value] = place
    if chosen:
        found.of.update(chosen)
        found.parts[node] = places, [(box, SubBuffer(base.root, *window)) for box, window in free]


def _windows(node: Node, base: SubBuffer) -> Windows:
    """Where the arguments of a node go in memory that begins as its own does, and what none covers."""
    assert node.op.parts is not None
    aval = node.aval
    boxes = node.op.parts.boxes(tuple(a.aval.shape for a in node.args), aval.shape, **dict(node.items))
    is_whole = sum(box.size for box in boxes) == aval.size  # parts are disjoint
    free = [] if is_whole else gaps(aval.shape, boxes, MOST)

    def window(box: Box) -> Window:
        offset, strides = box.window(base.offset, base.strides)
        return offset, strides, _contiguous(box.shape, strides, aval.dtype.itemsize, aval.layout)

    return [*map(window, boxes)], None if free is None else [(box, window(box)) for box in free]


def _may_live(
    value: Value,
    place: SubBuffer,
    found: SubBuffers,
    kernels: Mapping[Node, Kernel],
    wanted: set[Any],
    gapless: set[Any],
) -> bool:
    """Whether a kernel computes the value, may write it there, and nothing wants it elsewhere."""
    node = value.node
    if node not in kernels or node.op.view is not None or value in found.of or value in wanted or not value.aval.size:
        return False
    return place.contiguous or (value not in gapless and kernels[node].writes_strided)
