"""Which tensors that a loop carries may be one object, and when: truth values of that are carried, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

from nnc_func.control_flow.conversion.identities import Identities
from nnc_func.graph.tensors.tensor import Tensor

if TYPE_CHECKING:
    from nnc_func.control_flow.conversion.loop_state import LoopState

Key = tuple[Any, ...]
"""Of a place: the number of a variable; or that of an object, and which of its parts. Of a leaf: place and number."""
FIRST, LATER, ALWAYS, OWN = "first", "later", "always", "own"


class AgainError(Exception):
    """The body is to be traced again: it writes into more, or exchanges more, than was thought."""


@define(eq=False)
class Pair:
    """Two tensors that may be one object.

    Attributes
    ----------
    when
        At the first time alone, at all times but this, always, or as a truth value of its own says.
    before
        Whether they are one before the loop.
    """

    when: str
    before: Any


def carried_pairs(state: LoopState, known: Identities) -> list[Any]:
    """The truth values that are carried on: which tensors are one object at the end of a time.

    Raises
    ------
    AgainError
        There are more than was known.
    """
    rows: dict[Key, list[dict[int, Any]]] = {}  # of each leaf, before and after a time: what it may be one with
    for slot in state.slots:
        for i in slot.moving:
            key, first = (*slot.key, i), slot.held.leaves[i]
            rows[key] = [{**state.starts[key]}, one_with(state, slot.end.leaves[i], known)]
            if state.is_alone(first) or id(first) not in state.near:
                rows[key][0].pop(id(first), None)
    again, bits = False, dict[Any, Any]()
    for pair, before, after in _near(state, rows):
        if before is False and after is False:
            continue
        when = OWN
        if type(before) is type(after) is bool:
            when = ALWAYS if before and after else FIRST if before else LATER
        was = state.pairs.get(pair)
        if was is None or (was.when != when and was.when != OWN):
            state.pairs[pair] = Pair(when if was is None else OWN, before)
            again = True
        bits[pair] = after
    for known_pair, one in state.pairs.items():
        if known_pair not in bits and one.when != OWN:
            state.pairs[known_pair] = Pair(OWN, one.before)
            again = True
        bits.setdefault(known_pair, False)
    if again:
        raise AgainError
    stack = next((x.stack for x in state.phis.values() if isinstance(x, Tensor)), None)
    values = [False if key == (FIRST, FIRST) else bits[key] for key in state.bits()]
    return [stack.asarray(np.bool_(each)) if type(each) is bool else each for each in values]  # type: ignore[union-attr]


def one_with(state: LoopState, leaf: Any, known: Identities) -> dict[int, Any]:
    """Tensors by identity that a leaf may be one with, and whether it is."""
    if not isinstance(leaf, Tensor):
        return {}
    found = {id(leaf): True} | {id(other): same for other, same in known.partners(leaf)}
    for other in (leaf, *(each for each, _ in known.partners(leaf))):
        if other in state.objects or id(other) in state.outside:
            state.near[id(other)] = other
    return found


def _near(state: LoopState, rows: dict[Key, list[dict[int, Any]]]) -> Iterator[tuple[tuple[Any, Any], Any, Any]]:
    """Pairs of leaves, and of a leaf and a tensor from outside, with whether they are one before and after."""
    starts: dict[int, list[Key]] = {}
    ends: dict[int, list[Key]] = {}
    for slot in state.slots:
        for i in slot.moving:
            starts.setdefault(id(slot.held.leaves[i]), []).append((*slot.key, i))
            ends.setdefault(id(slot.end.leaves[i]), []).append((*slot.key, i))
    order = {key: n for n, key in enumerate(rows)}
    of = {(*slot.key, i): (slot.held.leaves[i], slot.end.leaves[i]) for slot in state.slots for i in slot.moving}
    for key, (before, after) in rows.items():
        for other in dict.fromkeys([*before, *after]):
            if other in state.near:
                yield (key, other), before.get(other, False), after.get(other, False)
        around = [each for start in before for each in starts.get(start, ())]
        around += [each for end in after for each in ends.get(end, ())]
        for each in dict.fromkeys(around):
            if order[each] < order[key]:
                one, two = of[each]
                yield (key, each), before.get(id(one), False), after.get(id(two), False)
