"""What commands answer with: the same facts as data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen


@frozen
class Answer:
    """What a command found.

    Attributes
    ----------
    data
        For ``--json``: numbers, strings, lists and dictionaries.
    text
        For people.
    """

    data: Any
    text: str


def table(rows: Iterable[Sequence[Any]], titles: Sequence[str] = ()) -> str:
    """Rows in columns: numbers to the right, with commas; text to the left.

    Examples
    --------
    >>> print(table([("lenet", 61706), ("vgg-16", 138357544)], ("model", "parameters")))
    model    parameters
    lenet        61,706
    vgg-16  138,357,544
    """
    listed = [list(row) for row in rows]
    shown = [[str(t) for t in titles]] * bool(titles) + [[cell(v) for v in row] for row in listed]
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))] if shown else []
    right = [any(isinstance(row[i], (int, float)) for row in listed) for i in range(len(widths))]
    lines = (
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)) for row in shown
    )
    return "\n".join(line.rstrip() for line in lines)


def facts(pairs: Mapping[str, Any], named: bool = False) -> str:
    """What is asked, and the answer, a line each; or things that are `named` so, underscores and all.

    Examples
    --------
    >>> print(facts({"arena_bytes": 1200, "name": "lenet"}))
    arena bytes  1,200
    name         lenet
    >>> print(facts({"ml_dtypes": "0.5"}, named=True))
    ml_dtypes  0.5
    """
    width = max(map(len, pairs), default=0)
    shown = {name if named else name.replace("_", " "): value for name, value in pairs.items()}
    return "\n".join(f"{name:{width}}  {cell(value)}" for name, value in shown.items())


def cell(value: Any) -> str:
    """A value as a table shows it.

    Examples
    --------
    >>> cell(1234567), cell(0.5), cell(None), cell("x")
    ('1,234,567', '0.5', '-', 'x')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def with_files(found: Answer, contents: Mapping[str, tuple[str, str]]) -> Answer:
    """An answer, after files of text are written: each by what it is, its path and what to write.

    A path of ``-`` is standard output: that is the text then, for one of them. Else the text tells the files too.
    """
    for path, content in contents.values():
        if path != "-":
            Path(path).write_text(content, encoding="utf-8")
    if not contents:
        return found
    files = {what: path for what, (path, _) in contents.items() if path != "-"}
    shown = [content for path, content in contents.values() if path == "-"]
    data = found.data | {"files": files} | ({"written": shown[0]} if shown else {})
    told = "\n\n".join(filter(None, (found.text, facts(files, named=True))))
    return Answer(data, shown[0] if shown else told)
