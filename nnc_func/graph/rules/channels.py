"""Layout of images: where convolutions follow each other, channels lie innermost from the first one to the last.

The axes stay what they are. What is put in are relayouts that one can see, where such a run begins and ends.
"""

from __future__ import annotations

from typing import Any

from nnc_func.facets import layouts
from nnc_func.facets.layouts import CHANNELS_INNERMOST, NCHW
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.rule import ROUNDING, whole_graph
from nnc_func.graph.rules.substituting import now

FEW = 4  # convolutions, at least; and one for each relayout, which reads and writes all images
HEAVY = 500  # FLOPs by a library's kernel, for which moving an element is worth its while, however few they are

conv2d, conv2d_integer = OPS["conv2d"], OPS["conv2d_integer"]
relayout, concat = OPS["relayout"], OPS["concat"]
reshape, permute_dims = OPS["reshape"], OPS["permute_dims"]
CONVOLUTIONS = frozenset((conv2d, conv2d_integer, OPS["conv2d_input_gradient"]))  # a transposed one, the last
POOLS = frozenset((OPS["max_pool2d"], OPS["average_pool2d"]))
READERS = frozenset([OPS[n] for n in ("mean", "sum", "max", "min")])  # read any order, and make little of much


def _moves(value: Value, layout: Any) -> bool:
    """Whether elements lie in another order in that layout: axes of extent 1 may stand anywhere."""
    shape, rows = value.aval.shape, tuple(range(value.aval.ndim))
    long = [[axis for axis in each or rows if shape[axis] != 1] for each in (value.aval.layout, layout)]
    return long[0] != long[1]


class _Laying:
    """A graph made anew, value by value."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.done: dict[Node, Node] = {}
        self.moved: dict[tuple[Value, Any], Value] = {}
        self.convolutions = 0
        self.flops = 0  # of convolutions by a library's kernels

    @property
    def is_worth_it(self) -> bool:
        """Whether convolutions gain more than relayouts take."""
        moved = [value.aval for value, layout in self.moved if _moves(value, layout)]  # both directions of each
        if self.convolutions >= max(FEW, len(moved) // 2):
            return True
        known = all(isinstance(aval.size, int) for aval in moved)
        return known and self.flops >= HEAVY * max(1, sum(aval.size for aval in moved) // 2)

    def ordered(self, value: Value, layout: Any) -> Value:
        """The value in that layout."""
        if value.aval.layout == layout:
            return value
        found = self.moved.get((value, layout))
        if found is None:
            axes = tuple(range(value.aval.ndim)) if layout is None else layout
            found = self.builder.apply(relayout, (value,), {"layout": axes})
            self.moved[value, layout] = found
            self.moved[found, value.aval.layout] = value  # back again is nothing
        return found

    def node(self, node: Node) -> Node:
        """The node on what its operands have become."""
        args = tuple(now(self.done, a) for a in node.args)
        if node.op in CONVOLUTIONS and self._is_laid(node, args):
            args = (self.ordered(args[0], CHANNELS_INNERMOST), *args[1:])
        elif node.op is reshape and args[0].aval.layout is not None:
            args = (self._seen_as(args[0], node),)
        elif node.op.layout in (layouts.common, layouts.shared) and not node.op.multi_result:
            full = {a for a in args if node.op is concat or a.aval.shape == node.aval.shape}
            if any(a.aval.layout == CHANNELS_INNERMOST for a in full):
                args = tuple(self.ordered(a, CHANNELS_INNERMOST) if a in full else a for a in args)
        elif node.op not in POOLS and node.op not in READERS and node.op is not permute_dims:
            args = tuple(self.ordered(a, b.aval.layout) for a, b in zip(args, node.args, strict=True))
        if args == node.args:
            return node
        same = all(a.aval == b.aval for a, b in zip(args, node.args, strict=True))
        made: Node = self.builder.made(node.op, args, node.items, node.avals if same else None)
        return made

    def _seen_as(self, x: Value, node: Node) -> Value:
        """What is reshaped: in the order that it has, or another, of which the memory is seen in the result's shape."""
        if layouts.reshaped((x.aval,), node.shape) is not None:
            return x
        if node.aval.ndim == len(CHANNELS_INNERMOST):
            wanted = layouts.reshaped((node.aval.having(layout=CHANNELS_INNERMOST),), x.shape)
            if wanted is not None:
                return self.ordered(x, wanted)
        return self.ordered(x, node.args[0].aval.layout)

    def _is_laid(self, node: Node, args: tuple[Value, ...]) -> bool:
        """Whether the device has a kernel for images of which channels lie innermost."""
        if node.params["data_format"] != NCHW:
            return False
        x, *others = (a.aval for a in args)
        kernel = self.builder.kernel(node.op, (x.having(layout=CHANNELS_INNERMOST), *others), node.items)
        if kernel is None or kernel.layouts is None:
            return False
        if node.args[0].aval.layout != CHANNELS_INNERMOST:
            self.convolutions += 1
            if kernel.library is not None:
                self.flops += node.op.cost((x, *others), node.avals, **node.params).flops
        return True


@whole_graph(of=(conv2d, conv2d_integer), numerics=ROUNDING)  # sums over windows are taken in another order there
def lay_channels_innermost(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Images of the format NCHW have channels innermost where convolutions are many, or heavy and a library's."""
    seen = builder.seen(order)
    convolutions = [n for op in (conv2d, conv2d_integer) for n in seen.of(op) if n.params["data_format"] == NCHW]
    if len(convolutions) < (1 if builder.has_libraries else FEW):
        return roots, 0
    laying = _Laying(builder)
    for node in order:
        builder.where = node.origin
        laying.done[node] = laying.node(node)
    found = tuple(laying.ordered(now(laying.done, r), r.aval.layout) for r in roots)
    if not laying.convolutions or not laying.is_worth_it:
        return roots, 0
    return found, laying.convolutions
