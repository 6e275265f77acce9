"""Graphs in files: one zip archive of the text, the arrays and the users' lines. There is no code in it.

The text is `text`'s; arrays are NumPy's own format, without pickles. Equal graphs give equal bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nnc_func.archives.archive import ABOUT, MAX_BYTES, Archive, write_archive
from nnc_func.archives.npy import array_bytes
from nnc_func.archives.plain import json_bytes, json_cost, json_value, short
from nnc_func.errors import FileFormatError, GraphError
from nnc_func.graph.origin import Origin, lines
from nnc_func.graph.text.nesting import check_depth
from nnc_func.graph.text.parsing import parsed, text_cost
from nnc_func.graph.text.trust import allowed_names
from nnc_func.graph.text.writing import large_constants, numbered, printed

FORMAT, VERSION = "nnc_func graph", 1
TEXT, ORIGINS = "graph.txt", "origins.json"
NUMBER = re.compile(r"[0-9]{1,18}")  # of a value
LINE = re.compile(r":[0-9]{1,18}\Z")


def save(graph: Any, path: Any) -> None:
    """Write a graph to a file: its text, its large constants, the values of its variables, and the users' lines.

    The file is complete or not there: it is written beside its place and moved.

    Raises
    ------
    GraphError
        A parameter has no written form, two variables have one name, or the device has no elements to write.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "twice.graph"
    ...     save(lazy.graph.close([x.value], [(x * 2).value], name="twice"), path)
    ...     load_graph(path, nnc.lazy())
    <graph 'twice': 1 inputs, 1 outputs, 3 nodes, 2 edges>
    """
    variables = {n.data.name: n.data for n in graph.variables}
    if len(variables) != len(graph.variables):
        raise GraphError("two variables have one name: give one another name, so that the file tells them apart")
    about = {"format": FORMAT, "version": VERSION, "variables": list(variables)}
    text = text_members(graph)
    host = graph.layer.device.to_numpy
    constants = ((f"constants/{n[7:]}.npy", array_bytes(a)) for n, a in large_constants(graph).items())
    values = ((f"variables/{at}.npy", array_bytes(host(v.array))) for at, v in enumerate(variables.values()))
    write_archive(path, [(ABOUT, json.dumps(about, indent=1).encode()), *text, *constants, *values])


def text_members(graph: Any) -> list[tuple[str, bytes]]:
    """A graph's text and its users' lines, as members of an archive.

    Raises
    ------
    GraphError
        A parameter has no written form, or the device has no elements to write.
    """
    check_depth(graph.structure)
    text = printed(graph)
    if " = constant unknown" in text or " = held unknown" in text:
        raise GraphError(f"{graph.layer.device!r} has no elements of constants to write; save the graph where they are")
    return [(TEXT, text.encode() + b"\n"), (ORIGINS, json_bytes(_origins(graph)))]


def load_graph(
    path: Any, stack: Any, classes: Iterable[type] = (), *, max_bytes: int = MAX_BYTES, sha256: str | None = None,
    allow: Iterable[str] = (),
) -> Any:  # fmt: skip
    """The graph in a file, built by a stack; its variables are new ones, with the values that they had.

    Parameters
    ----------
    path
        Of the file, or a binary file that can be read from any place.
    stack
        Its catalogue must have the graph's operators.
    classes
        Named tuples and attrs classes in which the outputs may be nested.
    max_bytes
        As much memory may reading take; a file is not trusted, and what it says is counted before it is there.
    sha256
        Of the whole file, in hexadecimal digits: another file is refused.
    allow
        Names of operators that the graph may apply although they are not this library's, or do more than compute:
        ``allow=("print", "check")``.

    Raises
    ------
    FileFormatError
        It is no such file, it is damaged or cut short, a newer version wrote it, it takes more than `max_bytes`, it
        does not fit the stack, or applies what is not allowed.
    """
    may = allowed_names(allow)
    with Archive.open(path, "graph", max_bytes=max_bytes, sha256=sha256) as archive:
        names = variable_names(archive.about(VERSION))
        constants = {f"sha256:{Path(n).stem}": archive.array(n) for n in archive.names("constants")}
        variables = {name: archive.array(f"variables/{at}.npy") for at, name in enumerate(names)}
        return read_text(archive, stack, constants, variables, classes, may)()


def variable_names(about: Mapping[str, Any]) -> list[str]:
    """The names of a file's variables, in the order of its members.

    Raises
    ------
    FileFormatError
        They are none, or one is there twice.
    """
    found = about.get("variables")
    if type(found) is not list or not all(type(name) is str for name in found) or len({*found}) != len(found):
        raise FileFormatError(f"{ABOUT}: variables: a list of different names is wanted, given {short(found)}")
    return found


def read_text(
    archive: Archive, stack: Any, constants: Mapping[str, Any], variables: Mapping[str, Any], classes: Iterable[type],
    allow: Collection[str],
) -> Any:  # fmt: skip
    """What builds the graph in an archive, once it is called; what it needs of the archive is read at once."""
    path = archive.path
    text, origins = archive.text(TEXT), archive.read(ORIGINS)
    archive.take(text_cost(text), TEXT)
    damaged = f"{path} is damaged: {ORIGINS}"
    try:
        archive.take(json_cost(origins), ORIGINS)
    except FileFormatError as error:
        raise FileFormatError(f"{damaged}: {error}") from None

    def build() -> Any:
        try:
            found = _lines(json_value(origins))
        except FileFormatError as error:
            raise FileFormatError(f"{damaged}: {error}") from None
        try:
            return parsed(text, stack, constants, variables, classes, found, allow)
        except GraphError as error:
            raise FileFormatError(f"{path}, {TEXT}: {error}") from None

    return build


load = load_graph


# --- lines of user code -----------------------------------------------------------------------------------


def _origins(graph: Any) -> dict[str, list[list[Any]]]:
    numbers = numbered(graph)
    return {str(numbers[n, 0]): found for n in graph.nodes if (found := list(_rows(n.origin)))}


def _rows(where: Origin) -> Iterator[list[Any]]:
    for file, line, function in lines(where):
        yield [f"{Path(file).name}:{line}", function]  # the name alone: files do not tell whose machine it was


def _lines(origins: Any) -> dict[int, Origin]:
    if type(origins) is not dict:
        raise FileFormatError(f"wanted an object with the lines of each value, given {short(origins)}")
    found = {}
    for number, frames in origins.items():
        if not NUMBER.fullmatch(number) or type(frames) is not list or not all(map(_is_frame, frames)):
            raise FileFormatError(f'{short(number)}: wanted [["file:line", "function"], ...], given {short(frames)}')
        found[int(number)] = tuple(part for frame in frames for part in frame)
    return found


def _is_frame(frame: Any) -> bool:
    return type(frame) is list and [*map(type, frame)] == [str, str] and LINE.search(frame[0]) is not None
