"""What commands plan: problems of models, in each order, and of files; with which allocators, and how long they may."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, fields, frozen, has

import nnc_func as nnc
from nnc_func.engine.allocators import ALLOCATORS, Allocator, by_name
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.errors import PlanError

UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0}
SUFFIXES = (".csv", ".json")
ALL = "all"
ENDLESS = 1 << 40  # steps of a search that a clock ends


@frozen
class Named:
    """An allocation problem, and what is known of its buffers.

    Attributes
    ----------
    name
        Of the file, or of the model.
    order
        Of the plan that it comes from; empty for a file.
    problem
        The problem.
    kinds, description
        One a buffer: the operator that writes it first, and what is told of its writes; empty for a file.
    """

    name: str
    order: str
    problem: Problem
    kinds: Sequence[str] = field(default=(), repr=False)
    description: Sequence[str] = field(default=(), repr=False)


def budget(words: str) -> dict[str, Any]:
    """How long a search may go on: seconds, as ``3s`` or ``500ms``, or a number of steps.

    Examples
    --------
    >>> budget("500ms"), budget("2000")
    ({'seconds': 0.5}, {'steps': 2000})
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min)?", words.strip())
    if found is None or (found[2] is None and "." in found[1]):
        raise argparse.ArgumentTypeError(f"{words!r} is no budget: wanted 3s, 500ms, or a number of steps")
    return {"steps": int(found[1])} if found[2] is None else {"seconds": float(found[1]) * UNITS[found[2]]}


def with_budget(allocator: Allocator, given: Mapping[str, Any]) -> Allocator:
    """An allocator that searches for so long, as many steps as it can; one that does not search is as it was.

    Examples
    --------
    >>> with_budget(ALLOCATORS["best_fit"], {"seconds": 1.0})
    BestFit()
    >>> with_budget(ALLOCATORS["portfolio"], {"seconds": 1.0}).seconds
    1.0
    """
    kind: Any = type(allocator)
    known = {a.name for a in fields(kind)} if has(kind) else set()
    chosen = {name: value for name, value in given.items() if name in known}
    if "seconds" in chosen and "steps" in known:
        chosen["steps"] = ENDLESS
    return evolve(allocator, **chosen) if chosen else allocator  # type: ignore[misc]


def allocators(names: Iterable[str], given: Mapping[str, Any] | None = None) -> dict[str, Allocator]:
    """Allocators by name, those that need a package too; or all that need none. With a budget.

    Raises
    ------
    PlanError
        There is none of that name.
    """
    wanted = list(names)
    chosen = list(ALLOCATORS) if ALL in wanted else wanted
    return {name: with_budget(by_name(name), given or {}) for name in chosen}


def is_problem(path: str) -> bool:
    """Whether it names a file with an allocation problem."""
    return Path(path).suffix in SUFFIXES


def read(path: str | Path, alignment: int = 1) -> Named:
    """The problem in a file.

    Raises
    ------
    PlanError
        It says none; names the file.
    """
    path = Path(path)
    try:
        is_json = path.suffix == ".json"
        found = Problem.from_json(path) if is_json else Problem.from_csv(path, alignment=alignment)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error
    return Named(path.stem, "", found)


def of_plan(name: str, plan: Any) -> Named:
    """The problem of a plan's arena, in the device's own place."""
    from nnc_func.engine.drawing.memory import tenants

    found = [t for t in tenants(plan) if t.buffer.place is None]
    return Named(name, plan.order, plan.problem, [t.operator for t in found], [t.written for t in found])


def planning(order: str | None = None) -> Any:
    """A stack that plans and computes nothing, its instructions in that order, or in the best of the usual ones."""
    stack = nnc.lazy(nnc.Null())
    engine: Any = stack.engine
    return stack if order is None else stack.swap(engine=engine.with_orders(order))
