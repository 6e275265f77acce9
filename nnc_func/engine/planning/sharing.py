"""Lifetimes, and who takes over whose memory: in place, and in the memory of outputs that are not written yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from nnc_func.engine.plan_rows import ARENA, DONATED, LENT, NEXT, OUTPUT, VARIABLE
from nnc_func.engine.planning.committing import is_certain
from nnc_func.engine.planning.lending import borrowers
from nnc_func.engine.planning.storages import FOREVER, Overwriting, Storages
from nnc_func.facets.kernels import Kernel, overwritten
from nnc_func.graph.node import Node

OWN = (ARENA, DONATED, VARIABLE)  # kinds of memory that a result may be written over
_Fitting = tuple[int, Collection[int], list[int]]  # a result, the operands it may go over, those of them with its aval
TOLERATED = 1.1  # so many times the bytes of a plan with a long commit section one with the shortest may need


def lifetimes(work: Storages) -> None:
    """First and last use of every storage, views counted for their base; with streams, every use."""
    count = len(work.kind)
    first, last = [FOREVER] * count, [-1] * count
    work.first, work.last, work.merged = first, last, [*range(count)]
    for t, used in enumerate(work.touched):
        for s in used:
            last[s] = t
            if first[s] == FOREVER:
                first[s] = t
    if work.streams is not None:
        work.users = [[] for _ in work.kind]
        for t, used in enumerate(work.touched):
            for s in used:
                work.users[s].append(t)
    end = len(work.instructions)
    for s, kind in enumerate(work.kind):
        if kind in (OUTPUT, NEXT):
            last[s] = end
        elif kind == DONATED:  # it is there before the first instruction
            first[s] = 0


def share(work: Storages) -> None:
    """In place: a result takes over the memory of an operand that dies there, where the kernel allows it.

    A chain that starts over a variable must end in its update; one that does not is not begun the next time.
    """
    merged, last, users = list(work.merged), list(work.last), list(work.users)
    while True:
        _share(work)
        updates = {at for at, slot in work.updates if work.root(work.storage[slot]) == _variable(work, at)}
        broken = {
            work.source[root]
            for s in range(len(work.kind))
            if (root := work.root(s)) != s and work.kind[root] == VARIABLE and work.source[root] not in updates
        }
        if not broken:
            return
        work.updated -= broken
        work.merged, work.last, work.users = list(merged), list(last), list(users)


def _variable(work: Storages, at: int) -> int:
    return work.storage[work.leaf_slots[VARIABLE][at]]


def overwritable(work: Storages) -> list[tuple[Overwriting, ...]]:
    """For each instruction what it may write over, wherever it is in the order, if nothing else wants that any more."""
    found: list[tuple[Overwriting, ...]] = []
    storage, whole, kind, nbytes = work.storage, work.whole, work.kind, work.nbytes
    alike, forms = work.alike, dict[Node, list[_Fitting]]()
    for node, kernel, operands, results, _, _ in work.instructions:
        if kernel is None or not kernel.overwrites:
            found.append(())
            continue
        form = alike.get(node, node)
        fitting = forms.get(form)
        if fitting is None:
            fitting = _fitting(work, node, kernel, operands, results)
            if node in work.kernels:  # what the engine inserts has no form of its own
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
                and (homes.count(homes[i]) == 1 or _same_elements(work, operands, operands[i], allowed))
            ]
            if fit:
                pairs.append((made, [homes[i] for i in fit], [operands[i] for i in fit]))
        found.append(tuple(pairs))
    return found


def _fitting(
    work: Storages, node: Node, kernel: Kernel, operands: Sequence[int], results: Sequence[int]
) -> list[_Fitting]:
    """By avals alone: the results of an instruction that may be written over operands."""
    avals = work.avals
    found = []
    for at, allowed in enumerate(overwritten(kernel, len(operands), node.items, len(results))):
        same = [i for i in allowed if avals[operands[i]] == avals[results[at]]]
        if same:
            found.append((at, allowed, same))
    return found


def _same_elements(work: Storages, operands: Sequence[int], slot: int, allowed: Collection[int]) -> bool:
    """Whether memory that several operands show is the same elements in each, and overwriting it is allowed there."""
    storage, shape = work.storage[slot], work.avals[slot].shape
    return all(
        work.storage[o] != storage or (i in allowed and work.whole[o] and work.avals[o].shape == shape)
        for i, o in enumerate(operands)
    )


def _share(work: Storages) -> None:
    for t, pairs in enumerate(work.overwritable):
        taken: set[int] = set()
        for mine, homes, slots in pairs:
            if work.pinned is not None and mine in work.pinned:
                continue
            for storage, slot in zip(homes, slots, strict=True):
                home = work.root(storage)
                if home not in taken and _dies(work, t, home, slot, mine):
                    work.take_over(mine, home)
                    taken.add(home)
                    break


def _dies(work: Storages, t: int, storage: int, slot: int, mine: int) -> bool:
    kind = work.kind[mine]
    if work.last[storage] != t:
        return False
    if work.streams is not None and not work.streams.all_before(work.users[storage], t):
        return False  # another stream may still read it
    if work.kind[storage] == VARIABLE:  # only one that gets a new value, where nothing can fail any more
        if t < work.commit or work.source[storage] not in work.updated:
            return False
        if work.avals[slot] != work.avals[work.leaf_slots[VARIABLE][work.source[storage]]]:
            return False  # the variable in another shape
        if not is_certain(*work.instructions[t][:2]):
            return False  # it would leave the variable half written
        return kind != NEXT or work.source[storage] == work.source[mine]
    return kind != NEXT


def lend(work: Storages) -> None:
    """What is dead before an output is written may live in its memory, where that lowers the peak."""
    bound = {s for *_, scratch, _ in work.instructions for _, s in scratch}  # once, to the arena: outputs are fresh
    uses = None if work.streams is None else work.streams.uses(work.users)
    for slot in sorted(work.outputs, key=lambda s: -work.avals[s].nbytes):
        output = work.storage[slot]
        if work.avals[slot].layout is not None:
            continue  # views into it would have to be of flat memory
        arena = [
            s
            for s in range(len(work.kind))
            if work.merged[s] == s and work.kind[s] == ARENA and s not in bound and work.place[s] == work.place[output]
        ]
        chosen = borrowers(
            [work.nbytes[s] for s in arena],
            [work.first[s] for s in arena],
            [work.last[s] + 1 for s in arena],
            work.nbytes[output],
            work.first[output],
            None if uses is None else uses.of([*arena, output]),
        )
        for at in chosen:
            work.kind[arena[at]], work.source[arena[at]] = LENT, work.source[output]


def reuse(work: Storages) -> None:
    """What comes after the last use of an input that was given up may live in its memory, where that lowers the peak.

    It is lending with time reversed. Among streams, where after is not decided by numbers, nothing is housed so.
    """
    given_up = [s for s, kind in enumerate(work.kind) if kind == DONATED and work.merged[s] == s]
    bound = {s for *_, scratch, _ in work.instructions for _, s in scratch}
    end = len(work.instructions) + 1
    for home in sorted(given_up, key=lambda s: -work.nbytes[s]) if work.streams is None else ():
        arena = [
            s
            for s in range(len(work.kind))
            if work.merged[s] == s and work.kind[s] == ARENA and s not in bound and work.place[s] == work.place[home]
        ]
        chosen = borrowers(
            [work.nbytes[s] for s in arena],
            [end - work.last[s] - 1 for s in arena],
            [end - work.first[s] for s in arena],
            work.nbytes[home],
            end - work.last[home] - 1,
        )
        for at in chosen:
            work.kind[arena[at]], work.source[arena[at]] = DONATED, work.source[home]


def peak(work: Storages) -> int:
    """The most bytes of the arena alive at one time."""
    if work.peak is None:
        work.peak, _ = busiest(work)
    return work.peak


def unfinished_peak(work: Storages) -> int:
    """The same of wholes of which a part is there, but not all."""
    return max(_loads(work, {s: t for s, t in work.finished.items() if work.kind[s] == ARENA}))


def unfinished(work: Storages) -> set[Node]:
    """The wholes of which a part is there, but not all, when the most bytes are alive."""
    _, at = busiest(work)
    return {n for n, s in work.assembled.items() if work.kind[s] == ARENA and work.first[s] <= at < work.finished[s]}


def footprint(work: Storages) -> int:
    """Bytes of the arena, at most, and of next values of variables."""
    return peak(work) + sum(work.nbytes[s] for s, k in enumerate(work.kind) if k == NEXT and work.merged[s] == s)


def least(work: Storages) -> int:
    """Bytes of the arena, at most, without what is alive when the commit section starts.

    A plan that writes variables as soon as it can takes no less, in that order.
    """
    first, commit = work.first, work.commit
    alive = _alive(work)
    passing = {s: last for s, last in alive.items() if not first[s] < commit <= last}
    most = peak(work) - sum(work.nbytes[s] + work.alignment for s in alive if s not in passing)
    return most if TOLERATED * most >= footprint(work) else max(_loads(work, passing))


def busiest(work: Storages) -> tuple[int, int]:
    """The most bytes of the arena alive at one time, and the first instruction where they are."""
    loads = _loads(work, _alive(work))
    most = max(loads)
    return most, loads.index(most)


def least_at(work: Storages, at: int) -> int:
    """The least bytes that are alive while an instruction runs, in any order and with any commit section.

    They are what it uses, and what one before it in any order uses as well as one behind it. As
    `orders.bounds.bound_at`, but without what a section adds.
    """
    rows, uses = work.instructions, work.uses
    operands: set[int] = set(rows[at][2])
    begun: set[int] = set(uses[at])
    for t in range(at - 1, -1, -1):
        if not operands.isdisjoint(rows[t][3]):
            operands.update(rows[t][2])
            begun.update(uses[t])
    results: set[int] = set(rows[at][3])
    wanted: set[int] = set()
    for t in range(at + 1, len(rows)):
        if not results.isdisjoint(rows[t][2]):
            results.update(rows[t][3])
            wanted.update(uses[t])
    alive = sum([work.sizes[s] for s in (begun & wanted).union(uses[at])])
    return alive - sum([work.sizes[made] for made, homes, _ in work.overwritable[at] if not wanted.issuperset(homes)])


def _alive(work: Storages) -> dict[int, int]:
    """Storages of the arena, and the last use of each."""
    kind, merged = work.kind, work.merged
    return {s: last for s, last in enumerate(work.last) if last >= 0 and kind[s] == ARENA and merged[s] == s}


def _loads(work: Storages, until: dict[int, int]) -> list[int]:
    """The bytes alive at each instruction, of storages and their last instructions, as they are aligned."""
    change = [0] * (len(work.instructions) + 2)
    nbytes, first, alignment = work.nbytes, work.first, work.alignment
    for s, last in until.items():
        size = -(-nbytes[s] // alignment) * alignment
        change[first[s]] += size
        change[last + 1] -= size
    return [*accumulate(change)]


def begin(work: Storages) -> None:
    """Let the commit section start at the first write to a variable: interrupts are held from there on.

    Streams have arranged with each other where it starts.
    """
    if work.streams is not None:
        return
    storage, kind = work.storage, work.kind
    for t in range(work.commit, len(work.instructions)):
        _, _, _, results, _, view = work.instructions[t]
        if not view and any(kind[work.root(storage[slot])] == VARIABLE for slot in results):
            work.commit = t
            return
    work.commit = len(work.instructions)
