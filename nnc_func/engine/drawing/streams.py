"""The streams of a plan as lanes: each kernel where it stands in the plan's order, and a line for each wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc_func.graph.origin import describe
from nnc_func.graph.pictures.svg import FAINT, element, hue, text, title, width_of

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

LANE = 26.0  # pixels from one lane to the next
MOST = 20_000  # rectangles, and lines


def height(plan: Plan) -> float:
    """Pixels that the lanes take; none where there is one stream."""
    return LANE * plan.streams + 24 if plan.streams > 1 else 0.0


def lanes(plan: Plan, steps: int, left: float, top: float, width: float) -> list[str]:
    """One lane a stream, one colour a lane.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> lanes(lazy.compile(inputs=[x], outputs=[x * 2 + 1]).plan, 2, 0.0, 0.0, 100.0)
    []
    """
    if plan.streams == 1:
        return []
    across = width / max(steps, 1)
    parts = [text(f"{sum(len(i.waits) for i in plan.instructions)} waits", left + 6, top - 5, 10, fill=FAINT)]
    for stream in range(plan.streams):
        y = top + LANE * stream
        parts.append(element("rect", x=left, y=y, width=width, height=LANE - 4, fill="#f6f8fa"))
        parts.append(text(f"stream {stream}", left - 6, y + 15, 10, text_anchor="end", fill=FAINT))
    boxes, lines = _drawn(plan, left, top, across)
    return [*parts, *boxes[:MOST], *lines[:MOST]]


def _drawn(plan: Plan, left: float, top: float, across: float) -> tuple[list[str], list[str]]:
    boxes, lines = [], []
    for t, i in enumerate(plan.instructions):
        if i.view:
            continue
        x, y = left + t * across, top + LANE * i.stream
        where = describe(i.origin)
        after = f", after {', '.join(map(str, i.waits))}" if i.waits else ""
        inside = [
            title(f"step {t}: {i.op.name}{f' at {where}' if where else ''}{after}"),
            element("rect", x=x, y=y, width=max(across, 0.3), height=LANE - 4, fill=hue(i.stream, 0.72)),
        ]
        if across > width_of(i.op.name, 9) + 6:
            inside.append(text(i.op.name, x + 3, y + 14, 9, pointer_events="none"))
        boxes.append(element("g", *inside, data_step=t, data_stream=i.stream))
        for w in i.waits:
            start = left + (w + 1) * across, top + LANE * plan.instructions[w].stream + (LANE - 4) / 2
            d = f"M{start[0]:.1f} {start[1]:.1f}L{x:.1f} {y + (LANE - 4) / 2:.1f}"
            lines.append(element("path", d=d, stroke="#1f2328", stroke_width=0.9, fill="none", data_wait=f"{w} {t}"))
    return boxes, lines
