"""Graphs in files: one zip archive of the text, the arrays and the users' lines. There is no code in it.

The text is `text`'s; arrays are NumPy's own format, without pickles. Equal graphs give equal bytes.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nnc_func.errors import GraphError
from nnc_func.graph.origin import Origin, lines
from nnc_func.graph.parsing import parsed
from nnc_func.graph.text import large_constants, numbered, printed

FORMAT, VERSION = "nnc_func graph", 1
ABOUT, TEXT, ORIGINS = "about.json", "graph.txt", "origins.json"
WHEN = (1980, 1, 1, 0, 0, 0)  # the oldest date that the format has: files do not depend on when they were written


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
    text = printed(graph)
    if " = constant unknown" in text or " = held unknown" in text:
        raise GraphError(f"{graph.layer.device!r} has no elements of constants to write; save the graph where they are")
    variables = {n.data.name: n.data for n in graph.variables}
    if len(variables) != len(graph.variables):
        raise GraphError("two variables have one name: give one another name, so that the file tells them apart")
    about = {"format": FORMAT, "version": VERSION, "variables": list(variables)}
    host = graph.layer.device.to_numpy
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(beside, "w") as archive:
            _write(archive, ABOUT, json.dumps(about, indent=1).encode())
            _write(archive, TEXT, text.encode() + b"\n")
            _write(archive, ORIGINS, json.dumps(_origins(graph)).encode())
            for name, array in large_constants(graph).items():
                _write(archive, f"constants/{name[7:]}.npy", _bytes(array))
            for position, variable in enumerate(variables.values()):
                _write(archive, f"variables/{position}.npy", _bytes(host(variable.array)))
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


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
    try:
        with zipfile.ZipFile(path) as archive:
            about = _about(archive, path)
            constants = {
                f"sha256:{Path(n).stem}": _array(archive, n, path)
                for n in archive.namelist()
                if n.startswith("constants/")
            }
            variables = {
                name: _array(archive, f"variables/{position}.npy", path)
                for position, name in enumerate(about["variables"])
            }
            text = _read(archive, TEXT, path).decode()
            origins = _lines(json.loads(_read(archive, ORIGINS, path)))
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise GraphError(f"{path} is no graph, or is damaged or cut short: {error}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise GraphError(f"{path} is damaged: {error}") from None
    try:
        return parsed(text, stack, constants, variables, classes, origins)
    except GraphError as error:
        raise GraphError(f"{path}, {TEXT}: {error}") from None


load = load_graph


# --- members ----------------------------------------------------------------------------------------------


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, WHEN)
    entry.compress_type = zipfile.ZIP_STORED if name.endswith(".npy") else zipfile.ZIP_DEFLATED
    entry.create_system = 3  # as on Unix, wherever it is written
    archive.writestr(entry, content)


def _bytes(array: Any) -> bytes:
    into = io.BytesIO()
    np.lib.format.write_array(into, np.asarray(array, order="C"), allow_pickle=False)
    return into.getvalue()


def _read(archive: zipfile.ZipFile, name: str, path: Any) -> bytes:
    try:
        return archive.read(name)
    except KeyError:
        raise GraphError(f"{path} is damaged or cut short: it has no {name}") from None


def _array(archive: zipfile.ZipFile, name: str, path: Any) -> Any:
    content = _read(archive, name, path)
    try:
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise GraphError(f"{path} is damaged: {name} is no array of numbers: {error}") from None


def _about(archive: zipfile.ZipFile, path: Any) -> dict[str, Any]:
    if ABOUT not in archive.namelist():
        raise GraphError(f"{path} is a zip archive, but no graph: it has no {ABOUT}")
    about = json.loads(_read(archive, ABOUT, path))
    if not isinstance(about, dict) or about.get("format") != FORMAT or not isinstance(about.get("version"), int):
        raise GraphError(f"{path} is a zip archive, but no graph: {ABOUT} does not say {FORMAT!r} and a version")
    if about["version"] > VERSION:
        raise GraphError(
            f"{path} was written in version {about['version']} of the format; this reads versions up to {VERSION}: "
            "update nnc_func"
        )
    return about


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
