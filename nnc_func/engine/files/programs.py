"""Programs in files: plan, constants, values of variables, and the graph; read without optimising or planning again.

One zip archive, as graphs have, with no code in it. A plan is verified when it is saved, and again when it is read
unless it is byte for byte what was saved. The graph is text, and is built only where somebody asks for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from nnc_func.archives.archive import ABOUT, Archive, written
from nnc_func.archives.npy import array_bytes
from nnc_func.archives.plain import json_bytes
from nnc_func.engine.collecting import uncollected
from nnc_func.engine.files.binding import bound
from nnc_func.engine.files.tables import from_tables, tables
from nnc_func.engine.interpreted import Interpreted
from nnc_func.engine.running.program import Program
from nnc_func.engine.symbolic import SymbolicProgram
from nnc_func.engine.verifying.applications import representatives
from nnc_func.errors import FileFormatError, GraphError, NncError
from nnc_func.facets.dtypes import as_dtype
from nnc_func.graph.files import read_text, text_members
from nnc_func.graph.leaves import Variable, owned
from nnc_func.graph.parsing import shown_as
from nnc_func.graph.text import digest, large_constants
from nnc_func.layer import chain

FORMAT, VERSION = "nnc_func program", 1
PLANNED, SYMBOLIC, INTERPRETED = "planned", "symbolic", "interpreted"
KINDS = (PLANNED, SYMBOLIC, INTERPRETED)


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
    kind = _kind(program)
    device = program._engine.device if kind == SYMBOLIC else program._device
    variables = _variables(program)
    graph = program.graph
    about: dict[str, Any] = {
        "format": FORMAT, "version": VERSION, "kind": kind, "graph": graph is not None,
        "variables": [v.name for v in variables], "plans": [],
        "places": {v.name: v.aval.place for v in variables if v.aval.place is not None},
        "donated": list(program._donated) if kind == SYMBOLIC else [],
    }  # fmt: skip
    if graph is not None:
        members += text_members(graph)
    constants: dict[str, Any] = large_constants(graph) if kind != PLANNED else {}
    for at, (binding, planned) in enumerate(_planned(program)):
        arrays = [_host(planned._device, a, "constants") for a in planned._constants]
        constants |= {digest(a): a for a in arrays}
        plan = planned.plan.verify()
        content = json_bytes(tables(plan) | {"representatives": representatives(plan)})
        row = {"binding": binding, "constants": [[digest(a), str(a.dtype), list(a.shape)] for a in arrays]}
        about["plans"].append(row | {"verified": _content_digest(content)})
        members.append((f"plans/{at}.json", content))
    members += [(_member(name), array_bytes(a)) for name, a in sorted(constants.items())]
    for at, v in enumerate(variables):
        members.append((f"variables/{at}.npy", array_bytes(_host(device, v.array, "variables"))))
    written(path, [(ABOUT, json.dumps(about, indent=1).encode()), *members])


def load_program(path: Any, stack: Any, classes: Iterable[type] = ()) -> Any:
    """The program in a file, ready to be called; its variables are new ones, with the values that they had.

    That the stack's operators and kernels give what is written is always checked. The rest is verified again where the
    plan is not what `save` verified and wrote, by its digest; who does not trust the writer calls
    ``program.plan.verify()``: a wrong plan gives wrong numbers, but runs no code.

    Parameters
    ----------
    stack
        Its device has the kernels that the plan names; its catalogue, the operators. A lazy one can tune the program.
    classes
        Named tuples and attrs classes in which the outputs may be nested.

    Raises
    ------
    FileFormatError
        It is no such file, it is damaged or cut short, a newer version wrote it, its plan contradicts itself, or it
        does not fit the stack.
    """
    known = list(classes)
    with uncollected(), Archive.open(path, "program") as archive:
        about = archive.about(VERSION)
        kind = about["kind"]
        if kind not in KINDS:
            raise FileFormatError(f"it is of kind {kind!r}; kinds are {', '.join(KINDS)}")
        return {PLANNED: _read_planned, SYMBOLIC: _read_symbolic, INTERPRETED: _read_interpreted}[kind](
            archive, about, stack, known
        )


# --- what is written --------------------------------------------------------------------------------------


def _kind(program: Any) -> str:
    if isinstance(program, SymbolicProgram):
        return SYMBOLIC
    if isinstance(program, Interpreted):
        return INTERPRETED
    if not isinstance(program, Program):
        raise GraphError(f"{program!r} keeps values from run to run, and is not written: save what is compiled without")
    return PLANNED


def _planned(program: Any) -> list[tuple[Any, Any]]:
    """The programs with a plan, and the extents for which each one is."""
    if isinstance(program, SymbolicProgram):
        return [(binding, p) for binding, p in program.programs.items() if p.plan is not None]
    return [(None, program)] if program.plan is not None else []


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


def _content_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _member(name: str) -> str:
    return f"constants/{name.removeprefix('sha256:')}.npy"


# --- what is read -----------------------------------------------------------------------------------------


def _read_planned(archive: Archive, about: Mapping[str, Any], stack: Any, classes: list[type]) -> Any:
    if len(about["plans"]) != 1:
        raise FileFormatError(f"it has {len(about['plans'])} plans, where one is wanted")
    variables = _read_variables(archive, about, stack)
    constants: dict[str, Any] = {}
    graph = _graph(archive, stack, constants, variables, classes) if about["graph"] is True else None
    return _read_plan(archive, about, 0, stack, constants, variables, classes, graph=graph)


def _read_plan(
    archive: Archive, about: Mapping[str, Any], at: int, stack: Any, constants: dict[str, Any],
    variables: Mapping[str, Variable], classes: list[type], **knowledge: Any,
) -> Any:  # fmt: skip
    """One plan, bound; the constants that it has are added to those known."""
    content, found = archive.read(f"plans/{at}.json"), archive.json(f"plans/{at}.json")
    plan = from_tables(found, stack.type.ops, classes)
    is_verified = about["plans"][at].get("verified") == _content_digest(content)
    verified = found["representatives"] if is_verified else None
    arrays = []
    for name, dtype, shape in about["plans"][at]["constants"]:
        if name not in constants:
            constants[name] = archive.array(_member(name))
        arrays.append(shown_as(constants[name], as_dtype(dtype), shape))
    names = plan.variable_names or tuple(variables)
    missing = [name for name in names if name not in variables]
    if missing:
        raise FileFormatError(f"it has no values of the variables {missing}")
    engine = _engine(stack)
    check = getattr(engine, "check_numerics", False)
    knowledge["engine"] = engine if hasattr(engine, "with_kernels") else None
    return bound(plan, stack.device, arrays, [variables[name] for name in names], check, verified, **knowledge)


def _read_symbolic(archive: Archive, about: Mapping[str, Any], stack: Any, classes: list[type]) -> Any:
    variables = _read_variables(archive, about, stack)
    constants = _read_constants(archive)
    engine = _engine(stack)
    if not hasattr(engine, "program"):
        raise FileFormatError(f"it has unknown extents, which {engine!r} cannot plan: load it in a lazy stack")
    graph = _graph(archive, stack, constants, variables, classes)()
    program = SymbolicProgram(engine, graph, graph, None, 0.0, tuple(_donated(about, graph)))
    for at, row in enumerate(about["plans"]):
        dims = {str(symbol): extent for symbol, extent in row["binding"]}
        for_these = partial(graph.specialised, dims)
        knowledge = {"arenas": program.arenas, "graph": for_these}
        found = _read_plan(archive, about, at, stack, constants, variables, classes, **knowledge)
        wanted = [(n.data, n.aval.shape) for n in for_these().inputs]
        if [(n, found.plan.slots[s].aval.shape) for n, s in zip(*_inputs(found.plan), strict=True)] != wanted:
            raise FileFormatError(f"its plan {at} is not for the extents {dims}")
        program.programs[tuple(sorted(dims.items()))] = found
    return program


def _donated(about: Mapping[str, Any], graph: Any) -> list[int]:
    """Positions of the inputs that callers give up."""
    found = about["donated"]
    if type(found) is not list or any(type(n) is not int or not 0 <= n < len(graph.inputs) for n in found):
        raise FileFormatError(f"{found!r} does not say which of its {len(graph.inputs)} inputs are donated")
    return found


def _inputs(plan: Any) -> tuple[Any, Any]:
    return plan.input_names, plan.inputs


def _read_interpreted(archive: Archive, about: Mapping[str, Any], stack: Any, classes: list[type]) -> Any:
    variables = _read_variables(archive, about, stack)
    graph = _graph(archive, stack, _read_constants(archive), variables, classes)()
    return Interpreted(graph, graph, stack.device, None, getattr(_engine(stack), "check_numerics", False))


def _engine(stack: Any) -> Any:
    return next((each for each in chain(stack.top) if each.role == "engine"), None)


def _graph(archive: Archive, stack: Any, constants: Any, variables: Any, classes: list[type]) -> Any:
    return read_text(archive, stack, constants, variables, classes)


def _read_constants(archive: Archive) -> dict[str, Any]:
    names = [n.removeprefix("constants/").removesuffix(".npy") for n in archive.names("constants")]
    return {f"sha256:{n}": archive.array(f"constants/{n}.npy") for n in names}


def _read_variables(archive: Archive, about: Mapping[str, Any], stack: Any) -> dict[str, Variable]:
    device, found = stack.device, {}
    places = about.get("places", {})  # of the variables that are not in the first one
    if type(places) is not dict:
        raise FileFormatError(f"{places!r} does not say in which places its variables are")
    for at, name in enumerate(about["variables"]):
        if not isinstance(name, str) or name in found:
            raise FileFormatError(f"{name!r} is no name of a variable, or that of another, too")
        array = owned(device, archive.array(f"variables/{at}.npy"), place=places.get(name))
        found[name] = Variable(name, array, device.aval(array), device)
    return found
