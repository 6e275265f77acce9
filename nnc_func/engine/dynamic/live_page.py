"""What is alive of what was recorded as a page that notebooks show: each value, what it costs, and why it is kept.

A value is kept because a tensor holds it, or because it lies between two that are held: one below that was made of it,
and one above that it was made of, to which a gradient may flow. The page names the nearest of both, and what would be
freed if one were dropped. It takes its colours from where it is shown, and is as long for many values as for a few
hundred: those of most bytes are told one by one, all of them by operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from attrs import frozen

from nnc_func.engine.dynamic.records import PART, Record, Recording
from nnc_func.engine.dynamic.vacancies import Vacancy
from nnc_func.graph.origin import describe
from nnc_func.graph.pictures.svg import clipped, element, escaped, page, sized

MOST = 100  # values that are told one by one
KINDS = 24  # operators that are told one by one
NEAREST = 3  # held values that are named as a reason, below and above


@frozen(eq=False)
class Row:
    """A value on the page.

    Attributes
    ----------
    record
        What is recorded of it; of a constant, of what was made of it first.
    result
        Which result of the record it is, where no tensor holds that; else None.
    array, nbytes
        Its elements, and the bytes that they take.
    held
        Whether a tensor holds it.
    below, above
        Records that are held and were made of it, and that it was made of: the nearest, and one more if there are more.
    readers
        Of a constant, how many applications it is an operand of; else 0.
    """

    record: Record
    result: int | None
    array: Any
    nbytes: int
    held: bool
    below: tuple[Record, ...]
    above: tuple[Record, ...]
    readers: int = 0

    @property
    def name(self) -> str:
        """Its number, and what made it."""
        if self.readers:
            return "constant"
        return _named(self.record) if self.result is None else f"result {self.result} of {_named(self.record)}"

    @property
    def kind(self) -> str:
        """What made it, for the summary."""
        return "constant" if self.readers else "variable" if _variable(self.record) else _kind(self.record)

    @property
    def why(self) -> str:
        """Why it is kept, in words."""
        if self.readers:
            others = f" and {self.readers - 1} more" if self.readers > 1 else ""
            return f"an operand of {_named(self.record)}{others}"
        variable = _variable(self.record)
        if variable is not None and getattr(variable.recorded, "record", None) is self.record:
            return f"variable {variable.name!r} has it"
        return "a tensor holds it" if self.held else "for gradients"


def rows_of(recording: Recording) -> list[Row]:
    """Each value that is alive, in the order in which they were made; constants that are kept come last."""
    records = sorted(recording.members(), key=attrgetter("serial"))
    users = _users(records)
    above, below = _nearest(records, users)
    rows: list[Row] = []
    constants: dict[int, tuple[Any, list[Record]]] = {}
    known = {id(record.array) for record in records}

    def nbytes(array: Any) -> int:
        if type(array) is Vacancy:
            return 0
        aval = recording.aval(array)
        return int(aval.size) * int(aval.dtype.itemsize)

    for record in records:
        application, array = record.application, record.array
        if type(array) is not tuple:
            tops = above[record]
            if not record.held:  # an operand beside others is needed also where nothing flows to itself
                tops = _first([r for user in users[record] for r in above[user]]) or tops
            rows.append(Row(record, None, array, nbytes(array), record.held, below[record], tops))
        elif application is not None:
            for n, each in enumerate(array):
                if id(each) not in known:
                    rows.append(Row(record, n, each, nbytes(each), False, below[record], above[record]))
        if application is not None and application[0] is not PART:
            for x in application[1]:
                if type(x) is not Record and hasattr(x, "dtype") and id(x) not in known:
                    constants.setdefault(id(x), (x, []))[1].append(record)
    for array, readers in constants.values():
        bottoms = _first([r for each in readers for r in ((each,) if each.held else ()) + below[each]])
        tops = _first([r for each in readers for r in above[each]])
        rows.append(Row(readers[0], None, array, nbytes(array), False, bottoms, tops, len(readers)))
    return rows


def _operands(record: Record) -> list[Record]:
    application = record.application
    return [] if application is None else [x for x in application[1] if type(x) is Record]


def _users(records: Sequence[Record]) -> dict[Record, list[Record]]:
    """What was made of each; those that are no longer held have forgotten."""
    users: dict[Record, list[Record]] = {record: [] for record in records}
    for record in records:
        for x in dict.fromkeys(_operands(record)):
            if x in users:  # else another thread has recorded it since
                users[x].append(record)
    return users


def _nearest(
    records: Sequence[Record], users: dict[Record, list[Record]]
) -> tuple[dict[Record, tuple[Record, ...]], dict[Record, tuple[Record, ...]]]:
    """For each record those above it that are held, and those below: the nearest, and one more if there are more."""
    above: dict[Record, tuple[Record, ...]] = {}
    for record in records:
        given = [x for x in _operands(record) if x in above]
        above[record] = _first([r for x in given for r in ((x,) if x.held else ()) + above[x]])
    below: dict[Record, tuple[Record, ...]] = {}
    for record in reversed(records):
        below[record] = _first([r for u in users[record] for r in ((u,) if u.held else ()) + below[u]])
    return above, below


def _first(records: Iterable[Record]) -> tuple[Record, ...]:
    return tuple(dict.fromkeys(records))[: NEAREST + 1]


def _named(record: Record) -> str:
    return f"#{record.serial} {_kind(record)}"


def _variable(record: Record) -> Any:
    return None if record.variable is None else record.variable()


def _kind(record: Record) -> str:
    variable, application = _variable(record), record.application
    if variable is not None:
        return clipped(variable.name, 24)
    if application is None:
        return "value"
    if application[0] is PART:
        whole = application[1][0]
        return f"{_kind(whole)}[{application[2]}]"
    bodies = application[2] and application[2].get("bodies")
    is_gradient = application[0].name == "branch" and bodies and len(bodies) == 1
    return "gradients" if is_gradient else str(application[0].name)


# --- as HTML --------------------------------------------------------------------------------------------------


def fragment(heading: str, recording: Recording | None, notes: Sequence[str] = ()) -> str:
    """What a notebook shows in a cell.

    Parameters
    ----------
    heading
        The figures.
    recording
        What they are of; None where it is gone.
    notes
        What else is to be said, a line each.

    Examples
    --------
    >>> fragment("nothing", None).startswith('<div class="nnc-live">')
    True
    """
    said = [element("p", element("strong", escaped(heading))), *(element("p", escaped(note)) for note in notes)]
    if recording is not None:
        said += _tables(recording, rows_of(recording))
    return element("div", element("style", _STYLE), *said, class_="nnc-live")


def whole_page(heading: str, recording: Recording | None, notes: Sequence[str] = ()) -> str:
    """The same as a file of its own."""
    return page("What is alive", fragment(heading, recording, notes), style=_PAGE)


def _tables(recording: Recording, rows: list[Row]) -> list[str]:
    if not rows:
        return [element("p", "Nothing is recorded.")]
    freed = freed_without(rows)
    shown = sorted(range(len(rows)), key=lambda n: (-rows[n].nbytes, n))[:MOST]
    largest = max(rows[shown[0]].nbytes, 1)
    records = [_cells(recording, rows[n], largest, freed) for n in sorted(shown)]
    left_out = "" if len(rows) <= MOST else f": the {MOST} of most bytes, of {len(rows):,}"
    head = _head("value", "made at", "type", "bytes", "kept", "gradients flow from", "to")
    return [
        element("details", element("summary", f"Values{left_out}"), element("table", head, *records), open="open"),
        element("details", element("summary", "By operator"), _by_kind(rows)),
    ]


def _head(*titles: str) -> str:
    return element("tr", *(element("th", title) for title in titles))


def _cells(recording: Recording, row: Row, largest: int, freed: dict[Record, int]) -> str:
    bar = element("i", "", style=f"width:{100 * row.nbytes // largest}%", class_="held" if row.held else "saved")
    without = freed.get(row.record, 0) if row.held else 0
    where = "" if row.readers else describe(row.record.where)
    shown = repr(row.array if type(row.array) is Vacancy else recording.aval(row.array))
    return element(
        "tr",
        element("td", element("b", escaped(row.name))),
        element("td", escaped(where), class_="faint"),
        element("td", escaped(clipped(shown, 40))),
        element("td", element("span", escaped(sized(row.nbytes))), bar, class_="bytes"),
        element(
            "td",
            escaped(row.why),
            *([element("small", f"; without it {sized(without)} less is kept")] if without else []),
            class_="held" if row.held else "saved",
        ),
        element("td", _reasons(row.below)),
        element("td", _reasons(row.above)),
    )


def _reasons(records: tuple[Record, ...]) -> str:
    """Held values by name."""
    return escaped(", ".join(map(_named, records[:NEAREST])) + (", …" if len(records) > NEAREST else ""))


def freed_without(rows: Sequence[Row]) -> dict[Record, int]:
    """For held values the bytes that are freed if one is dropped, besides its own: of what only its gradients need."""
    found: Counter[Record] = Counter()
    held = {id(row.array) for row in rows if row.held}
    for row in {id(row.array): row for row in rows}.values():
        if id(row.array) not in held:
            for each in {*(row.below if len(row.below) == 1 else ()), *(row.above if len(row.above) == 1 else ())}:
                found[each] += row.nbytes
    return found


def _by_kind(rows: Sequence[Row]) -> str:
    """Counts and bytes by what made values: of all, of those that are held, of what is kept for gradients alone."""
    sums: dict[str, list[int]] = {}
    seen = {id(row.array) for row in rows if row.held}
    for row in rows:
        own = sums.setdefault(row.kind, [0, 0, 0, 0])
        is_new = id(row.array) not in seen
        seen.add(id(row.array))
        for n, more in enumerate((1, row.held, row.nbytes, row.nbytes * is_new)):
            own[n] += more
    kinds = sorted(sums, key=lambda kind: (-sums[kind][2], kind))
    lines: list[tuple[Any, ...]] = [(kind, *sums[kind]) for kind in kinds[:KINDS]]
    if len(kinds) > KINDS:
        rest = [sums[kind] for kind in kinds[KINDS:]]
        lines.append((f"{len(rest)} others", *map(sum, zip(*rest, strict=True))))
    told = []
    for kind, count, held, nbytes, saved in lines:
        numbers = (f"{count:,}", f"{held:,}", sized(nbytes), sized(saved))
        cells = [element("td", escaped(cell), class_="number") for cell in numbers]
        told.append(element("tr", element("td", element("b", escaped(kind))), *cells))
    titles = ("values", "held", "bytes", "kept for gradients")
    head = element("tr", element("th", "made by"), *(element("th", title, class_="number") for title in titles))
    return element("table", head, *told)


# Colours are those of the page around, thinned: what is shown in a notebook knows not whether that is dark.
_STYLE = """
.nnc-live { font-size: 12px; line-height: 1.45; } .nnc-live p { margin: .3em 0; }
.nnc-live table { border-collapse: collapse; font-size: inherit; margin: .4em 0; }
.nnc-live th, .nnc-live td { text-align: left; vertical-align: top; padding: 2px 10px 2px 0; color: inherit;
  background: none; border: 0; border-bottom: 1px solid rgba(128, 128, 128, .35); }
.nnc-live th.number, .nnc-live td.number { text-align: right; } .nnc-live .faint, .nnc-live small { opacity: .7; }
.nnc-live td.bytes { min-width: 7em; } .nnc-live td.bytes span { display: block; }
.nnc-live td i { display: block; height: 4px; min-width: 1px; background: #3d8bd4; }
.nnc-live td i.saved { background: #d9822b; } .nnc-live td.saved { font-style: italic; }
.nnc-live summary { cursor: pointer; font-weight: 600; margin-top: .4em; }
"""
_PAGE = """
:root { color-scheme: light dark; } body { max-width: 1200px; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } }
"""
