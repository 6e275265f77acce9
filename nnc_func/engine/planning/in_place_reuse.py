"""The planner decides in-place reuse: a result is written over an operand that dies, where a kernel allows it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nnc_func.engine.plan_rows import ARENA, DONATED, NEXT, OUTPUT, VARIABLE
from nnc_func.engine.planning.committing import is_certain
from nnc_func.engine.planning.draft import Draft, Overwriting
from nnc_func.facets.kernels import Kernel, overwritten
from nnc_func.graph.node import Node

OWN = (ARENA, DONATED, VARIABLE)  # kinds of memory that a result may be written over
_Fitting = tuple[int, Collection[int], list[int]]  # a result, the operands it may go over, those of them with its aval


def overwritable(draft: Draft) -> list[tuple[Overwriting, ...]]:
    """For each instruction what it may write over, wherever it is in the order, if nothing else wants that any more."""
    found: list[tuple[Overwriting, ...]] = []
    slots, storages = draft.slots, draft.storages
    alike, forms = draft.alike, dict[Node, list[_Fitting]]()
    for node, kernel, operands, results, _, _ in draft.instructions:
        if kernel is None or not kernel.overwrites:
            found.append(())
            continue
        form = alike.get(node, node)
        fitting = forms.get(form)
        if fitting is None:
            fitting = _fitting(draft, node, kernel, operands, results)
            if node in draft.kernels:  # what the engine inserts has no form of its own
                forms[form] = fitting
        pairs = []
        for at, allowed, same in fitting:
            result = slots[results[at]]
            made = storages[result.storage]
            if not result.is_whole or made.kind == OUTPUT:
                continue
            shown = [slots[o].storage for o in operands]
            homes, over = [], []
            for i in same:
                home, slot = shown[i], operands[i]
                if (
                    storages[home].nbytes == made.nbytes
                    and slots[slot].is_whole
                    and storages[home].kind in OWN
                    and (shown.count(home) == 1 or _same_elements(draft, operands, slot, allowed))
                ):
                    homes.append(home)
                    over.append(slot)
            if homes:
                pairs.append((result.storage, homes, over))
        found.append(tuple(pairs))
    return found


def _fitting(
    draft: Draft, node: Node, kernel: Kernel, operands: Sequence[int], results: Sequence[int]
) -> list[_Fitting]:
    """By avals alone: the results of an instruction that may be written over operands."""
    slots = draft.slots
    found = []
    for at, allowed in enumerate(overwritten(kernel, len(operands), node.items, len(results))):
        same = [i for i in allowed if slots[operands[i]].aval == slots[results[at]].aval]
        if same:
            found.append((at, allowed, same))
    return found


def _same_elements(draft: Draft, operands: Sequence[int], slot: int, allowed: Collection[int]) -> bool:
    """Whether memory that several operands show is the same elements in each, and overwriting it is allowed there."""
    shown = draft.slots[slot]
    rows = [draft.slots[o] for o in operands]
    return all(
        row.storage != shown.storage or (i in allowed and row.is_whole and row.aval.shape == shown.aval.shape)
        for i, row in enumerate(rows)
    )


def share(draft: Draft) -> None:
    """In place: a result takes over the memory of an operand that dies there, where the kernel allows it.

    A chain that starts over a variable must end in its update; one that does not is not begun the next time.
    """
    storages = draft.storages
    before = [(s.merged, s.last, s.users) for s in storages]
    while True:
        _share(draft)
        updates = {at for at, slot in draft.updates if draft.root(draft.slots[slot].storage) == _variable(draft, at)}
        over = [storages[draft.root(s)] for s, storage in enumerate(storages) if storage.merged != s]
        broken = {home.source for home in over if home.kind == VARIABLE and home.source not in updates}
        if not broken:
            return
        draft.updated -= broken
        for storage, (merged, last, users) in zip(storages, before, strict=True):
            storage.merged, storage.last, storage.users = merged, last, users


def _share(draft: Draft) -> None:
    for t, pairs in enumerate(draft.overwritable):
        if not pairs:
            continue
        taken: set[int] = set()
        for mine, homes, slots in pairs:
            if draft.pinned is not None and mine in draft.pinned:
                continue
            for storage, slot in zip(homes, slots, strict=True):
                home = draft.root(storage)
                if home not in taken and _dies(draft, t, home, slot, mine):
                    draft.take_over(mine, home)
                    taken.add(home)
                    break


def _dies(draft: Draft, t: int, storage: int, slot: int, mine: int) -> bool:
    home, made, slots = draft.storages[storage], draft.storages[mine], draft.slots
    if home.last != t:
        return False
    if draft.streams is not None and not draft.streams.all_before(home.users, t):
        return False  # another stream may still read it
    if home.kind == VARIABLE:  # only one that gets a new value, where nothing can fail any more
        if t < draft.commit or home.source not in draft.updated:
            return False
        if slots[slot].aval != slots[draft.leaf_slots[VARIABLE][home.source]].aval:
            return False  # the variable in another shape
        row = draft.instructions[t]
        if row.kernel is None or not (draft.request.is_body or is_certain(row.node, row.kernel)):
            return False  # it would leave the variable half written
        return made.kind != NEXT or home.source == made.source
    return made.kind != NEXT


def _variable(draft: Draft, at: int) -> int:
    return draft.slots[draft.leaf_slots[VARIABLE][at]].storage
