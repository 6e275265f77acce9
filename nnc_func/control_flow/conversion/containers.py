"""Lists and dicts that a loop of operators writes into: refused, where which one that is differs from time to time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnc_func.control_flow.conversion.identities import Identities
from nnc_func.control_flow.conversion.objects import content, is_same
from nnc_func.control_flow.conversion.values import Rows
from nnc_func.errors import ControlFlowError
from nnc_func.tree import sorted_keys

if TYPE_CHECKING:
    from nnc_func.control_flow.conversion.loop_state import LoopState, Slot


def containers(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Lists and dicts of a tree, each as often as it stands there, with its path."""
    waiting = [(path, tree)]
    while waiting:
        at, each = waiting.pop()
        if type(each) in (list, dict, Rows):
            yield at, each
        if type(each) is Rows:
            each = each.segments
        if isinstance(each, dict):
            waiting += [(f"{at}.{key}", each[key]) for key in sorted_keys(each)]
        elif isinstance(each, (list, tuple)):
            waiting += [(f"{at}.{n}", part) for n, part in enumerate(each)]


def check_containers(state: LoopState, touched: set[int], written: bool, known: Identities) -> None:
    """Raise ControlFlowError where a list or a dict is written into, and which one that is differs."""
    rows: list[list[tuple[str, int, Any]]] = [[], []]
    for slot in state.slots:
        for row, tree in zip(rows, (slot.held.value, slot.end.value), strict=True):
            for path, each in containers(tree, slot.held.name):
                original = state.copies.original(each)
                row.append((path, id(original), original))
                for possible in known.possible(original):
                    if state.objects.number(possible) in touched:
                        raise ControlFlowError(
                            f"{state.start()} writes into {state.objects.path(possible)} by another name than "
                            f"{path}, which is that {type(possible).__name__} at one time, and another one at "
                            "another: use one name, or give one of them a copy of its own"
                        )
    if not written:
        return
    changed = {id(state.copies.original(made)) for _, made, before in state.begun if not is_same(before, content(made))}
    places: list[dict[int, list[str]]] = [{}, {}]
    for each, row in zip(places, rows, strict=True):
        for path, key, _ in row:
            each.setdefault(key, []).append(path)
    ends = {path: value for path, _, value in rows[1]}
    for path, key, value in rows[0]:
        if key not in changed:
            continue
        other = next((each for each in known.possible(ends.get(path))[1:] if each in state.objects), None)
        if other is not None:
            raise ControlFlowError(
                f"{state.start()} writes into {path}, which is {state.objects.path(other)} at one time and not at "
                "another: use one name, or give one of them a copy of its own"
            )
        if key not in places[1]:
            raise ControlFlowError(
                f"{state.start()} writes into {path}, then exchanges it for another {type(value).__name__}: write "
                "into it each time, or make a new one each time"
            )
        differing = {*places[0][key]} ^ {*places[1][key]}
        alone = len(places[0][key]) == len(places[1][key]) == 1
        if differing and not (alone and state.is_alone(value)):
            first = sorted(differing - {path})[0] if differing - {path} else path
            when = ("before", "after") if first in places[0][key] else ("after", "before")
            raise ControlFlowError(
                f"{state.start()} writes into {path}, which is the same object as {first} {when[0]} a time, and "
                f"not {when[1]} it; give one of them a value of its own, such as a copy, "
                f"{type(value).__name__}({first})"
            )
    both = [{path: key for path, key, _ in row} for row in rows]
    joined = {key for key, paths in places[1].items() if len(paths) > 1}
    for path, key, value in rows[1]:
        if key in joined and both[0].get(path) in changed and len({both[0].get(p) for p in places[1][key]}) > 1:
            raise ControlFlowError(
                f"{state.start()} writes into {path}, which is the same {type(value).__name__} as "
                f"{next(p for p in places[1][key] if p != path)} after a time, and not before it; give one of them "
                "a value of its own"
            )


def part_containers(state: LoopState, slot: Slot, value: Any, known: Identities) -> None:
    """Say of lists and dicts that a loop leaves which ones they may be: what was there before, what it ends with."""
    outer = [each for _, each in containers(slot.held.value, "")]
    for _, each in containers(slot.end.value, ""):
        outer += [other for other in known.possible(each) if other in state.objects]
    for _, each in containers(value, ""):
        known.part(each, outer, state.where)
