"""Work that goes block by block through arrays: how they are cut, and who takes which block.

A block is some rows of what lies side by side, as many as stay in the caches from the first step to the last. Blocks
are dealt out to as many threads as BLAS may use; which thread takes one does not change its bits.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from attrs import frozen

from nnc_func.device.kernels.move import memory_order
from nnc_func.device.shared import workers
from nnc_func.facets.dims import product as size_of

REGISTER = 1 << 21  # bytes of a register, for all threads together
BLOCK = 1 << 20  # of what one thread takes at a time: smaller ones leave threads waiting for each other
WORTH = 1 << 20  # elements times steps that another thread may take: it is some 300 µs
THREADS = 8
Pattern = tuple[bool, ...]
Where = tuple[slice, ...]
Run = Callable[[list[Any]], None]
InOrder = Callable[[list[Any], bool], None]


@frozen
class Grid:
    """How a shape is cut: along `axis` so many `rows` at a time, axes before it one by one, axes behind it not at all.

    Examples
    --------
    >>> [where[0] for where in Grid((5, 7), 0, 3).blocks()]
    [slice(0, 3, None), slice(3, 5, None)]
    """

    shape: tuple[int, ...]
    axis: int
    rows: int

    @property
    def largest(self) -> int:
        """Elements of the largest block."""
        return self.rows * math.prod(self.shape[self.axis + 1 :])

    def blocks(self) -> Iterator[Where]:
        """Where each block is."""
        behind = tuple(slice(0, n) for n in self.shape[self.axis + 1 :])
        length = self.shape[self.axis]
        for at in product(*map(range, self.shape[: self.axis])):
            before = tuple(slice(i, i + 1) for i in at)
            for start in range(0, length, self.rows):
                yield (*before, slice(start, min(start + self.rows, length)), *behind)


def grid(shape: tuple[int, ...], elements: int, whole: int, threads: int = 1) -> Grid:
    """A shape cut into blocks of at most so many elements; the axes from `whole` on stay in one piece.

    Examples
    --------
    >>> grid((8, 64, 56, 56), 1 << 17, 4)
    Grid(shape=(8, 64, 56, 56), axis=1, rows=32)
    """
    axis, behind = 0, math.prod(shape[1:])
    while axis < whole - 1 and behind > elements:
        axis += 1
        behind = math.prod(shape[axis + 1 :])
    length = shape[axis]
    count = -(-length // max(1, elements // max(1, behind)))
    if threads > 1 and axis == 0:
        count = -(-count // threads) * threads
    return Grid(shape, axis, max(1, -(-length // max(1, count))))


def held(shape: Any, itemsize: int, whole: int) -> int:
    """Elements that a register has for all threads together, of results of that shape whose widest value is given."""
    most = REGISTER // itemsize
    size = size_of(shape)
    if not isinstance(size, int):
        return most
    unit = int(math.prod(shape[whole:]))
    return max(1, min(size, max(most, unit * min(2, size // max(1, unit)))))


def register_size(shape: Any, pattern: Pattern, most: int) -> int:
    """Elements of a register for values of that pattern, where one of full values has `most`."""
    own, size = size_of(tuple(n for n, has in zip(shape, pattern, strict=True) if has)), size_of(shape)
    return max(1, min(most, THREADS * own)) if isinstance(own, int) and own != size else most


def threads_for(shape: tuple[int, ...], steps: int, register: int, whole: int) -> int:
    """How many threads share the work."""
    size, unit = math.prod(shape), max(1, math.prod(shape[whole:]))
    return threads_worth(size * steps, min(register, size) // unit)


def threads_worth(amount: int, most: int) -> int:
    """How many threads share so many elements times steps, which can be cut into `most` pieces."""
    if amount < 2 * WORTH:
        return 1
    return max(1, min(THREADS, workers.spare(), amount // WORTH, most))


def in_turn(pieces: Sequence[Any], threads: int, work: Callable[[Any, int], None]) -> None:
    """Call `work` with each piece and with the number of a thread, which takes the next piece when it is ready.

    Examples
    --------
    >>> found = []
    >>> in_turn("abc", 2, lambda piece, thread: found.append(piece))
    >>> sorted(found)
    ['a', 'b', 'c']
    """
    shared = iter([*pieces])  # that of a list may be shared

    def run(thread: int) -> None:
        for piece in shared:
            work(piece, thread)

    workers.side_by_side(run, threads)


class Blocks:
    """How arrays of these shapes are seen, block by block: found once, for all calls.

    Parameters
    ----------
    shapes, count
        Of arguments and results, each of which broadcasts to the grid's; how many are arguments.
    registers, scratch
        Dtype and pattern of each register, and memory of it for all threads.
    cut, threads
        The blocks, and how many threads share them.
    runs
        (argument, register): a number of which a register is full.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        count: int,
        registers: Sequence[tuple[Any, Pattern]],
        scratch: Sequence[Any],
        cut: Grid,
        threads: int,
        runs: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._count, self._threads, self._runs = count, threads, runs
        self._kinds = [pattern for _, pattern in registers]
        shares = [s.shape[0] // threads for s in scratch]
        self._memory = [
            [s[thread * n : (thread + 1) * n] for s, n in zip(scratch, shares, strict=True)]
            for thread in range(threads)
        ]
        self._views: list[dict[tuple[int, ...], list[Any]]] = [{} for _ in range(threads)]
        self._places = [_place(where, shapes) for where in cut.blocks()]

    def run(self, arrays: Sequence[Any], call: Run, in_order: InOrder | None = None) -> None:
        """Call it with the blocks of arguments, registers and results, for each place.

        What is `in_order` is called with them afterwards, and with whether they are the first: for one block after the
        other, whoever has computed them.
        """
        count, threads = self._count, self._threads
        shared = iter([*enumerate(self._places)])  # that of a list may be shared: each thread takes the next one
        turns = [threading.Lock() for _ in self._places] if in_order is not None and threads > 1 else []
        for turn in turns[1:]:
            turn.acquire()

        def work(thread: int) -> None:
            for number, register in self._runs:
                self._memory[thread][register].fill(arrays[number].item())
            views = self._views[thread]
            for i, (extents, at) in shared:
                try:
                    registers = views.get(extents)
                    if registers is None:
                        registers = views[extents] = self._registers(extents, self._memory[thread])
                    parts = [a[where] for a, where in zip(arrays, at, strict=True)]
                    seen = [*parts[:count], *registers, *parts[count:]]
                    call(seen)
                    if turns:
                        turns[i].acquire()
                    if in_order is not None:
                        in_order(seen, i == 0)
                finally:
                    if i + 1 < len(turns):
                        turns[i + 1].release()  # after a failure, too: nobody waits for ever

        workers.side_by_side(work, threads)

    def _registers(self, extents: tuple[int, ...], memory: list[Any]) -> list[Any]:
        """Registers of one thread for a block of these extents."""
        found = []
        for pattern, own in zip(self._kinds, memory, strict=True):
            shape = tuple([n if has else 1 for n, has in zip(extents, pattern, strict=True)])
            found.append(own[: math.prod(shape)].reshape(shape))
        return found


def _place(where: Where, shapes: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], list[Where]]:
    """The extents of a block, and where it lies in arrays of these shapes."""
    every = slice(None)
    at = [tuple([w if n != 1 else every for w, n in zip(where, shape, strict=True)]) for shape in shapes]
    return tuple([w.stop - w.start for w in where]), at


def wide(array: Any, shape: tuple[int, ...]) -> Any:
    """The array with as many axes as the shape has."""
    return array.reshape((1,) * (len(shape) - array.ndim) + array.shape)


def few_axes(arrays: Sequence[Any], shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[Any]]:
    """Arrays that broadcast to the shape, and it, with one axis where all lie side by side in one order.

    Else they have all axes, in the order in which the last of them, a result, lies in memory.
    """
    seen = [wide(a, shape or (1,)) for a in arrays]
    shape = shape or (1,)
    if not seen[-1].flags.c_contiguous:
        order = memory_order(seen[-1])
        seen = [a.transpose(order) for a in seen]
        shape = tuple(shape[i] for i in order)
    if all(a.size == 1 or (a.shape == shape and a.flags.c_contiguous) for a in seen):
        return (math.prod(shape),), [a.reshape(-1) for a in seen]
    return shape, seen
