"""Any table as a picture that a notebook shows: a dot and an interval a row, or points and lines of two columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from nnc_func.errors import PlanError
from nnc_func.graph.pictures.svg import FAINT, clipped, document, element, hue, text, title, width_of

WIDTH, ROW, TOP, BOTTOM, RIGHT = 620.0, 20.0, 40.0, 44.0, 96.0  # pixels; of a row, above, below, for numbers
HEIGHT = 320.0  # of a plot of two columns
LETTERS = 32  # of a label
SPREAD = 30.0  # largest / smallest number from which an axis is logarithmic
GRID, FRAME = "#d8dee4", "#8c959f"


@frozen
class Plot:
    """A picture: a notebook shows it where a cell ends with it.

    Attributes
    ----------
    svg
        Its text, which is a file of its own.
    """

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<plot: {len(self.svg)} characters of SVG>"

    def save(self, path: str | Path) -> None:
        """Write it to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


@frozen
class _Axis:
    """Numbers to places from 0 to 1."""

    least: float
    most: float
    is_log: bool

    @classmethod
    def of(cls, numbers: Sequence[float], is_log: bool | None) -> _Axis:
        least, most = min(numbers), max(numbers)
        if is_log and least <= 0:
            raise PlanError(f"a logarithmic axis has numbers above 0, given {least:g}")
        if is_log is None:
            is_log = least > 0 and most > SPREAD * least
        if least == most:
            least, most = (least / 2, most * 2) if is_log else (least - abs(least or 1) / 2, most + abs(most or 1) / 2)
        pad = 0.04 * (math.log(most / least) if is_log else most - least)
        return cls(*((least / math.exp(pad), most * math.exp(pad)) if is_log else (least - pad, most + pad)), is_log)

    def place(self, number: float) -> float:
        if self.is_log:
            return math.log(number / self.least) / math.log(self.most / self.least)
        return (number - self.least) / (self.most - self.least)

    @property
    def ticks(self) -> list[float]:
        """Round numbers: about five, or powers of ten and what is between them."""
        if self.is_log:
            powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
            steps = (1,) if len(powers) > 4 else (1, 2, 5)
            every = 1 if len(powers) < 10 else -(-len(powers) // 8)
            found = [s * 10.0**p for p in powers if p % every == 0 for s in steps]
        else:
            step = round_step((self.most - self.least) / 5)
            found = [step * i for i in range(math.ceil(self.least / step), math.floor(self.most / step) + 1)]
        return [t for t in found if self.least <= t <= self.most]


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times powers of ten that is as large.

    Examples
    --------
    >>> round_step(3.2), round_step(0.011), round_step(200)
    (5.0, 0.02, 200.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(round(m * power, 15) for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def plot(
    table: Any,
    x: str | None = None,
    y: str | None = None,
    *,
    by: str | None = None,
    interval: tuple[str, str] = ("low", "high"),
    lines: bool = False,
    log: bool | None = None,
    heading: str = "",
) -> Plot:
    """Draw a table.

    Without `y`, or where that column has words, each row is a dot at its `x`, in the order of the table, with its
    interval where the table has one. Where both columns have numbers, each row is a point. What has no number in a
    column that is drawn is left out, and is told of.

    Parameters
    ----------
    table
        Rows as dictionaries, all that this library's comparisons return; or whatever has ``to_dict("records")``, as
        data frames do.
    x
        A column of numbers; None: the first.
    y
        A column of words or of numbers; None: the first of words.
    by
        A column whose values have a colour each, of points.
    interval
        The columns with the bounds of what stands in `x`.
    lines
        Join the points of a colour, in the order of the table.
    log
        Whether axes of numbers are logarithmic; None: where the numbers are spread over more than a factor of 30.
    heading
        Words above it.

    Raises
    ------
    PlanError
        The table has no rows or no such column, or no number in it.

    Examples
    --------
    >>> rows = [{"order": "depth_first", "mean": 1.0, "low": 0.9, "high": 1.1}, {"order": "exact", "mean": 0.8}]
    >>> plot(rows)
    <plot: ... characters of SVG>
    """
    rows = _rows(table)
    x = x or _first(rows, _is_number, "numbers")
    y = y or _first(rows, lambda v: isinstance(v, str), "words")
    for name in filter(None, (x, y, by)):
        if not any(name in row for row in rows):
            raise PlanError(
                f"the table has no column {name!r}; it has: {', '.join(dict.fromkeys(k for r in rows for k in r))}"
            )
    if all(_is_number(row.get(y)) or row.get(y) is None for row in rows):
        return _points(rows, x, y, by, lines, log, heading)
    return _dots(rows, x, y, interval, log, heading)


def _rows(table: Any) -> list[Mapping[str, Any]]:
    found = table.to_dict("records") if hasattr(table, "to_dict") else list(table)
    if not found or not all(isinstance(row, Mapping) for row in found):
        raise PlanError(f"wanted rows, as dictionaries, one or more; given {table!r:.60}")
    return found


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, (int, float)) or hasattr(value, "__float__")
    return is_real and not isinstance(value, (bool, str)) and math.isfinite(value)


def _first(rows: Sequence[Mapping[str, Any]], suits: Any, what: str) -> str:
    for name in dict.fromkeys(k for row in rows for k in row):
        if any(suits(row.get(name)) for row in rows):
            return name
    raise PlanError(f"the table has no column of {what}: its first row is {dict(rows[0])!r:.80}")


def _numbers(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    found = [float(row[name]) for row in rows if _is_number(row.get(name))]
    if not found:
        raise PlanError(f"column {name!r} has no number that can be drawn")
    return found


def _dots(
    rows: Sequence[Mapping[str, Any]], x: str, y: str, interval: tuple[str, str], log: bool | None, heading: str
) -> Plot:
    low, high = interval
    ends = [float(row[e]) for row in rows for e in interval if _is_number(row.get(e)) and _is_number(row.get(x))]
    axis = _Axis.of(_numbers(rows, x) + ends, log)
    labels = [clipped(str(row.get(y)), LETTERS) for row in rows]
    left = 16 + max(width_of(label, 11) for label in labels)
    height = ROW * len(rows)
    parts = [*_heading(heading, left), *_across(axis, left, height, x.replace("_", " "))]
    for n, (row, label) in enumerate(zip(rows, labels, strict=True)):
        middle = TOP + ROW * (n + 0.5)
        parts.append(text(label, left - 8, middle + 4, 11, text_anchor="end"))
        if not _is_number(row.get(x)):
            parts.append(text("no number", left + 6, middle + 4, 10, fill=FAINT))
            continue
        at = left + WIDTH * axis.place(float(row[x]))
        inside = [title("\n".join(f"{k}: {v:.6g}" if isinstance(v, float) else f"{k}: {v}" for k, v in row.items()))]
        if _is_number(row.get(low)) and _is_number(row.get(high)):
            first, last = (left + WIDTH * axis.place(float(row[e])) for e in interval)
            inside.append(element("path", d=f"M{first:.1f} {middle:.1f}H{last:.1f}", stroke="#0b5cad", stroke_width=2))
            inside += [
                element("path", d=f"M{e:.1f} {middle - 4:.1f}v8", stroke="#0b5cad", stroke_width=2)
                for e in (first, last)
            ]
        inside.append(element("circle", cx=at, cy=middle, r=4.5, fill="#0b5cad"))
        parts.append(element("g", *inside))
        parts.append(text(f"{float(row[x]):.4g}", left + WIDTH + 8, middle + 4, 11, fill=FAINT))
    return Plot(document(left + WIDTH + RIGHT, TOP + height + BOTTOM, *parts, label=heading or x))


def _points(
    rows: Sequence[Mapping[str, Any]], x: str, y: str, by: str | None, lines: bool, log: bool | None, heading: str
) -> Plot:
    shown = [row for row in rows if _is_number(row.get(x)) and _is_number(row.get(y))]
    across, up = _Axis.of(_numbers(shown, x), log), _Axis.of(_numbers(shown, y), log)
    left = 72.0
    parts = [*_heading(heading, left), *_across(across, left, HEIGHT, x.replace("_", " "))]
    for tick in up.ticks:
        at = TOP + HEIGHT * (1 - up.place(tick))
        parts.append(element("path", d=f"M{left} {at:.1f}h{WIDTH}", stroke=GRID, stroke_width=0.7))
        parts.append(text(f"{tick:g}", left - 6, at + 3.5, 10, text_anchor="end", fill=FAINT))
    turned = f"rotate(-90 14 {TOP + HEIGHT / 2:.0f})"
    parts.append(
        text(y.replace("_", " "), 14, TOP + HEIGHT / 2, 10, fill=FAINT, text_anchor="middle", transform=turned)
    )
    kinds = list(dict.fromkeys(str(row.get(by)) for row in shown)) if by else [""]
    longest = max(width_of(clipped(kind, LETTERS), 10) for kind in kinds)
    for n, kind in enumerate(kinds):
        colour = hue(n, 0.42 + 0.16 * (n // 5 % 2), 0.7)
        places = [
            (left + WIDTH * across.place(float(r[x])), TOP + HEIGHT * (1 - up.place(float(r[y]))))
            for r in shown
            if not by or str(r.get(by)) == kind
        ]
        if lines:
            path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
            parts.append(element("path", title(kind), d=path, fill="none", stroke=colour, stroke_width=1.6))
        parts += [element("circle", title(kind), cx=a, cy=b, r=2.5 if lines else 4.0, fill=colour) for a, b in places]
        if by:
            at = TOP + 14 * n
            parts.append(element("rect", x=left + WIDTH + 10, y=at, width=10, height=10, fill=colour))
            parts.append(text(clipped(kind, LETTERS), left + WIDTH + 25, at + 9, 10, fill=FAINT))
    if len(shown) < len(rows):
        parts.append(text(f"{len(rows) - len(shown)} rows without numbers are left out", left, TOP - 6, 9, fill=FAINT))
    height = max(HEIGHT, 14.0 * len(kinds))
    width = left + WIDTH + (longest + 40 if by else 20)
    return Plot(document(width, TOP + height + BOTTOM, *parts, label=heading or f"{y} by {x}"))


def _heading(words: str, left: float) -> list[str]:
    return [text(words, left, 20, 13, font_weight="bold")] if words else []


def _across(axis: _Axis, left: float, height: float, name: str) -> list[str]:
    parts = []
    for tick in axis.ticks:
        at = left + WIDTH * axis.place(tick)
        parts.append(element("path", d=f"M{at:.1f} {TOP}v{height}", stroke=GRID, stroke_width=0.7))
        parts.append(text(f"{tick:.6g}", at, TOP + height + 15, 10, text_anchor="middle", fill=FAINT))
    parts.append(element("rect", x=left, y=TOP, width=WIDTH, height=height, fill="none", stroke=FRAME))
    name = f"{name}, logarithmic" if axis.is_log else name
    parts.append(text(name, left + WIDTH, TOP + height + 32, 10, text_anchor="end", fill=FAINT))
    return parts
