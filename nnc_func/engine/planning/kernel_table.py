"""Which kernel computes which application: a recorded table, and the one function that reads it.

The engine owns the table, as it owns the allocator: choosing changes when and how values are computed, never which,
so nodes, variables and devices stay the same under another table.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, field, frozen

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.errors import KernelTableWarning, PlanError
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import CONSTANT, LEAVES, VARIABLE
from nnc_func.graph.node import Node
from nnc_func.op import Op

if TYPE_CHECKING:
    from pathlib import Path

    from nnc_func.engine.tuning.environment import Environment

_aval = attrgetter("aval")
FORMAT = 2  # of the file; in the first one an environment was a "machine"


@frozen(order=True)
class Entry:
    """One choice: applications of the operator with these parameters to these operands run that kernel.

    Attributes
    ----------
    operator
        Its name.
    parameters
        All of them, as text: ``stride=1, padding='SAME'``.
    operands
        The operands' avals, as text: ``float32[100, 28, 28, 1]``.
    kernel
        The kernel's name.
    layouts
        For each operand the axes in the order in which they must lie in memory, outermost first: operands that lie
        otherwise are converted before, and results back after. Empty: they stay as they are.
    """

    operator: str
    parameters: str
    operands: tuple[str, ...]
    kernel: str
    layouts: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(
        cls, op: Op, items: Items, avals: Iterable[Aval], kernel: str, layouts: tuple[tuple[int, ...], ...] = ()
    ) -> Entry:
        """The entry for such applications."""
        return cls(op.name, *_key(items, avals), kernel, layouts)

    def __str__(self) -> str:
        said = f", {self.parameters}" if self.parameters else ""
        order = f", operands in the orders {list(self.layouts)}" if self.layouts else ""
        return f"{self.operator}({', '.join(self.operands)}{said}): {self.kernel}{order}"


def _key(items: Items, avals: Iterable[Aval]) -> tuple[str, tuple[str, ...]]:
    return ", ".join([f"{k}={v!r}" for k, v in items]), tuple(map(repr, avals))


def _sorted(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries))


@frozen(repr=False)
class KernelTable:
    """Recorded choices of kernels: data that an engine is given, that merges, and that is kept in a file.

    Attributes
    ----------
    entries
        The choices, one for each operator, parameters and operands.
    environment
        What they were measured on; None for choices made by hand.

    Raises
    ------
    PlanError
        Two kernels for the same applications.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> lazy = nnc.lazy()
    >>> x, w = lazy.input("x", (3, 4)), lazy.input("w", (4, 5))
    >>> matmul = CATALOGUE["matmul"]
    >>> table = KernelTable([Entry.of(matmul, matmul.canonical({}), (x.aval, w.aval), "reference")])
    >>> tuned = lazy.engine.with_kernels(table).compile(lazy.graph.close([x.value, w.value], [(x @ w).value]))
    >>> [(i.kernel, i.choice) for i in tuned.plan.instructions]
    [('reference', 'table')]
    """

    entries: tuple[Entry, ...] = field(default=(), converter=_sorted)
    environment: Environment | None = None
    _index: Mapping[str, Mapping[Any, Entry]] = field(init=False, eq=False, repr=False)

    @_index.default
    def _indexed(self) -> Mapping[str, Mapping[Any, Entry]]:
        found: dict[str, dict[Any, Entry]] = {}
        for e in self.entries:
            other = found.setdefault(e.operator, {}).setdefault((e.parameters, e.operands), e)
            if other != e:
                raise PlanError(f"two kernels for the same applications: {e}, and {other.kernel}")
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return KernelTable, (self.entries, self.environment)

    def __repr__(self) -> str:
        return f"KernelTable({len(self.entries) or ''})"

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        where = f"measured with {self.environment}" if self.environment else "made by hand"
        return "\n".join([f"{len(self.entries)} choices of kernels, {where}", *(f"  {e}" for e in self.entries)])

    def entry(self, op: Op, items: Items, avals: Iterable[Aval]) -> Entry | None:
        """What is recorded of such applications; None if nothing is."""
        found = self._index.get(op.name)
        return None if found is None else found.get(_key(items, avals))

    def kernel(self, op: Op, items: Items, avals: Iterable[Aval]) -> str | None:
        """The name of the recorded kernel for operands as they are; None where nothing is recorded."""
        found = self.entry(op, items, avals)
        return None if found is None or found.layouts else found.kernel

    def layouts(self, op: Op, items: Items, avals: Iterable[Aval]) -> tuple[tuple[int, ...], ...]:
        """The orders to which the operands are converted; empty where nothing is recorded."""
        found = self.entry(op, items, avals)
        return () if found is None else found.layouts

    def merged(self, other: KernelTable) -> KernelTable:
        """Both tables' choices; where both have one, the other's.

        Raises
        ------
        PlanError
            They were measured in different environments.
        """
        mine, theirs = self.environment, other.environment
        if mine and theirs and mine != theirs:
            raise PlanError(f"tables of different environments do not merge: {mine}; {theirs}")
        kept = {(e.operator, e.parameters, e.operands): e for e in (*self.entries, *other.entries)}
        return evolve(self, entries=kept.values(), environment=theirs or mine)

    def save(self, path: str | Path) -> None:
        """Write it to a file, as JSON."""
        found = {
            "format": FORMAT,
            "environment": asdict(self.environment) if self.environment else None,
            "kernels": [asdict(e) for e in self.entries],
        }
        import json  # few write a table to a file
        from pathlib import Path

        Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> KernelTable:
        """The table in a file.

        Results do not depend on a table, only speed does: one of another environment is taken, with a warning.

        Raises
        ------
        PlanError
            The file holds no table, or one of a newer format.
        """
        import json  # few read one
        from pathlib import Path

        from nnc_func.engine.tuning.environment import Environment

        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            if found["format"] > FORMAT:
                raise PlanError(f"{path} has format {found['format']}; this version reads formats up to {FORMAT}")
            described = found["environment" if found["format"] > 1 else "machine"]
            environment = Environment(**described) if described else None
            entries = [_entry(e) for e in found["kernels"]]
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, PlanError):
                raise
            raise PlanError(f"{path} holds no table of kernels: {type(error).__name__}: {error}") from None
        here = environment and Environment.here(environment.device)
        if environment != here:
            warnings.warn(
                f"{path} was measured with {environment}, this is {here}; program.autotune measures again",
                KernelTableWarning, stacklevel=2,
            )  # fmt: skip
        return cls(entries, environment)


def _entry(found: Mapping[str, Any]) -> Entry:
    """An entry as it is in a file."""
    layouts = tuple(tuple(map(int, axes)) for axes in found.get("layouts", ()))
    return Entry(**{**found, "operands": tuple(found["operands"]), "layouts": layouts})


NO_TABLE = KernelTable()


# --- reading it --------------------------------------------------------------------------------------


def chosen(device: Any, op: Op, items: Items, avals: tuple[Aval, ...], table: KernelTable) -> Kernel:
    """The kernel that runs: the recorded one, where there is one that the device has and that takes these operands.

    Else it is the device's own choice. A pure function of its arguments.

    Raises
    ------
    DeviceError
        The operator has no kernel on the device.
    """
    name = table.kernel(op, items, avals)
    if name is not None:
        for kernel in device.candidates(op, avals, items):
            if kernel.name == name:
                return kernel  # type: ignore[no-any-return]
    return device.choose(op, avals, items)  # type: ignore[no-any-return]


def kernels_of(
    graph: ComputationGraph, device: Any, table: KernelTable
) -> tuple[dict[Node, Kernel], set[Node], dict[Node, Node]]:
    """The kernel of each application of a graph, those that the table names, and whom each application is alike.

    Applications are alike where operator, parameters and operands' avals are the same: a device is asked once about
    them. The first one stands for all; it is none of the last result's keys. A recorded kernel that is not there, or
    does not take its operands, is passed over with one warning for the graph.

    Raises
    ------
    DeviceError
        An operator has no kernel on the device.
    """
    kernels: dict[Node, Kernel] = {}
    recorded: set[Node] = set()
    missing: list[str] = []
    first: dict[Any, Node] = {}
    alike: dict[Node, Node] = {}
    packs: dict[Op, bool] = {}
    updated = {leaf for leaf, _ in graph.updates}
    for node in graph.nodes:
        op, items = node.op, node.items
        if not node.args and op in LEAVES:
            continue
        avals = tuple(map(_aval, node.args))
        if op not in packs:
            packs[op] = any(k.lasting for k in op.kernels)
        lasting = tuple([i for i, a in enumerate(node.args) if _lasts(a.node, updated)]) if packs[op] else ()
        one = first.setdefault((op, items and op.key(items), avals, lasting), node)
        if one is not node:
            alike[node] = one
            kernels[node] = kernels[one]
            if one in recorded:
                recorded.add(node)
            continue
        name = table.kernel(op, items, avals) if table.entries else None
        if name is None:
            kernels[node] = _packed(op, device.choose(op, avals, items), lasting)
            continue
        found = chosen(device, op, items, avals, table)
        kernels[node] = _packed(op, found, lasting)
        if found.name == name:
            recorded.add(node)
        else:
            missing.append(f"{op.name}: {name!r}")
    if missing:
        said = ", ".join(dict.fromkeys(missing))
        warnings.warn(
            f"the table of kernels names what {device!r} cannot run, and is passed over there: {said}",
            KernelTableWarning, stacklevel=2,
        )  # fmt: skip
    return kernels, recorded, alike


def _lasts(node: Node, updated: Collection[Node]) -> bool:
    """Whether its elements are the same in each run until somebody says so: a constant, or a variable not written."""
    return node.op is CONSTANT or (node.op is VARIABLE and node not in updated)


def _packed(op: Op, kernel: Kernel, lasting: tuple[int, ...]) -> Kernel:
    """The kernel, or the one that it names for operands that stay the same, if those do."""
    if not kernel.packed:
        return kernel
    found = next(k for k in op.kernels if k.name == kernel.packed)
    return found if set(found.lasting) <= set(lasting) else kernel
