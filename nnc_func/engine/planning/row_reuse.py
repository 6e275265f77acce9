"""Row reuse: what a loop stacks is written over rows that it has read, where that lowers the peak.

A loop that reads one array row by row and stacks another needs, at each time, the rows that it has not read and those
that it has written. Both are put into one memory, so far apart that each row is written before, or behind, all that is
still to be read: the tape of a recurrent layer goes where the products of its inputs were, and slopes go where the tape
was. It is what De Greef, Catthoor and De Man call inter-array in-place mapping ("Memory size reduction through storage
order optimization for embedded parallel multimedia applications", Parallel Computing 23, 1997), for two arrays whose
rows go the same way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from nnc_func.engine.loop_instruction import Address, Loop
from nnc_func.engine.plan_rows import ARENA
from nnc_func.engine.planning.draft import Draft, Row
from nnc_func.engine.planning.liveness import loads_of
from nnc_func.graph.ops.loop import loop

ROUNDS = 64  # pairs of arrays that are put together in one plan, at the most
PATIENCE = 4  # pairs that are put together one after the other although the peak is no lower yet


@frozen
class Pair:
    """Two storages that one memory may hold: rows of one are read when rows of the other are written.

    Attributes
    ----------
    read, written
        Their numbers.
    starts
        Where each begins in that memory, in bytes.
    nbytes
        Of that memory.
    """

    read: int
    written: int
    starts: tuple[int, int]
    nbytes: int


def reuse_rows(draft: Draft) -> None:
    """Put what loops read and what they stack into one memory, as far as that lowers the peak.

    It goes where the most bytes are alive, once lifetimes and what lies over what are known. Memory that two arrays
    have is taken as long as either is alive: so the peak may rise, elsewhere, before a third one lowers it. What is
    kept from run to run lies alone.
    """
    loops = {t for t, row in enumerate(draft.instructions) if row.node.op is loop and row.node in draft.loops}
    if not loops or draft.pinned is not None:
        return
    made: list[Pair] = []
    loads = np.array(loads_of(draft), np.int64)
    least, best = int(loads.max()), 0
    while len(made) < min(ROUNDS, best + PATIENCE):
        t = int(loads.argmax())
        pairs = [*_pairs(draft, t)] if t in loops else []
        if not pairs:
            break
        trials = [_with(draft, loads, pair) for pair in pairs]
        n = min(range(len(pairs)), key=lambda n: (int(trials[n].max()), pairs[n].nbytes))
        _put_together(draft, pairs[n])
        made.append(pairs[n])
        loads = trials[n]
        if loads.max() < least:
            least, best = int(loads.max()), len(made)
    for pair in reversed(made[best:]):
        _take_apart(draft, pair)


def distance(rows: tuple[int, int], count: int, reverse: bool, alignment: int) -> int:
    """Bytes from where an array begins that is read row by row to where one does that is written: as few as may be.

    Parameters
    ----------
    rows
        Bytes of a row of each.
    count
        How many rows.
    reverse
        Whether the last row comes first.
    alignment
        Of which it is a multiple, in bytes.

    Examples
    --------
    Rows go forwards, and each is written before those that are still to be read:

    >>> distance((64, 64), 10, False, 64)
    -64
    >>> distance((64, 192), 10, False, 64)
    -1344

    Or backwards, and each is written behind them:

    >>> distance((64, 192), 10, True, 64)
    64
    """
    first, second = rows if reverse else rows[::-1]
    apart = max(first, count * first - (count - 1) * second)  # where the first row is written, and the last
    apart = -(-apart // alignment) * alignment
    return apart if reverse else -apart


def stacks(draft: Draft, row: Row) -> tuple[list[int], list[int]]:
    """The storages of arrays that a loop reads row by row, and of those that it stacks, wherever it stands."""
    (planned,) = draft.loops[row.node]
    params = row.node.params
    first = params["constants"] + params["carries"]

    def whole(slot: int) -> bool:
        shown = draft.slots[slot]
        return bool(shown.is_whole and shown.is_plain and shown.aval.nbytes)

    positions = [n for n in range(first, len(row.operands)) if _row_by_row(planned, n, params["reverse"])]
    read = [row.operands[n] for n in positions]
    made = row.results[params["carries"] :]
    return tuple([draft.slots[slot].storage for slot in each if whole(slot)] for each in (read, made))  # type: ignore[return-value]


def _pairs(draft: Draft, t: int) -> Iterator[Pair]:
    """What may be put together of what one loop reads and stacks."""
    row = draft.instructions[t]
    (planned,) = draft.loops[row.node]
    if planned.is_open or planned.count < 2:
        return
    params, storages = row.node.params, draft.storages
    reverse, carries, count = params["reverse"], params["carries"], planned.count
    results = [home for slot in row.results[carries:] if (home := _alone(draft, row, slot)) is not None]
    for position in range(params["constants"] + carries, len(row.operands)):
        read = _alone(draft, row, row.operands[position])
        if read is None or not _row_by_row(planned, position, reverse) or not _over_with(draft, read[0], t):
            continue
        for written in results:
            homes = storages[read[0]], storages[written[0]]
            if homes[1].first != t or homes[0].place != homes[1].place:
                continue
            apart = distance((read[2] // count, written[2] // count), count, reverse, draft.alignment)
            between = apart + read[1] - written[1]  # from where the memory of one begins to where the other's does
            starts = max(0, -between), max(0, between)
            nbytes = max(start + home.nbytes for start, home in zip(starts, homes, strict=True))
            yield Pair(read[0], written[0], starts, nbytes)


def _alone(draft: Draft, row: Row, slot: int) -> tuple[int, int, int] | None:
    """Of an operand or a result the storage, where it begins there, and its bytes.

    None where it is not in order, or something else of the instruction lies there, or it is not in the arena.
    """
    shown = draft.slots[slot]
    home = draft.root(shown.storage)
    used = [draft.root(draft.slots[s].storage) for s in (*row.operands, *row.results)]
    fits = shown.is_whole and shown.is_plain and shown.aval.nbytes and draft.storages[home].kind == ARENA
    return (home, draft.start(shown.storage), shown.aval.nbytes) if fits and used.count(home) == 1 else None


def _row_by_row(planned: Loop, position: int, reverse: bool) -> bool:
    """Whether an operand is read nowhere but in the row of each time."""
    count = planned.count
    rows = Address((position,), step=-1, start=count - 1) if reverse else Address((position,), step=1)
    readers = [each for each in planned.reads if position in (*each.first, *each.cycle)]
    return readers == [rows] and all(array != position for _, array, _ in planned.copies)


def _over_with(draft: Draft, storage: int, t: int) -> bool:
    """Whether an instruction is the last that uses a storage."""
    found = draft.storages[storage]
    return found.last == t and (draft.streams is None or draft.streams.all_before(found.users, t))


def _with(draft: Draft, loads: NDArray[np.int64], pair: Pair) -> NDArray[np.int64]:
    """The bytes alive at each instruction where two storages are put together."""
    read, written = draft.storages[pair.read], draft.storages[pair.written]
    found = loads.copy()
    found[read.first : written.last + 1] += draft.aligned(pair.nbytes)
    found[read.first : read.last + 1] -= draft.sizes[pair.read]
    found[written.first : written.last + 1] -= draft.sizes[pair.written]
    return found


def _put_together(draft: Draft, pair: Pair) -> None:
    """Let two storages live in one that is new."""
    both = read, written = draft.storages[pair.read], draft.storages[pair.written]
    home = draft.add_storage(pair.nbytes, read.place)
    made = draft.storages[home]
    made.first, made.last, made.users = read.first, written.last, sorted({*read.users, *written.users})
    for storage, start in zip(both, pair.starts, strict=True):
        storage.merged, storage.start = home, start


def _take_apart(draft: Draft, pair: Pair) -> None:
    """Undo what was put together last."""
    for number in (pair.read, pair.written):
        draft.storages[number].merged, draft.storages[number].start = number, 0
    del draft.storages[-1], draft.sizes[-1]
