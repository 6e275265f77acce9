"""Pictures of plans: the memory map, the load of the arena over time, its fragmentation, and a page of all three.

What is drawn is what the plan says: nothing is planned or checked here.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from attrs import frozen

from nnc_func.engine.drawing import streams
from nnc_func.engine.plan_rows import ARENA, Buffer
from nnc_func.facets.places import Place
from nnc_func.graph.origin import describe
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

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

LEFT, RIGHT, TOP, WIDTH, HEIGHT, LOW = 86.0, 24.0, 62.0, 900.0, 420.0, 110.0  # pixels
MOST = 20_000  # rectangles; of more buffers, those of the largest area are drawn
LIGHTNESS = (0.74, 0.56, 0.84, 0.66)  # of colours, five at a time
LINE = 16.0  # pixels from one line of the legend to the next
LARGEST = 20


@frozen
class Tenant:
    """An arena buffer, and who wrote it.

    Attributes
    ----------
    number, buffer
        Which buffer.
    operator
        Name of the operator that writes it first; empty where the plan has no instructions, as one read from a trace.
    writes
        What is told of each write, in order.
    is_scratch
        Whether that operator works in it, and none of its results is there.
    base
        Where its arena begins, in bytes: those of other places are drawn above the first.
    """

    number: int
    buffer: Buffer
    operator: str
    writes: tuple[str, ...]
    base: int = 0
    is_scratch: bool = False

    @property
    def description(self) -> str:
        """All of it."""
        b = self.buffer
        rows = [
            f"buffer {self.number}: {sized(b.nbytes)} ({b.nbytes} bytes) at offset {b.offset}"
            + ("" if b.place is None else f" on {b.place}"),
            f"alive at steps [{b.lower}, {b.upper})",
            self.written,
        ]
        return "\n".join(filter(None, rows))

    @property
    def written(self) -> str:
        """What of it is the same wherever it lies."""
        more = [f"and {len(self.writes) - 6} more writes"] if len(self.writes) > 6 else []
        return "\n".join([*self.writes[:6], *more])


def tenants(plan: Plan) -> list[Tenant]:
    """The arena's buffers, with the slots that live in them."""
    writes: dict[int, list[str]] = {}
    first: dict[int, tuple[str, bool]] = {}
    for t, i in enumerate(plan.instructions):
        where = describe(i.origin)
        for slot in (*i.results, *i.scratch):
            s = plan.slots[slot]
            what = "scratch of " if slot in i.scratch else "shown by " if i.view else ""
            first.setdefault(s.buffer, (i.op.name, slot in i.scratch))
            writes.setdefault(s.buffer, []).append(
                f"step {t}: %{slot} {s.aval!r}, {what}{i.op.name}" + (f" at {where}" if where else "")
            )
    bases = _bases(plan)
    return [
        Tenant(n, b, operator, tuple(writes.get(n, ())), bases[b.place], is_scratch)
        for n, b in enumerate(plan.buffers)
        if b.kind == ARENA
        for operator, is_scratch in (first.get(n, ("", False)),)
    ]


def _bases(plan: Plan) -> dict[Place, int]:
    """Where each place's arena begins in the picture, in bytes: one above the other."""
    return dict(zip(plan.arenas, accumulate(plan.arenas.values(), initial=0), strict=False))


def _whole(plan: Plan) -> int:
    return sum(plan.arenas.values())


def _arena_sizes(plan: Plan) -> str:
    """How large the arenas are."""
    return sized(plan.arena_bytes) + "".join(f" and {sized(n)} on {place}" for place, n in plan.elsewhere)


def load(found: Sequence[Tenant], steps: int) -> list[int]:
    """Bytes alive at each step."""
    change = [0] * (steps + 1)
    for tenant in found:
        change[min(tenant.buffer.lower, steps)] += tenant.buffer.nbytes
        change[min(tenant.buffer.upper, steps)] -= tenant.buffer.nbytes
    return list(accumulate(change))[:steps]


def reach(found: Sequence[Tenant], steps: int) -> list[int]:
    """The end of the highest buffer alive at each step, summed over places."""
    bases = {tenant.base for tenant in found}
    if len(bases) > 1:
        apart = [reach([t for t in found if t.base == base], steps) for base in sorted(bases)]
        return [sum(ends) for ends in zip(*apart, strict=True)]
    rest = sorted(found, key=lambda tenant: tenant.buffer.lower, reverse=True)
    alive: list[tuple[int, int]] = []
    ends = []
    for t in range(steps):
        while rest and rest[-1].buffer.lower <= t:
            b = rest.pop().buffer
            heapq.heappush(alive, (-(b.offset + b.nbytes), b.upper))
        while alive and alive[0][1] <= t:
            heapq.heappop(alive)
        ends.append(-alive[0][0] if alive else 0)
    return ends


def _steps(plan: Plan, found: Sequence[Tenant]) -> int:
    return max([len(plan.instructions), *(t.buffer.upper for t in found)])


# --- pictures ---------------------------------------------------------------------------------------------


def svg(plan: Plan) -> str:
    """The memory map: time across, offset up, one rectangle a buffer, coloured by the operator that writes it first.

    Below it the bytes alive, against the size of the arena, and where there are several streams a lane for each.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> svg(lazy.compile(inputs=[x], outputs=[x * 2 + 1]).plan).startswith("<svg ")
    True
    """
    found = tenants(plan)
    steps = _steps(plan, found)
    high = TOP + HEIGHT + 56
    low = high + LOW + 56
    colours = _colours(found)
    legend, more = _legend(colours)
    parts = [*_map(plan, found, steps, colours), *_curve(plan, load(found, steps), high)]
    parts += streams.lanes(plan, steps, LEFT, low, WIDTH)
    below = element("g", *parts, transform=f"translate(0 {more:.0f})")
    height = low - 16 + streams.height(plan) + more
    return document(LEFT + WIDTH + RIGHT, height, *_head(plan), *legend, below, label=_summary(plan))


def html(plan: Plan) -> str:
    """A page that needs nothing else: the memory map, load, fragmentation, and the largest buffers.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> html(lazy.compile(inputs=[x], outputs=[x * 2 + 1]).plan).startswith("<!doctype html>")
    True
    """
    found = tenants(plan)
    steps = _steps(plan, found)
    pairs = zip(load(found, steps), reach(found, steps), strict=True)
    lost = [100 * (1 - alive / end) if end else None for alive, end in pairs]
    body = (
        element("p", escaped(_summary(plan))),
        element("figure", svg(plan)),
        element("h2", "Fragmentation"),
        element("p", "The part of the arena below the highest buffer alive that no buffer uses, while there is one."),
        element("figure", _fragmentation(lost)),
        element("h2", f"The {LARGEST} largest buffers"),
        _table(found),
        element("script", _SCRIPT),
    )
    return page("Memory plan", *body, style=_STYLE)


_STYLE = """
table { border-collapse: collapse; font-size: 12px; width: 100%; } td, th { padding: 3px 8px; text-align: left; }
tr { border-bottom: 1px solid #d0d7de; } td.number, th.number { text-align: right; white-space: nowrap; }
.marked rect, rect.marked { stroke: #cf222e; stroke-width: 2.5; } tr.marked { background: #fff1c2; }
"""

_SCRIPT = """
for (const one of document.querySelectorAll('[data-buffer]')) {
  const all = document.querySelectorAll(`[data-buffer="${one.dataset.buffer}"]`);
  const mark = on => all.forEach(each => each.classList.toggle('marked', on));
  one.addEventListener('mouseenter', () => mark(true));
  one.addEventListener('mouseleave', () => mark(false));
}
"""


def _summary(plan: Plan) -> str:
    return (
        f"{plan.kernels} kernels, {len(plan.planned)} buffers in an arena of {_arena_sizes(plan)} "
        f"({_whole(plan)} bytes), max load {sized(plan.max_load)}, ratio {plan.ratio:.4f}, "
        f"without sharing {sized(plan.unshared_bytes)}; order {plan.order or 'unnamed'}, "
        f"allocator {plan.allocator or 'unnamed'}" + (f"; {plan.streams} streams" if plan.streams > 1 else "")
    )


def coloured(areas: Iterable[tuple[str, int]]) -> dict[str, str]:
    """A colour for each operator, those first that hold the most bytes for the longest time.

    Examples
    --------
    >>> coloured([("exp", 1), ("", 9), ("sort", 2), ("exp", 3)])
    {'exp': '#e49595', 'sort': '#ce95e4'}
    """
    area: Counter[str] = Counter()
    for name, each in areas:
        area[name] += each
    names = sorted(filter(None, area), key=lambda name: (-area[name], name))
    return {name: hue(i, LIGHTNESS[i // 5 % len(LIGHTNESS)], 0.6) for i, name in enumerate(names)}


def _colours(found: Sequence[Tenant]) -> dict[str, str]:
    return coloured((t.operator, t.buffer.nbytes * (t.buffer.upper - t.buffer.lower)) for t in found)


def _head(plan: Plan) -> list[str]:
    size, most = _arena_sizes(plan), sized(plan.max_load)
    counts = f"{len(plan.planned)} buffers, {plan.kernels} kernels"
    counts += f", {plan.streams} streams" if plan.streams > 1 else ""
    return [text(f"arena {size}, max load {most}, ratio {plan.ratio:.4f}, {counts}", 16, 22, 13, font_weight="bold")]


def _map(plan: Plan, found: Sequence[Tenant], steps: int, colours: dict[str, str]) -> list[str]:
    parts = []
    across, up = WIDTH / max(steps, 1), HEIGHT / max(_whole(plan), 1)
    drawn = sorted((t for t in found if t.buffer.nbytes), key=_area, reverse=True)
    for tenant in drawn[:MOST]:
        b = tenant.buffer
        x, y = LEFT + b.lower * across, TOP + HEIGHT - (tenant.base + b.offset + b.nbytes) * up
        width, height = (b.upper - b.lower) * across, b.nbytes * up
        fill = colours[tenant.operator] if tenant.operator else hue(tenant.number, 0.74, 0.6)
        inside = [title(tenant.description), _rectangle(x, y, width, height, fill)]
        if height > 12 and width > width_of(tenant.operator, 9) + 6:
            inside.append(text(tenant.operator, x + 3, y + min(height / 2 + 3, 12), 9, pointer_events="none"))
        parts.append(element("g", *inside, data_buffer=tenant.number))
    if len(drawn) > MOST:
        parts.append(text(f"the {MOST} largest of {len(drawn)} buffers", LEFT, TOP - 6, 9, fill=FAINT))
    if not drawn:
        middle = LEFT + WIDTH / 2, TOP + HEIGHT / 2
        parts.append(text("no buffer is in the arena", *middle, text_anchor="middle", fill=FAINT))
    for place, base in _bases(plan).items():
        if place is not None:
            y = TOP + HEIGHT - base * up
            parts.append(element("path", d=f"M{LEFT} {y:.1f}h{WIDTH}", stroke=INK, data_place=place))
            parts.append(text(f"on {place}", LEFT + 4, y - 4, 9, fill=INK))
    if 0 < plan.commit < len(plan.instructions):
        x = LEFT + plan.commit * across
        parts.append(element("path", d=f"M{x:.1f} {TOP}V{TOP + HEIGHT}", stroke="#cf222e", stroke_dasharray="5 3"))
        anchor = "end" if plan.commit > steps / 2 else "start"
        parts.append(text("commit", x + (-4 if anchor == "end" else 4), TOP - 4, 9, text_anchor=anchor, fill="#cf222e"))
    return [*_grid(TOP, HEIGHT, _whole(plan), steps, "offset"), *parts]


def _area(tenant: Tenant) -> tuple[int, int]:
    b = tenant.buffer
    return b.nbytes * (b.upper - b.lower), -tenant.number


def _rectangle(x: float, y: float, width: float, height: float, fill: str) -> str:
    """With a border where it is large enough to be seen beside one."""
    border = {"stroke": "#57606a", "stroke_width": 0.6} if min(width, height) > 3 else {}
    shape = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{max(width, 0.3):.2f}", "height": f"{max(height, 0.3):.2f}"}
    return element("rect", **shape, fill=fill, **border)


def _legend(colours: dict[str, str]) -> tuple[list[str], float]:
    """All operators, in as many lines as they need; and the height of all lines but the first."""
    parts, at, line = [], LEFT, 0.0
    for name, fill in colours.items():
        short = clipped(name, 60)
        if at > LEFT and at + width_of(short, 10) + 30 > LEFT + WIDTH:
            at, line = LEFT, line + LINE
        parts.append(
            element("rect", x=at, y=34 + line, width=10, height=10, fill=fill, stroke="#57606a", stroke_width=0.6)
        )
        parts.append(text(short, at + 14, 43 + line, 10, fill=FAINT))
        at += width_of(short, 10) + 26
    return parts, line


def _grid(top: float, height: float, most: float, steps: int, label: str, percent: bool = False) -> list[str]:
    """Axes: bytes (or per cent) upwards, steps to the right."""
    parts = []
    for value in _ticks(most, 5 if height > 200 else 3, binary=not percent):
        y = top + height - height * value / max(most, 1)
        words = f"{value:g} %" if percent else sized(value)
        parts.append(element("path", d=f"M{LEFT} {y:.1f}h{WIDTH}", stroke="#d8dee4", stroke_width=0.7))
        parts.append(text(words, LEFT - 6, y + 3.5, 10, text_anchor="end", fill=FAINT))
    for value in _ticks(steps, 10, binary=False):
        x = LEFT + WIDTH * value / max(steps, 1)
        parts.append(element("path", d=f"M{x:.1f} {top + height}v4", stroke=FAINT))
        parts.append(text(f"{value:g}", x, top + height + 15, 10, text_anchor="middle", fill=FAINT))
    parts.append(element("rect", x=LEFT, y=top, width=WIDTH, height=height, fill="none", stroke="#8c959f"))
    parts.append(
        text(
            label,
            14,
            top + height / 2,
            10,
            fill=FAINT,
            text_anchor="middle",
            transform=f"rotate(-90 14 {top + height / 2:.0f})",
        )
    )
    parts.append(text("instruction", LEFT + WIDTH, top + height + 29, 10, text_anchor="end", fill=FAINT))
    return parts


def _ticks(most: float, count: int, binary: bool) -> list[float]:
    """Round numbers from 0 to `most`, about `count` of them."""
    step = 1.0
    while most / step > count:
        step *= 2 if binary else 2.5 if f"{step:e}"[0] == "2" else 2
    return [step * i for i in range(int(most / step) + 1)]


def _outline(values: Sequence[float | None], top: float, height: float, most: float) -> str:
    """A curve that is constant during each step, closed at the bottom; it ends where there is no value."""
    across, up = WIDTH / max(len(values), 1), height / max(most, 1)
    path: list[str] = []
    last: float | None = None
    for t, value in enumerate((*values, None)):
        x = LEFT + t * across
        if value is not None and value != last:
            begin = f"M{x:.1f} {top + height:.1f}V" if last is None else f"H{x:.1f}V"
            path.append(f"{begin}{top + height - value * up:.1f}")
        elif value is None and last is not None:
            path.append(f"H{x:.1f}V{top + height:.1f}Z")
        last = value
    return "".join(path)


def _curve(plan: Plan, values: Sequence[int], top: float) -> list[str]:
    """Bytes alive, the most of them, and the arena."""
    most = max(_whole(plan), 1)
    peak = max(values, default=0)
    y = top + LOW - LOW * peak / most
    return [
        *_grid(top, LOW, _whole(plan), len(values), "load"),
        element("path", d=_outline(values, top, LOW, most), fill="#9ec5f8", stroke="#0b5cad", stroke_width=1),
        element("path", d=f"M{LEFT} {y:.1f}h{WIDTH}", stroke="#cf222e", stroke_dasharray="4 3"),
        text(f"at most {sized(peak)} alive; the box is as high as the arena", LEFT + 6, top - 6, 10, fill=INK),
    ]


def _fragmentation(lost: Sequence[float | None]) -> str:
    parts = [
        *_grid(24, LOW, 100, len(lost), "unused", percent=True),
        element("path", d=_outline(lost, 24, LOW, 100), fill="#ffd8b5", stroke="#9a6700", stroke_width=1),
    ]
    return document(LEFT + WIDTH + RIGHT, 24 + LOW + 40, *parts, label="fragmentation of the arena at each step")


def _table(found: Sequence[Tenant]) -> str:
    def row(tenant: Tenant) -> str:
        b = tenant.buffer
        cells: list[tuple[Any, bool]] = [
            (tenant.number, True),
            (sized(b.nbytes), True),
            (b.offset, True),
            (f"[{b.lower}, {b.upper})", True),
            ("; ".join(tenant.writes[:2]) + ("; …" if len(tenant.writes) > 2 else ""), False),
        ]
        inside = [element("td", escaped(w), **({"class_": "number"} if n else {})) for w, n in cells]
        return element("tr", *inside, data_buffer=tenant.number)

    heads = [("buffer", True), ("size", True), ("offset", True), ("alive", True), ("written by", False)]
    head = element("tr", *(element("th", h, **({"class_": "number"} if n else {})) for h, n in heads))
    largest = sorted(found, key=lambda tenant: (-tenant.buffer.nbytes, tenant.number))[:LARGEST]
    return element("table", element("thead", head), element("tbody", *map(row, largest)))
