"""An interpretation computes a graph's nodes one after the other, as they are, and frees each after its last use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from nnc_func.aval import Aval
from nnc_func.engine.running.observers import Application, Observer, observed
from nnc_func.errors import NncError
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import INPUT, LEAVES, VARIABLE
from nnc_func.graph.node import Node, Value
from nnc_func.graph.origin import describe
from nnc_func.op import Op


class Applications:
    """A graph's applications as they are now, with values by number: a node that is forced later becomes a leaf.

    Attributes
    ----------
    rows
        Of each application the node, its operator, the values that it reads, its parameters, the values that it makes.
    avals
        Of each value.
    constants
        Value to array.
    inputs, variables, outputs
        Values.
    updates
        Pairs (position among the variables, new value).
    """

    def __init__(self, graph: ComputationGraph) -> None:
        self.rows: list[tuple[Node, Op, tuple[int, ...], dict[str, Any], tuple[int, ...]]] = []
        self.avals: list[Aval] = []
        self.constants: dict[int, Any] = {}
        numbers: dict[Value, int] = {}
        for node in graph.nodes:
            results = tuple(range(len(self.avals), len(self.avals) + len(node.results)))
            self.avals += [value.aval for value in node.results]
            numbers.update(zip(node.results, results, strict=True))
            if node.op not in LEAVES:
                operands = tuple([numbers[a] for a in node.args])
                self.rows.append((node, node.op, operands, node.params, results))
            elif node.op is not INPUT and node.op is not VARIABLE:
                self.constants.update(zip(results, node.data if node.op.multi_result else (node.data,), strict=True))
        self.inputs = tuple([numbers[n] for n in graph.inputs])
        self.variables = tuple([numbers[n] for n in graph.variables])
        self.outputs = tuple([numbers[v] for v in graph.outputs])
        at = {node: i for i, node in enumerate(graph.variables)}
        self.updates = tuple((at[v], numbers[u]) for v, u in graph.updates)


class Interpretation:
    """Applications, and the arrays that their values are: see `Executable`, of which a slot is a value here.

    Parameters
    ----------
    applications, device
        What is computed, and where.
    kept
        The values that outlive a run; any other is let go after its last use in what is run.
    """

    def __init__(self, applications: Applications, device: Any, kept: Collection[int]) -> None:
        self.applications = applications
        self.device = device
        self.kept = kept
        self.arrays: list[Any] = [None] * len(applications.avals)
        for value, array in applications.constants.items():
            self.arrays[value] = array
        self._passing: set[int] = set()

    def put(self, slot: int, array: Any) -> None:
        """Let a value be that array, until `forget`."""
        self._passing.add(slot)
        self.arrays[slot] = array

    def keep(self, slot: int, array: Any) -> None:
        """Let a value be that array until another is put there."""
        self.arrays[slot] = array

    def array(self, slot: int) -> Any:
        """The array of a value; None where it was let go."""
        return self.arrays[slot]

    def forget(self) -> None:
        """Keep no array that was `put`."""
        for slot in self._passing:
            self.arrays[slot] = None
        self._passing.clear()

    def section(self, instructions: Sequence[int]) -> InterpretedSection:
        """Those applications, by number and in order."""
        return InterpretedSection(self, instructions)

    def as_function(self, *_: Any, **__: Any) -> None:
        """None: an interpretation is not written out."""


class InterpretedSection:
    """Some of an interpretation's applications; see `Section`."""

    def __init__(self, interpretation: Interpretation, instructions: Sequence[int]) -> None:
        self.instructions = instructions
        self.started = 0
        self._of = interpretation
        self._ends = self._last_uses()

    def _last_uses(self) -> dict[int, list[int]]:
        """Application to the values that are let go after it."""
        rows, kept = self._of.applications.rows, self._of.kept
        made = {value for *_, results in rows for value in results}
        last = {value: t for t in self.instructions for part in (rows[t][2], rows[t][4]) for value in part}
        ends: dict[int, list[int]] = {}
        for value, t in last.items():
            if value in made and value not in kept:
                ends.setdefault(t, []).append(value)
        return ends

    def run(self) -> None:
        """Compute them one after the other.

        Raises
        ------
        NncError
            An operator failed.
        """
        self.started = 0
        rows, device, arrays = self._of.applications.rows, self._of.device, self._of.arrays
        for t in self.instructions:
            self.started += 1
            node, op, operands, params, results = rows[t]
            found = applied(device, node, op, [arrays[a] for a in operands], params)
            self._settle(t, results, found if op.multi_result else (found,))

    def walk(self, watching: Sequence[Observer], wait: Any = None, first: int = 0) -> Iterator[Application]:
        """Compute each before the observers' eyes, when it is asked for."""
        self.started = 0
        for t in self.instructions:
            node, op, operands, params, results = self._of.applications.rows[t]
            found = Application(self._of.device, first + self.started, t, op, node.items, node.origin)
            found.arguments = [self._of.arrays[a] for a in operands]
            self.started += 1
            observed(found, partial(self._shown, found, node, params), watching, wait, _as_it_is)
            self._settle(t, results, found.outs)
            yield found

    def _settle(self, t: int, results: tuple[int, ...], found: Sequence[Any]) -> None:
        arrays = self._of.arrays
        for value, array in zip(results, found, strict=True):
            arrays[value] = array
        for value in self._ends.get(t, ()):
            arrays[value] = None

    def _shown(self, application: Application, node: Node, params: dict[str, Any]) -> None:
        found = applied(self._of.device, node, application.op, list(application.arguments), params)
        application.outs = found if application.op.multi_result else (found,)


def _as_it_is(error: Exception) -> Exception:
    return error


def applied(device: Any, node: Node, op: Op, args: list[Any], params: dict[str, Any]) -> Any:
    """One application, which names the user's line where it fails."""
    try:
        return device.bind(op, *args, **params)
    except Exception as error:
        where = describe(node.origin)
        if isinstance(error, NncError):
            if where and where not in str(error):
                error.args = (f"{error} (built at {where})",)
        elif where and hasattr(error, "add_note"):
            error.add_note(f"{op.name} was built at {where}")
        raise
