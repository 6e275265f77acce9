"""Pictures of graphs: SVG drawn without Graphviz, and Graphviz's language for those who have it.

A node is a record, as in Owl's figures: number, operator, reference count r, shape s, memory block b.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from attrs import frozen

from nnc_func.graph.leaves import CONSTANT, HELD, LEAVES, VARIABLE
from nnc_func.graph.node import Node
from nnc_func.graph.pictures.layered import Layout, layered
from nnc_func.graph.pictures.records import Record, records
from nnc_func.graph.pictures.svg import (
    FAINT,
    INK,
    clipped,
    document,
    element,
    escaped,
    hue,
    page,
    sized,
    text,
    title,
    width_of,
)

ONE_BY_ONE = 1500  # nodes; above, a summary is drawn
MARGIN, GAP, ROW, BETWEEN = 24, 18, 17, 46  # pixels: around, between boxes, a line of text, between layers
WIDEST = 34  # characters in a box
STYLES: Mapping[str, tuple[str, dict[str, Any]]] = {  # fill, and how the border is drawn
    "input": ("#ddebff", {"stroke": "#0b5cad", "stroke_width": 2, "rx": 17}),
    "variable": ("#fff3d6", {"stroke": "#9a6700", "stroke_width": 2, "rx": 6}),
    "constant": ("#ffffff", {"stroke": "#656d76", "stroke_dasharray": "4 2", "rx": 6}),
    "operator": ("#f6f8fa", {"stroke": "#57606a", "rx": 0}),
}


def svg(graph: Any, plan: Any = None, blocks: Mapping[Node, int] | None = None) -> str:
    """The graph as a picture, drawn without Graphviz. Above 1,500 nodes it is a summary by operator, and says so.

    Parameters
    ----------
    plan
        Colours nodes by the buffer that their result lives in: equal colour, shared memory.
    blocks
        Those buffers, by node, where they are known; else they are found from the plan.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> program = lazy.compile(inputs=[x], outputs=[x * x + 1])
    >>> svg(program.graph, program.plan).startswith("<svg ")
    True
    """
    if len(graph.nodes) > ONE_BY_ONE:
        return _summary(graph)
    return _drawn(graph, records(graph, plan, blocks))


def html(graph: Any, plan: Any = None, blocks: Mapping[Node, int] | None = None) -> str:
    """A page that needs nothing else: the picture, and below it the graph as text; parameters as of `svg`."""
    said = ", ".join(f"{number:,} {what}" for what, number in graph.statistics.items())
    picture = element("figure", svg(graph, plan, blocks))
    return page(graph.name, element("p", said), picture, element("h2", "Text"), element("pre", escaped(str(graph))))


def dot(graph: Any, plan: Any = None, blocks: Mapping[Node, int] | None = None) -> str:
    """The graph in Graphviz's language; parameters as of `svg`."""
    rows = [f"digraph {_dot_string(graph.name)} {{", '  node [shape=record, fontname="monospace", fontsize=10];']
    found = records(graph, plan, blocks)
    style = {"input": "rounded,filled,bold", "variable": "rounded,filled,bold", "constant": "dashed,filled"}
    for r in found.values():
        head = "\\n".join(_dot_words(w) for w in (r.head, r.params, r.ends) if w)
        label = f"{{#{r.number} | {{{head} | {_dot_words(_facts(r))}}}}}"
        rows.append(
            f'  n{r.number} [label="{label}", style="{style.get(r.kind, "filled")}", fillcolor="{_fill(r)}", '
            f"tooltip={_dot_string(r.description)}];"
        )
    rows += [f"  n{found[a.node].number} -> n{r.number};" for node, r in found.items() for a in node.args]
    return "\n".join([*rows, "}"])


def _dot_string(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _dot_words(words: str) -> str:
    escaped = "".join(f"\\{c}" if c in '\\{}|<>"' else c for c in words)
    return escaped.replace("\n", "\\n")


def _facts(r: Record) -> str:
    return f"r:{r.uses} s:{r.shape}" + (f" b:{r.block}" if r.block is not None else "")


def _fill(r: Record) -> str:
    return STYLES[r.kind][0] if r.block is None else hue(r.block)


# --- layers and boxes -------------------------------------------------------------------------------------


@frozen
class _Box:
    """A node's lines of text, and how large they are."""

    record: Record
    lines: tuple[str, ...]

    @property
    def aside(self) -> float:
        """Width of the cell with the number."""
        return width_of(f"#{self.record.number}", 10) + 10

    @property
    def width(self) -> float:
        """Of it all."""
        return self.aside + max(width_of(line) for line in self.lines) + 16

    @property
    def height(self) -> float:
        """Of it all."""
        return len(self.lines) * ROW + 8


def _box(r: Record) -> _Box:
    head = clipped(f"{r.head} {r.params}".strip(), WIDEST)
    block = f" b:{r.block}" if r.block is not None else ""
    facts = clipped(f"r:{r.uses} s:{r.shape}", WIDEST - len(block)) + block
    return _Box(r, (head, facts, clipped(r.ends, WIDEST)) if r.ends else (head, facts))


def _layers(nodes: Sequence[Node]) -> list[int]:
    """Longest paths from the inputs; variables and constants go just above what reads them first."""
    layer: dict[Node, int] = {}
    first: dict[Node, int] = {}
    moved = {n for n in nodes if n.op in (VARIABLE, CONSTANT, HELD)}
    for node in nodes:
        layer[node] = 1 + max((layer[a.node] for a in node.args), default=-1)
        for a in node.args:
            first[a.node] = min(first.get(a.node, layer[node]), layer[node])
    return [max(first.get(n, 1) - 1, 0) if n in moved else layer[n] for n in nodes]


def _drawn(graph: Any, found: Mapping[Node, Record]) -> str:
    nodes = list(found)
    position = {n: i for i, n in enumerate(nodes)}
    boxes = [_box(r) for r in found.values()]
    edges = [(position[a.node], i) for i, n in enumerate(nodes) for a in n.args]
    layout = layered(_layers(nodes), edges, [b.width for b in boxes], GAP)
    tops, bottom = _rows(layout, boxes)
    head, width = _legend(graph, found)
    body = element(
        "g",
        *_edges(nodes, position, boxes, layout, tops),
        *(_record(b, layout.x[i] - b.width / 2, tops[layout.layer[i]]) for i, b in enumerate(boxes)),
        transform=f"translate({MARGIN} {MARGIN + 46})",
    )
    return document(
        max(layout.width, width) + 2 * MARGIN,
        bottom + 2 * MARGIN + 46,
        _ARROW,
        *head,
        body,
        label=f"graph {graph.name}: {len(nodes)} nodes",
    )


def _rows(layout: Layout, boxes: Sequence[_Box]) -> tuple[list[float], float]:
    """Where each layer begins, and where the last one ends."""
    heights = [0.0] * (max(layout.layer, default=-1) + 1)
    for level, box in zip(layout.layer, boxes, strict=True):
        heights[level] = max(heights[level], box.height)
    tops, at = [], 0.0
    for height in heights:
        tops.append(at)
        at += height + BETWEEN
    return tops, at - BETWEEN if heights else 0.0


def _record(box: _Box, x: float, y: float) -> str:
    r, border = box.record, STYLES[box.record.kind][1]
    middle = y + box.height / 2
    parts = [
        title(r.description),
        element("rect", x=x, y=y, width=box.width, height=box.height, fill=_fill(r), **border),
        element(
            "path",
            d=f"M{x + box.aside:.1f} {y + 3:.1f}V{y + box.height - 3:.1f}",
            stroke=border["stroke"],
            stroke_opacity=0.35,
        ),
        text(f"#{r.number}", x + box.aside / 2 + 1, middle + 3.5, 10, text_anchor="middle", fill=FAINT),
    ]
    styles: tuple[dict[str, Any], ...] = ({"font_weight": "bold"}, {"fill": FAINT}, {"fill": "#0a6640"})
    for i, (line, style) in enumerate(zip(box.lines, styles, strict=False), 1):
        parts.append(text(line, x + box.aside + 8, y + ROW * i - 1, **style))
    return element("g", *parts)


# --- edges ------------------------------------------------------------------------------------------------

_ARROW = element(
    "defs",
    element(
        "marker",
        element("path", d="M0 0L7 3L0 6Z", fill=FAINT),
        id="arrow",
        markerWidth=7,
        markerHeight=6,
        refX=6,
        refY=3,
        orient="auto",
    ),
)


def _edges(
    nodes: Sequence[Node], position: Mapping[Node, int], boxes: Sequence[_Box], layout: Layout, tops: Sequence[float]
) -> list[str]:
    """Curves from below a node to above its users, one for each operand, in the order of the operands."""
    drawn, tags, starts = [], [], []
    for u, box in enumerate(boxes):
        path = [(layout.x[u], tops[layout.layer[u]] + box.height)]
        for x, level in layout.trunks.get(u, ()):
            path += [(x, tops[level]), (x, tops[level] + 2 * ROW)]
        drawn += [_curve(step, False) for step in pairwise(path)]
        starts.append(path[::2])
    for i, node in enumerate(nodes):
        box, level = boxes[i], layout.layer[i]
        for at, operand in enumerate(node.args):
            u = position[operand.node]
            x = layout.x[i] + box.width * ((at + 1) / (len(node.args) + 1) - 0.5)
            if (u, i) in layout.cut:
                tags.append(_tag(boxes[u].record.number, x, tops[level]))
            else:
                drawn.append(_curve((starts[u][level - layout.layer[u] - 1], (x, tops[level] - 1)), True))
    return [*dict.fromkeys(drawn), *tags]


def _tag(number: int, x: float, y: float) -> str:
    words = text(f"#{number}", x, y - 12, 9, text_anchor="middle", fill=FAINT)
    return element("g", title(f"from #{number}, far above"), words, _curve(((x, y - 9), (x, y - 1)), True))


def _curve(step: Sequence[tuple[float, float]], arrow: bool) -> str:
    (x, y), (u, v) = step
    bend = (v - y) * 0.5
    shape = f"M{x:.1f} {y:.1f}" + (
        f"V{v:.1f}" if abs(x - u) < 0.05 else f"C{x:.1f} {y + bend:.1f} {u:.1f} {v - bend:.1f} {u:.1f} {v:.1f}"
    )
    end = {"marker_end": "url(#arrow)"} if arrow else {}
    return element("path", d=shape, fill="none", stroke="#8c959f", stroke_width=1.2, **end)


# --- words around the picture -----------------------------------------------------------------------------


def _legend(graph: Any, found: Mapping[Node, Record]) -> tuple[list[str], float]:
    """The graph's name and what signs mean, in two lines; and how wide they are."""
    counted = graph.statistics
    name = f"graph {clipped(graph.name, 40)}: {counted['nodes']} nodes, {counted['edges']} edges"
    parts = [text(name, MARGIN, MARGIN + 2, 13, font_weight="bold", fill=INK)]
    at = float(MARGIN)
    for kind in (k for k in STYLES if any(r.kind == k for r in found.values())):
        fill, border = STYLES[kind]
        parts.append(element("rect", x=at, y=MARGIN + 13, width=22, height=13, fill=fill, **{**border, "rx": 4}))
        parts.append(text(kind, at + 28, MARGIN + 24, 10, fill=FAINT))
        at += 28 + width_of(kind, 10) + 16
    said = "#: number, r: times read, s: shape"
    if any(r.block is not None for r in found.values()):
        said += ", b: memory block (same colour, same memory)"
    parts.append(text(said, at, MARGIN + 24, 10, fill=FAINT))
    return parts, max(at + width_of(said, 10) - MARGIN, width_of(name, 13))


def _summary(graph: Any) -> str:
    """How often each operator is there, and how many bytes it makes, where that is known."""
    counts: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for node in graph.nodes:
        name = node.op.name if node.op not in LEAVES else f"({node.op.name})"
        counts[name] += 1
        made[name] += sum(a.nbytes for a in node.avals if isinstance(a.nbytes, int))
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    across, most = 190.0, rows[0][1]
    parts = [
        text(f"graph {clipped(graph.name, 40)}: {len(graph.nodes)} nodes", MARGIN, MARGIN + 2, 13, font_weight="bold"),
        text(
            f"More than {ONE_BY_ONE} nodes are not drawn one by one: this is a summary by operator.",
            MARGIN,
            MARGIN + 22,
            10,
            fill=FAINT,
        ),
    ]
    for i, (name, count) in enumerate(rows):
        y = MARGIN + 40.0 + i * 20
        told, length = f"{count} × {name}, results of {sized(made[name])}", max(1.0, 360 * count / most)
        parts.append(
            element(
                "g",
                title(told),
                text(clipped(name, 26), MARGIN + across - 8, y + 11, text_anchor="end"),
                element("rect", x=MARGIN + across, y=y, width=length, height=14, fill=hue(i, 0.72)),
                text(f"{count} nodes, {sized(made[name])}", MARGIN + across + length + 8, y + 11, 10, fill=FAINT),
            )
        )
    return document(
        across + 560 + 2 * MARGIN,
        MARGIN * 2 + 40 + 20 * len(rows),
        *parts,
        label=f"graph {graph.name}: {len(graph.nodes)} nodes, by operator",
    )
