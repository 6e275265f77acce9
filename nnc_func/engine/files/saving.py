"""Programs as files: plan, constants, values of variables, and the graph, in one zip archive without code."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from nnc_func.archives.archive import ABOUT, write_archive
from nnc_func.archives.npy import array_bytes
from nnc_func.archives.plain import json_bytes
from nnc_func.engine.files.tables import tables
from nnc_func.errors import GraphError, NncError
from nnc_func.graph.leaves import Variable
from nnc_func.graph.text.files import text_members
from nnc_func.graph.text.writing import digest, large_constants

FORMAT, VERSION = "nnc_func program", 1
PLANNED, SYMBOLIC, INTERPRETED = KINDS = ("planned", "symbolic", "interpreted")  # what a program is `written_as`


def save(program: Any, path: Any) -> None:
    """Write a program to a file: its plan, its constants, the values that its variables have now, and its graph.

    A program of unknown extents is written with the plans of the bindings that it has met; one that is interpreted,
    as its graph alone. One that retains values is not written. The file is complete or not there, and equal programs
    give equal bytes.

    Raises
    ------
    GraphError
        A parameter has no written form, two variables have one name, the device has no elements to write, or the
        program retains values.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> w = lazy.variable("w", [1.0, 2.0])
    >>> program = lazy.compile(inputs=[], outputs={"w": w}, updates={w: w * 2})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "doubling.program"
    ...     program.save(path)
    ...     again = nnc.load_program(path)
    >>> again()
    {'w': array([1., 2.])}
    >>> again.variables["w"].array.tolist(), w.numpy().tolist()
    ([2.0, 4.0], [1.0, 2.0])
    """
    members: list[tuple[str, bytes]] = []
    kind = program.written_as
    if kind is None:
        raise GraphError(f"{program!r} keeps values from run to run, and is not written: save what is compiled without")
    device = program._engine.device if kind == SYMBOLIC else program._device
    variables = _variables(program)
    graph = program.graph
    about: dict[str, Any] = {
        "format": FORMAT, "version": VERSION, "kind": kind, "graph": graph is not None,
        "variables": [v.name for v in variables], "plans": [],
        "places": {v.name: v.aval.place for v in variables if v.aval.place is not None},
        "donated": list(program._donated) if kind == SYMBOLIC else [],
    }  # fmt: skip
    if kind == SYMBOLIC and program.rewrites:
        about["rewrites"] = True
    if graph is not None:
        members += text_members(graph)
    constants: dict[str, Any] = large_constants(graph) if kind != PLANNED else {}
    for at, planned in enumerate(_planned(program)):
        arrays = [_host(planned._device, a, "constants") for a in planned._constants]
        named = [digest(a) for a in arrays]
        constants |= zip(named, arrays, strict=True)
        about["plans"].append({"constants": named})
        members.append((f"plans/{at}.json", json_bytes(tables(planned.plan.verify()))))
    members += [(member(name), array_bytes(a)) for name, a in sorted(constants.items())]
    for at, v in enumerate(variables):
        members.append((f"variables/{at}.npy", array_bytes(_host(device, v.array, "variables"))))
    write_archive(path, [(ABOUT, json.dumps(about, indent=1).encode()), *members])


def _planned(program: Any) -> list[Any]:
    """The programs with a plan: of unknown extents, one for each binding."""
    found = program.programs.values() if program.written_as == SYMBOLIC else (program,)
    return [p for p in found if p.plan is not None]


def _variables(program: Any) -> list[Variable]:
    if program.graph is None:
        return list(program.variables.values())
    found: list[Variable] = [n.data for n in program.graph.variables]
    if len({v.name for v in found}) != len(found):
        raise GraphError("two variables have one name: give one another name, so that the file tells them apart")
    return found


def _host(device: Any, array: Any, what: str) -> Any:
    try:
        return np.asarray(device.to_numpy(array))
    except NncError as error:
        raise GraphError(f"{device!r} has no elements of {what} to write: {error}") from None


def member(name: str) -> str:
    """The file in the archive that has the constant of a digest."""
    return f"constants/{name.removeprefix('sha256:')}.npy"
