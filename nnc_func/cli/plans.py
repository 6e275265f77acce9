"""What commands plan: problems of models, in each order, and of files; with which allocators, and how long they may."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, fields, frozen, has

import nnc_func as nnc
from nnc_func.cli import members
from nnc_func.engine.allocators import ALLOCATORS, OPTIONAL, Allocator, by_name
from nnc_func.engine.allocators.problems import instances
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.naming import unknown
from nnc_func.engine.orders import ORDERS
from nnc_func.engine.planning.budgets import as_bytes
from nnc_func.engine.rematerialising import STRATEGIES
from nnc_func.engine.spilling import POLICIES
from nnc_func.errors import PlanError, RuleError

UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
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
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|h)?", words.strip())
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
    """Allocators by name, those that need a package too; or all that need none; or a user's own. With a budget.

    Raises
    ------
    PlanError
        There is none of that name; tells the nearest.
    """
    found = chosen(names, "allocator", (*ALLOCATORS, *OPTIONAL), by_name, ALLOCATORS)
    return {name: with_budget(allocator, given or {}) for name, allocator in found.items()}


def orders(names: Iterable[str]) -> dict[str, Any]:
    """Orders by name, or all of them, or a user's own.

    Raises
    ------
    PlanError
        There is none of that name; tells the nearest.
    """
    return chosen(names, "order", ORDERS, ORDERS.__getitem__, ORDERS)


def strategies(names: Iterable[str]) -> dict[str, Any]:
    """Strategies of rematerialisation by name, or all that need no package, or a user's own.

    Raises
    ------
    PlanError
        There is none of that name; tells the nearest.
    """
    needs_none = [name for name in STRATEGIES if name != "optimal"]
    return chosen(names, "strategy", STRATEGIES, STRATEGIES.__getitem__, needs_none)


def policies(names: Iterable[str]) -> dict[str, Any]:
    """Policies of spilling by name, or all that need no package, or a user's own.

    Raises
    ------
    PlanError
        There is none of that name; tells the nearest.
    """
    needs_none = [name for name in POLICIES if name != "exact"]
    return chosen(names, "policy", POLICIES, POLICIES.__getitem__, needs_none)


def chosen(
    names: Iterable[str], what: str, known: Iterable[str], find: Callable[[str], Any], all_of: Iterable[str]
) -> dict[str, Any]:
    """What has those names; ``module:NAME`` and ``file.py:NAME`` are a user's own functions, or instances of classes.

    Raises
    ------
    PlanError
        There is none of that name; tells the nearest. Or it cannot be imported, or called.

    Examples
    --------
    >>> [*chosen(["depth_first", "operator:neg"], "order", ORDERS, ORDERS.__getitem__, ORDERS)]
    ['depth_first', 'operator:neg']
    """
    wanted, found = list(names), {}
    for name in dict.fromkeys(all_of if ALL in wanted else wanted):
        if members.is_named_so(name):
            found[name] = _own(name, what)
        elif name in known:
            found[name] = find(name)
        else:
            raise PlanError(unknown(name, what, known))
    if ALL in wanted:
        found |= {name: _own(name, what) for name in wanted if members.is_named_so(name)}
    return found


def _own(name: str, what: str) -> Any:
    try:
        found = members.member(name, Callable, what, "wanted a function of a problem, or a class of such")
    except RuleError as error:
        raise PlanError(str(error)) from error
    if not isinstance(found, type):
        return found
    try:
        made = found()
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise PlanError(f"{name} is a class, which is not made without arguments: {why}; name an instance") from error
    if not callable(made):
        raise PlanError(f"{name} is a class, whose instances cannot be called: wanted a function of a problem")
    return made


def seconds(words: str) -> float | None:
    """A limit of time, as ``30s``, ``10min`` or ``2h``; or ``none``.

    Examples
    --------
    >>> seconds("10min"), seconds("none")
    (600.0, None)
    """
    if words == "none":
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|h)", words.strip())
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{words!r} is no limit: wanted 30s, 10min, 2h, or none")
    return float(found[1]) * UNITS[found[2]]


def nbytes(words: str) -> int:
    """A number of bytes, as ``4GiB``.

    Examples
    --------
    >>> nbytes("4GiB")
    4294967296
    """
    try:
        return as_bytes(words)
    except PlanError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def is_problem(path: str) -> bool:
    """Whether it names a file with an allocation problem."""
    return Path(path).suffix in instances.SUFFIXES


def read(path: str | Path, alignment: int = 1) -> Named:
    """The problem in a file.

    Raises
    ------
    PlanError
        It says none; names the file.
    """
    path = Path(path)
    return Named(path.stem, "", instances.read(path, alignment))


def of_plan(name: str, plan: Any) -> Named:
    """The problem of a plan's arena, in the device's own place."""
    from nnc_func.engine.drawing.memory import tenants

    found = [t for t in tenants(plan) if t.buffer.place is None]
    return Named(name, plan.order, plan.problem, [t.operator for t in found], [t.written for t in found])


def planning(order: Any = None, in_levels: bool = False) -> Any:
    """A stack that plans and computes nothing, its instructions in that order, or in the best of the usual ones.

    It has one memory, or two places: fast memory, and a slow one.
    """
    stack = nnc.lazy(nnc.Places(fast=nnc.Null(), slow=nnc.Null()) if in_levels else nnc.Null())
    engine: Any = stack.engine
    return stack if order is None else stack.swap(engine=engine.with_orders(order))
