"""Lifetimes, and who takes over whose memory: in place, and in the memory of outputs that are not written yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from nnc_func.engine.plan_rows import ARENA, DONATED, LENT, NEXT, OUTPUT, VARIABLE
from nnc_func.engine.planning.committing import is_certain
from nnc_func.engine.planning.draft import FOREVER, Draft, Overwriting
from nnc_func.engine.planning.lending import borrowers
from nnc_func.facets.kernels import Kernel, overwritten
from nnc_func.facets.places import Place
from nnc_func.graph.node import Node

OWN = (ARENA, DONATED, VARIABLE)  # kinds of memory that a result may be written over
_Fitting = tuple[int, Collection[int], list[int]]  # a result, the operands it may go over, those of them with its aval
TOLERATED = 1.1  # so many times the bytes of a plan with a long commit section one with the shortest may need


def lifetimes(draft: Draft) -> None:
    """First and last use of every storage, views counted for their base; with streams, every use."""
    count = len(draft.kind)
    first, last = [FOREVER] * count, [-1] * count
    draft.first, draft.last, draft.merged = first, last, [*range(count)]
    for t, used in enumerate(draft.touched):
        for s in used:
            last[s] = t
            if first[s] == FOREVER:
                first[s] = t
    if draft.streams is not None:
        draft.users = [[] for _ in draft.kind]
        for t, used in enumerate(draft.touched):
            for s in used:
                draft.users[s].append(t)
    end = len(draft.instructions)
    for s, kind in enumerate(draft.kind):
        if kind in (OUTPUT, NEXT):
            last[s] = end
        elif kind == DONATED:  # it is there before the first instruction
            first[s] = 0


def share(draft: Draft) -> None:
    """In place: a result takes over the memory of an operand that dies there, where the kernel allows it.

    A chain that starts over a variable must end in its update; one that does not is not begun the next time.
    """
    merged, last, users = list(draft.merged), list(draft.last), list(draft.users)
    while True:
        _share(draft)
        updates = {at for at, slot in draft.updates if draft.root(draft.storage[slot]) == _variable(draft, at)}
        broken = {
            draft.source[root]
            for s in range(len(draft.kind))
            if (root := draft.root(s)) != s and draft.kind[root] == VARIABLE and draft.source[root] not in updates
        }
        if not broken:
            return
        draft.updated -= broken
        draft.merged, draft.last, draft.users = list(merged), list(last), list(users)


def _variable(draft: Draft, at: int) -> int:
    return draft.storage[draft.leaf_slots[VARIABLE][at]]


def overwritable(draft: Draft) -> list[tuple[Overwriting, ...]]:
    """For each instruction what it may write over, wherever it is in the order, if nothing else wants that any more."""
    found: list[tuple[Overwriting, ...]] = []
    storage, whole, kind, nbytes = draft.storage, draft.whole, draft.kind, draft.nbytes
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
            made = storage[results[at]]
            if not whole[results[at]] or kind[made] == OUTPUT:
                continue
            homes = [storage[o] for o in operands]
            fit = [
                i
                for i in same
                if nbytes[homes[i]] == nbytes[made]
                and whole[operands[i]]
                and kind[homes[i]] in OWN
                and (homes.count(homes[i]) == 1 or _same_elements(draft, operands, operands[i], allowed))
            ]
            if fit:
                pairs.append((made, [homes[i] for i in fit], [operands[i] for i in fit]))
        found.append(tuple(pairs))
    return found


def _fitting(
    draft: Draft, node: Node, kernel: Kernel, operands: Sequence[int], results: Sequence[int]
) -> list[_Fitting]:
    """By avals alone: the results of an instruction that may be written over operands."""
    avals = draft.avals
    found = []
    for at, allowed in enumerate(overwritten(kernel, len(operands), node.items, len(results))):
        same = [i for i in allowed if avals[operands[i]] == avals[results[at]]]
        if same:
            found.append((at, allowed, same))
    return found


def _same_elements(draft: Draft, operands: Sequence[int], slot: int, allowed: Collection[int]) -> bool:
    """Whether memory that several operands show is the same elements in each, and overwriting it is allowed there."""
    storage, shape = draft.storage[slot], draft.avals[slot].shape
    return all(
        draft.storage[o] != storage or (i in allowed and draft.whole[o] and draft.avals[o].shape == shape)
        for i, o in enumerate(operands)
    )


def _share(draft: Draft) -> None:
    for t, pairs in enumerate(draft.overwritable):
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
    kind = draft.kind[mine]
    if draft.last[storage] != t:
        return False
    if draft.streams is not None and not draft.streams.all_before(draft.users[storage], t):
        return False  # another stream may still read it
    if draft.kind[storage] == VARIABLE:  # only one that gets a new value, where nothing can fail any more
        if t < draft.commit or draft.source[storage] not in draft.updated:
            return False
        if draft.avals[slot] != draft.avals[draft.leaf_slots[VARIABLE][draft.source[storage]]]:
            return False  # the variable in another shape
        row = draft.instructions[t]
        if row.kernel is None or not is_certain(row.node, row.kernel):
            return False  # it would leave the variable half written
        return kind != NEXT or draft.source[storage] == draft.source[mine]
    return kind != NEXT


def lend(draft: Draft) -> None:
    """What is dead before an output is written may live in its memory, where that lowers the peak."""
    bound = {s for *_, scratch, _ in draft.instructions for _, s in scratch}  # once, to the arena: outputs are fresh
    uses = None if draft.streams is None else draft.streams.uses(draft.users)
    for slot in sorted(draft.outputs, key=lambda s: -draft.avals[s].nbytes):
        output = draft.storage[slot]
        if draft.avals[slot].layout is not None:
            continue  # views into it would have to be of flat memory
        arena = _free(draft, bound, draft.place[output])
        chosen = borrowers(
            [draft.nbytes[s] for s in arena],
            [draft.first[s] for s in arena],
            [draft.last[s] + 1 for s in arena],
            draft.nbytes[output],
            draft.first[output],
            None if uses is None else uses.of([*arena, output]),
        )
        for at in chosen:
            draft.kind[arena[at]], draft.source[arena[at]] = LENT, draft.source[output]


def reuse(draft: Draft) -> None:
    """What comes after the last use of an input that was given up may live in its memory, where that lowers the peak.

    It is lending with time reversed. Among streams, where after is not decided by numbers, nothing is housed so.
    """
    given_up = [s for s, kind in enumerate(draft.kind) if kind == DONATED and draft.merged[s] == s]
    bound = {s for *_, scratch, _ in draft.instructions for _, s in scratch}
    end = len(draft.instructions) + 1
    for home in sorted(given_up, key=lambda s: -draft.nbytes[s]) if draft.streams is None else ():
        arena = _free(draft, bound, draft.place[home])
        chosen = borrowers(
            [draft.nbytes[s] for s in arena],
            [end - draft.last[s] - 1 for s in arena],
            [end - draft.first[s] for s in arena],
            draft.nbytes[home],
            end - draft.last[home] - 1,
        )
        for at in chosen:
            draft.kind[arena[at]], draft.source[arena[at]] = DONATED, draft.source[home]


def _free(draft: Draft, bound: Collection[int], place: Place) -> list[int]:
    """The storages of the arena in a place that may live elsewhere: all but those that are bound to it."""
    rows = enumerate(zip(draft.merged, draft.kind, draft.place, strict=True))
    return [s for s, (root, kind, at) in rows if root == s and kind == ARENA and s not in bound and at == place]


def peak(draft: Draft) -> int:
    """The most bytes of the arena alive at one time."""
    if draft.peak is None:
        draft.peak, _ = busiest(draft)
    return draft.peak


def unfinished_peak(draft: Draft) -> int:
    """The same of wholes of which a part is there, but not all."""
    return max(_loads(draft, {s: t for s, t in draft.finished.items() if draft.kind[s] == ARENA}))


def unfinished(draft: Draft) -> set[Node]:
    """The wholes of which a part is there, but not all, when the most bytes are alive."""
    _, at = busiest(draft)
    whole = {n: s for n, s in draft.assembled.items() if draft.kind[s] == ARENA}
    return {n for n, s in whole.items() if draft.first[s] <= at < draft.finished[s]}


def footprint(draft: Draft) -> int:
    """Bytes of the arena, at most, and of next values of variables."""
    return peak(draft) + sum(draft.nbytes[s] for s, k in enumerate(draft.kind) if k == NEXT and draft.merged[s] == s)


def least(draft: Draft) -> int:
    """Bytes of the arena, at most, without what is alive when the commit section starts.

    A plan that writes variables as soon as it can takes no less, in that order.
    """
    first, commit = draft.first, draft.commit
    alive = _alive(draft)
    passing = {s: last for s, last in alive.items() if not first[s] < commit <= last}
    most = peak(draft) - sum(draft.nbytes[s] + draft.alignment for s in alive if s not in passing)
    return most if TOLERATED * most >= footprint(draft) else max(_loads(draft, passing))


def busiest(draft: Draft) -> tuple[int, int]:
    """The most bytes of the arena alive at one time, and the first instruction where they are."""
    loads = _loads(draft, _alive(draft))
    most = max(loads)
    return most, loads.index(most)


def least_at(draft: Draft, at: int) -> int:
    """The least bytes that are alive while an instruction runs, in any order and with any commit section.

    They are what it uses, and what one before it in any order uses as well as one behind it. As
    `orders.bounds.bound_at`, but without what a section adds.
    """
    rows, uses = draft.instructions, draft.uses
    operands: set[int] = set(rows[at].operands)
    begun: set[int] = set(uses[at])
    for t in range(at - 1, -1, -1):
        if not operands.isdisjoint(rows[t].results):
            operands.update(rows[t].operands)
            begun.update(uses[t])
    results: set[int] = set(rows[at].results)
    wanted: set[int] = set()
    for t in range(at + 1, len(rows)):
        if not results.isdisjoint(rows[t].operands):
            results.update(rows[t].results)
            wanted.update(uses[t])
    alive = sum([draft.sizes[s] for s in (begun & wanted).union(uses[at])])
    return alive - sum([draft.sizes[made] for made, homes, _ in draft.overwritable[at] if not wanted.issuperset(homes)])


def _alive(draft: Draft) -> dict[int, int]:
    """Draft of the arena, and the last use of each."""
    kind, merged = draft.kind, draft.merged
    return {s: last for s, last in enumerate(draft.last) if last >= 0 and kind[s] == ARENA and merged[s] == s}


def _loads(draft: Draft, until: dict[int, int]) -> list[int]:
    """The bytes alive at each instruction, of storages and their last instructions, as they are aligned."""
    change = [0] * (len(draft.instructions) + 2)
    nbytes, first, alignment = draft.nbytes, draft.first, draft.alignment
    for s, last in until.items():
        size = -(-nbytes[s] // alignment) * alignment
        change[first[s]] += size
        change[last + 1] -= size
    return [*accumulate(change)]


def begin(draft: Draft) -> None:
    """Let the commit section start at the first write to a variable: interrupts are held from there on.

    Streams have arranged with each other where it starts.
    """
    if draft.streams is not None:
        return
    storage, kind = draft.storage, draft.kind
    for t in range(draft.commit, len(draft.instructions)):
        _, _, _, results, _, view = draft.instructions[t]
        if not view and any(kind[draft.root(storage[slot])] == VARIABLE for slot in results):
            draft.commit = t
            return
    draft.commit = len(draft.instructions)
