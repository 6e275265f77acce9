"""Programs in files: plan, constants, values of variables, and the graph; read without optimising or planning again.

One zip archive, as graphs have, with no code in it. A file is not trusted: its plan is verified whenever it is read,
and nothing that the file says of itself shortens that. The graph is text; it is built only where somebody asks for it,
and is then held against the plan.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from attrs import define, field

from nnc_func.archives.archive import MAX_BYTES, Archive
from nnc_func.archives.plain import Fields, fields, rows, short
from nnc_func.aval import Aval
from nnc_func.engine.files.limits import check_limits, memory_of
from nnc_func.engine.files.program_from_plan import bound, setting_of
from nnc_func.engine.files.saving import INTERPRETED, KINDS, PLANNED, SYMBOLIC, VERSION, member
from nnc_func.engine.files.tables import from_tables
from nnc_func.engine.interpreted import Interpreted, InterpretedBindings, interpreted
from nnc_func.engine.linkers.kernel_calls import linker_of
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import DONATED
from nnc_func.engine.running.binding import every, extents_of
from nnc_func.engine.running.program import Program
from nnc_func.engine.symbolic import SymbolicProgram, rewritten
from nnc_func.engine.verifying.graphs import check_graph
from nnc_func.errors import DeviceWarning, FileFormatError, PlanError
from nnc_func.garbage_collection import long_lived
from nnc_func.graph.leaves import Variable, owned
from nnc_func.graph.text.files import read_text, variable_names
from nnc_func.graph.text.parsing import shown_as
from nnc_func.graph.text.trust import allowed_names
from nnc_func.layer import chain


def load_program(
    path: Any, stack: Any, classes: Iterable[type] = (), *, max_bytes: int = MAX_BYTES, sha256: str | None = None,
    allow: Iterable[str] = (),
) -> Any:  # fmt: skip
    """The program in a file, ready to be called; its variables are new ones, with the values that they had.

    The plan is verified, as `engine.verifying.verify` says, before any memory is made: whatever the file says, its
    program touches no byte outside of its buffers. It computes what the plan says; that this is what the graph says is
    checked where `program.graph` is first asked for.

    Scratch memory of a library's kernels depends on its version, on instruction sets and threads. Where these are not
    those that the plan was made for, the graph is planned again, and a `DeviceWarning` says so.

    Parameters
    ----------
    stack
        Its device has the kernels that the plan names; its catalogue, the operators. A lazy one can tune the program.
    classes
        Named tuples and attrs classes in which the outputs may be nested.
    max_bytes
        As much memory may it take: what is read, constants, variables, arenas, results.
    sha256
        Of the whole file, in hexadecimal digits.
    allow
        Names of operators that are not this library's, or that do more than compute: print, check, callback.

    Raises
    ------
    FileFormatError
        It is no such file, it is damaged or cut short, a newer version wrote it, its plan contradicts itself, it does
        not fit the stack or its machine, it takes more than `max_bytes`, has another digest, or applies what is not
        allowed.
    """
    names = allowed_names(allow)
    with long_lived(), Archive.open(path, "program", max_bytes=max_bytes, sha256=sha256) as archive:
        return _Reader(archive, archive.about(VERSION), stack, list(classes), names).program()


# --- what is read -----------------------------------------------------------------------------------------


@define
class _Reader:
    """A file that is being read.

    Attributes
    ----------
    constants
        What was read of them, by digest.
    variables
        New ones, by name.
    """

    archive: Archive
    about: Fields
    stack: Any
    classes: list[type]
    allow: frozenset[str]
    constants: dict[str, Any] = field(init=False, factory=dict)
    variables: dict[str, Variable] = field(init=False, factory=dict)
    _given: set[str] = field(init=False, factory=set)  # constants whose arrays are a plan's

    def program(self) -> Any:
        """The program, of whichever kind it is."""
        kind = self.about["kind"]
        if type(kind) is not str or kind not in KINDS:
            raise FileFormatError(f"it is of kind {short(kind)}; kinds are {', '.join(KINDS)}")
        self._read_variables()
        return {PLANNED: self._planned, SYMBOLIC: self._symbolic, INTERPRETED: self._interpreted}[kind]()

    # --- kinds ------------------------------------------------------------------------------------------

    def _planned(self) -> Program:
        if len(self._plans) != 1:
            raise FileFormatError(f"it has {len(self._plans)} plans, where one is wanted")
        plan, constants = self._plan(0)
        if self._is_of_another_machine(plan):
            return self._planned_again(plan)
        graph = self._agreeing(plan, constants) if self.about["graph"] is True else None
        return self._bound(plan, constants, graph=graph)

    def _symbolic(self) -> SymbolicProgram:
        self._read_constants()
        engine = _engine(self.stack)
        if not hasattr(engine, "program"):
            raise FileFormatError(f"it has unknown extents, which {engine!r} cannot plan: load it in a lazy stack")
        graph = self._graph()()
        rewrites = self.about.get("rewrites") is True
        program = SymbolicProgram(engine, graph, graph, None, 0.0, tuple(_donated(self.about, graph)), rewrites)
        for at in range(len(self._plans)):
            plan, constants = self._plan(at)
            if self._is_of_another_machine(plan):  # it is planned again where such extents are asked for
                self._warn_of(plan)
                continue
            dims = extents_of(graph.inputs, _avals(plan, plan.inputs))
            found = graph.specialised(dims)
            if rewrites:
                found = rewritten(engine, found)
            made = self._bound(plan, constants, arenas=program.arenas, graph=found)
            if rewrites and not _agrees(plan, constants, found):  # this stack has other rules: it is planned again
                continue
            self._check_graph(plan, constants, found)
            program.programs[every(graph, dims)] = made
        return program

    def _interpreted(self) -> Interpreted | InterpretedBindings:
        self._read_constants()
        graph = self._graph()()
        check = getattr(_engine(self.stack), "check_numerics", False)
        return interpreted(graph, graph, self.stack.device, check)

    # --- other machines ---------------------------------------------------------------------------------

    def _is_of_another_machine(self, plan: Plan) -> bool:
        return plan.machine != "" and plan.machine != setting_of(self.stack.device)

    def _warn_of(self, plan: Plan) -> None:
        here = setting_of(self.stack.device) or "without such a library"
        warnings.warn(
            f"{self.archive.path} was planned for {plan.machine}; its graph is planned again for this machine, {here}",
            DeviceWarning, stacklevel=_level(),
        )  # fmt: skip

    def _planned_again(self, plan: Plan) -> Program:
        """A program of the graph, by the stack's engine, for what this machine has."""
        engine = _engine(self.stack)
        if self.about["graph"] is not True or not hasattr(engine, "program"):
            here = setting_of(self.stack.device) or "without such a library"
            lacks = "load it in a lazy stack" if self.about["graph"] is True else "the file has no graph to plan again"
            raise FileFormatError(f"it was planned for {plan.machine}, and this machine is {here}: {lacks}")
        self._warn_of(plan)
        self._read_constants()
        graph = self._graph()()
        sources = {b.source for b in plan.buffers if b.kind == DONATED}  # of a plan that was not verified
        given_up = [n for n in range(len(graph.inputs)) if n in sources]
        found: Program = engine.program(graph, graph, None, 0.0, donated=given_up)
        self._admit(found.plan)
        return found

    # --- plans ------------------------------------------------------------------------------------------

    @property
    def _plans(self) -> list[Any]:
        return rows(self.about["plans"])

    def _plan(self, at: int) -> tuple[Plan, list[Any]]:
        """One plan, of operators that are trusted, and its constants as arrays of the host."""
        plan = from_tables(self.archive.json(f"plans/{at}.json"), self.stack.type.ops, self.classes, self.allow)
        check_limits(plan)
        names = rows(fields(self._plans[at])["constants"])
        if len(names) != len(plan.constants):
            raise FileFormatError(f"its plan {at} has {len(plan.constants)} constants, the file names {len(names)}")
        avals = _avals(plan, plan.constants)
        return plan, [self._constant(name, aval) for name, aval in zip(names, avals, strict=True)]

    def _constant(self, name: Any, aval: Any) -> Any:
        """An array that nobody else has, and nobody writes."""
        if type(name) is not str or aval.symbols:
            raise FileFormatError(f"{short(name)} is no digest of a constant whose size is known")
        if name not in self.constants:
            self.constants[name] = self.archive.array(member(name))
        array = shown_as(self.constants[name], aval.dtype, aval.shape)
        if array is not self.constants[name] or name in self._given:
            self.archive.take(array.nbytes, "a constant")
            array = array.copy()
        self._given.add(name)
        if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise FileFormatError(f"the constant {name} has bytes that are neither False nor True")
        array.flags.writeable = False
        return array

    def _bound(self, plan: Plan, constants: list[Any], **knowledge: Any) -> Program:
        names = plan.variable_names or tuple(self.variables)
        missing = [name for name in names if name not in self.variables]
        if missing:
            raise FileFormatError(f"it has no values of the variables {missing}")
        if len(set(names)) < len(names):
            raise FileFormatError(f"its plan names a variable twice: {names}")
        engine = _engine(self.stack)
        check = getattr(engine, "check_numerics", False)
        knowledge |= {"engine": engine if hasattr(engine, "with_kernels") else None, "linker": linker_of(engine)}
        variables = [self.variables[name] for name in names]
        return bound(plan, self.stack.device, constants, variables, check, self._admit, **knowledge)

    def _admit(self, plan: Plan) -> None:
        self.archive.take(memory_of(plan), "arenas and results")

    # --- the graph --------------------------------------------------------------------------------------

    def _graph(self) -> Callable[[], Any]:
        """What builds the graph, of operators that are trusted."""
        found: Callable[[], Any] = read_text(
            self.archive, self.stack, self.constants, self.variables, self.classes, self.allow
        )
        return found

    def _agreeing(self, plan: Plan, constants: list[Any]) -> Callable[[], Any]:
        """What builds the graph that the plan computes."""
        build = self._graph()

        def graph() -> Any:
            found = build()
            self._check_graph(plan, constants, found)
            return found

        return graph

    def _check_graph(self, plan: Plan, constants: list[Any], graph: Any) -> None:
        try:
            check_graph(plan, constants, graph)
        except PlanError as error:
            raise FileFormatError(f"{self.archive.path}: {error}") from None

    # --- arrays -----------------------------------------------------------------------------------------

    def _read_constants(self) -> None:
        for name in self.archive.names("constants"):
            found = name.removeprefix("constants/").removesuffix(".npy")
            self.constants[f"sha256:{found}"] = self.archive.array(name)

    def _read_variables(self) -> None:
        device, places = self.stack.device, self.about.get("places", {})  # of those that are not in the first one
        if type(places) is not dict:
            raise FileFormatError(f"{places!r} does not say in which places its variables are")
        for at, name in enumerate(variable_names(self.about)):
            array = owned(device, self.archive.array(f"variables/{at}.npy"), place=places.get(name))
            self.variables[name] = Variable(name, array, device.aval(array), device)


def _agrees(plan: Plan, constants: list[Any], graph: Any) -> bool:
    try:
        check_graph(plan, constants, graph)
    except PlanError:
        return False
    return True


def _avals(plan: Plan, slots: Iterable[int]) -> list[Aval]:
    """Those of slots, of a plan that was not verified yet."""
    unknown = [slot for slot in slots if slot >= len(plan.slots)]
    if unknown:
        raise FileFormatError(f"its plan has {len(plan.slots)} slots, and uses slot {unknown[0]}")
    return [plan.slots[slot].aval for slot in slots]


def _donated(about: Mapping[str, Any], graph: Any) -> list[int]:
    """Positions of the inputs that callers give up."""
    found = about["donated"]
    if type(found) is not list or any(type(n) is not int or not 0 <= n < len(graph.inputs) for n in found):
        raise FileFormatError(f"{found!r} does not say which of its {len(graph.inputs)} inputs are donated")
    return found


def _level() -> int:
    """How many frames lie between a warning of the caller's and the first line that is not this library's."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "nnc_func":
        level, frame = level + 1, frame.f_back
    return level + 1


def _engine(stack: Any) -> Any:
    return next((each for each in chain(stack.top) if each.role == "engine"), None)
