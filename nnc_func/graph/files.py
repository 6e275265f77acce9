"""Graphs in files: one zip archive of the text, the arrays and the users' lines. There is no code in it.

The text is `text`'s; arrays are NumPy's own format, without pickles. Equal graphs give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nnc_func.archives.archive import ABOUT, Archive, written
from nnc_func.archives.npy import array_bytes
from nnc_func.archives.plain import json_bytes
from nnc_func.errors import FileFormatError, GraphError
from nnc_func.graph.origin import Origin, lines
from nnc_func.graph.parsing import parsed
from nnc_func.graph.text import large_constants, numbered, printed

FORMAT, VERSION = "nnc_func graph", 1
TEXT, ORIGINS = "graph.txt", "origins.json"


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
    written(path, [(ABOUT, json.dumps(about, indent=1).encode()), *text, *constants, *values])


def text_members(graph: Any) -> list[tuple[str, bytes]]:
    """A graph's text and its users' lines, as members of an archive.

    Raises
    ------
    GraphError
        A parameter has no written form, or the device has no elements to write.
    """
    text = printed(graph)
    if " = constant unknown" in text or " = held unknown" in text:
        raise GraphError(f"{graph.layer.device!r} has no elements of constants to write; save the graph where they are")
    return [(TEXT, text.encode() + b"\n"), (ORIGINS, json_bytes(_origins(graph)))]


def load_graph(path: Any, stack: Any, classes: Iterable[type] = ()) -> Any:
    """The graph in a file, built by a stack; its variables are new ones, with the values that they had.

    Parameters
    ----------
    stack
        Its catalogue must have the graph's operators.
    classes
        Named tuples and attrs classes in which the outputs may be nested.

    Raises
    ------
    GraphError
        It is no such file, it is damaged or cut short, a newer version wrote it, or it does not fit the stack.
    """
    with Archive.open(path, "graph") as archive:
        about = archive.about(VERSION)
        constants = {f"sha256:{Path(n).stem}": archive.array(n) for n in archive.names("constants")}
        variables = {name: archive.array(f"variables/{at}.npy") for at, name in enumerate(about["variables"])}
        return read_text(archive, stack, constants, variables, classes)()


def read_text(
    archive: Archive, stack: Any, constants: Mapping[str, Any], variables: Mapping[str, Any], classes: Iterable[type]
) -> Any:
    """What builds the graph in an archive, once it is called; what it needs of the archive is read at once."""
    path = archive.path
    text = archive.read(TEXT).decode()
    origins = archive.read(ORIGINS)

    def build() -> Any:
        try:
            told = _lines(json.loads(origins))
        except (json.JSONDecodeError, TypeError, AttributeError, ValueError) as error:
            raise FileFormatError(f"{path} is damaged: {error}") from None
        try:
            return parsed(text, stack, constants, variables, classes, told)
        except GraphError as error:
            raise FileFormatError(f"{path}, {TEXT}: {error}") from None

    return build


load = load_graph


# --- lines of user code -----------------------------------------------------------------------------------


def _origins(graph: Any) -> dict[str, list[list[Any]]]:
    numbers = numbered(graph)
    return {str(numbers[n, 0]): found for n in graph.nodes if (found := list(_told(n.origin)))}


def _told(where: Origin) -> Iterator[list[Any]]:
    for file, line, function in lines(where):
        yield [f"{Path(file).name}:{line}", function]  # the name alone: files do not tell whose machine it was


def _lines(origins: dict[str, list[list[Any]]]) -> dict[int, Origin]:
    found = {}
    for number, frames in origins.items():
        if not number.isdecimal():
            raise TypeError(f"{number!r} is no number of a value")
        for where, function in frames:
            if not isinstance(function, str) or not where.rpartition(":")[2].isdecimal():
                raise TypeError(f"{where!r}, {function!r} is no line of code")
        found[int(number)] = tuple(part for frame in frames for part in frame)
    return found
