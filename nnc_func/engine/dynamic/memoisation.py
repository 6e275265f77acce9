"""Memoisation: what an operator gave of some operands is given again where it is asked of equal ones.

Each value that the engine made has an identity of 32 bytes: of what was computed a digest of the operator, its
parameters and the operands' identities; of a small constant one of its elements; of a variable's value, and of a
large constant, a number of its own. So an equal computation of equal values is found also where those were dropped and
made again. Identities are known by array, weakly, and results are bare arrays: nothing of what is recorded is kept.

What a caller may still write into has no identity that lasts: an array of NumPy that is given as it is has the
identity of its elements as they are now, if it is small, and else none.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from heapq import heappop, heappush, heapreplace
from struct import pack
from threading import get_ident
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

import numpy as np
from attrs import frozen

from nnc_func.body import is_pure
from nnc_func.device.shared.host import HOST
from nnc_func.device.shared.namespace import SCALARS
from nnc_func.engine.dynamic.turns import alone
from nnc_func.engine.running.program import Program
from nnc_func.errors import NncError, PlanError
from nnc_func.graph.leaves import LEAVES
from nnc_func.graph.pictures.svg import sized
from nnc_func.layer import init_fields
from nnc_func.locks import forkable_lock
from nnc_func.op import Op

USUAL = 1 << 28  # bytes, of `memoise=True`
BY_ELEMENTS = 256  # bytes of an array that is known by its elements; larger ones are never compared
ENTRY = 800  # bytes that remembering a result takes beside the elements of its arrays, as measured
MOST_TOKENS = 10_000  # applications, by operator and parameters, that are told apart by a number each
IDENTITY = 32  # bytes

_numbers = itertools.count(1)
# Equal recipes are equal stacks: what one has computed the other need not.
_memos: WeakValueDictionary[Any, Memo] = WeakValueDictionary()


@frozen
class Memoisation:
    """What a dynamic stack has found again, and what it keeps to do so.

    Attributes
    ----------
    hits, misses
        Applications and programs that were found, and those that were computed and might have been.
    seconds
        What was found took so many when it was computed.
    entries
        How many results are kept now.
    bytes
        What they take: arrays, also those that tensors hold besides, and 800 bytes for each entry. They are not among
        those of `stack.live`, which are kept for gradients.
    limit
        Most bytes; None where nothing is memoised.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.dynamic(memoise="1 MiB")
    >>> x = stack.asarray([3.0, 1.0, 2.0])
    >>> _ = stack.ops.sort(x + 1), stack.ops.sort(x + 1)
    >>> stack.memoisation.hits, stack.memoisation.misses, stack.memoisation.entries
    (2, 2, 2)
    """

    hits: int = 0
    misses: int = 0
    seconds: float = 0.0
    entries: int = 0
    bytes: int = 0
    limit: int | None = None

    def __str__(self) -> str:
        if self.limit is None:
            return "nothing is memoised"
        return (
            f"{self.hits:,} hits, {self.misses:,} misses, {self.seconds:.3g} s saved; "
            f"{self.entries:,} results kept, {sized(self.bytes)} of {sized(self.limit)}"
        )


def limit_of(given: Any) -> int | None:
    """The limit in bytes that is meant: None or False for none, True for 256 MiB, else bytes, or as ``"500MB"``.

    Raises
    ------
    PlanError
        It is nothing of these.

    Examples
    --------
    >>> limit_of(None), limit_of(True), limit_of("1 MiB")
    (None, 268435456, 1048576)
    """
    if given is None or given is False:
        return None
    if given is True:
        return USUAL
    from nnc_func.engine.planning.budgets import as_bytes  # few say it so

    try:
        return as_bytes(given)
    except PlanError:
        raise PlanError(
            "memoise is None, True, or the most bytes that may be kept, a number or as '500MB' or '1.5 GiB', "
            f"given {given!r}"
        ) from None


class _Known(ref[Any]):
    """An array, weakly, and its identity."""

    __slots__ = ("identity", "key")
    identity: bytes
    key: int  # its address


class _Entry:
    """Results that are kept, and what they are worth: see `Memo`."""

    __slots__ = ("arrays", "density", "identity", "is_counted", "nbytes", "seconds", "worth")
    worth: tuple[float, int]  # and a number that counts when it was asked for: of equal ones the oldest goes

    def __init__(self, identity: bytes, arrays: tuple[Any, ...], seconds: float, nbytes: int) -> None:
        self.identity, self.arrays, self.seconds, self.nbytes = identity, arrays, seconds, nbytes
        self.density = seconds / nbytes
        self.worth, self.is_counted = (0.0, 0), False


class Memo:
    """Results by identity, up to so many bytes.

    Which go is decided by GreedyDual-Size: a result is worth the seconds that it took for each of its bytes, above what
    the last one was worth that went. So a sort outlives a sum of the same size, and what nobody asks for any more goes
    in the end, however long it took.

    Threads share it without waiting for each other: what is found is one look-up, and new results are queued; whoever
    has the lock takes them in. So finalisers may compute at any time.

    Parameters
    ----------
    limit
        Most bytes.
    device
        Whose arrays they are.

    References
    ----------
    P. Cao and S. Irani, Cost-aware WWW proxy caching algorithms, USITS 1997.
    """

    __slots__ = (
        "__weakref__", "_counts", "_device", "_entries", "_floor", "_fresh", "_gone", "_heap", "_known", "_lock",
        "_programs", "_tokens", "limit", "nbytes",
    )  # fmt: skip

    def __init__(self, limit: int, device: Any) -> None:
        self.limit = limit
        self.nbytes = 0
        self._device = device
        self._known = known = dict[int, _Known]()  # by the address of the array

        def gone(found: Any) -> None:
            key = found.key
            if known.get(key) is found:
                del known[key]

        self._gone = gone  # it refers to no memo, so that kept arrays go with that at once
        self._tokens: dict[Any, bytes] = {}
        self._programs: WeakKeyDictionary[Any, tuple[bytes, list[Any]] | None] = WeakKeyDictionary()
        self._entries: dict[bytes, _Entry] = {}
        self._heap: list[tuple[tuple[float, int], _Entry]] = []  # of what is counted, which may be worth more now
        self._floor = 0.0
        self._fresh: deque[_Entry | None] = deque()  # None: whatever is kept is to go
        self._lock = forkable_lock()
        self._counts: dict[int, list[Any]] = {}  # hits, misses, seconds: of each thread its own

    # --- identities -------------------------------------------------------------------------------------------

    def note(self, array: Any, identity: bytes | None = None) -> None:
        """Give an array that nobody writes into an identity: that one, or one of its own; none if it has one."""
        found = self._known.get(id(array))
        if found is None or found() is not array:
            self._note(array, _own() if identity is None else identity)

    def note_constant(self, array: Any) -> None:
        """As `note`, of a constant: that of its elements, if it is small and the device says them."""
        small: Any = None
        if self._nbytes(array) <= BY_ELEMENTS:
            try:
                small = np.asarray(self._device.to_numpy(array))
            except NncError:  # a device that has no elements
                small = None
        self.note(array, None if small is None else _of_elements(small))

    def identity(self, array: Any) -> bytes | None:
        """That of an array that the engine made; None of others."""
        found = self._known.get(id(array))
        return found.identity if found is not None and found() is array else None

    def _note(self, array: Any, identity: bytes) -> None:
        try:
            made = _Known(array, self._gone)
        except TypeError:  # arrays of a device of a user's own that have no weak references
            return
        made.identity, made.key = identity, id(array)
        self._known[made.key] = made

    def _asked(self, token: bytes, operands: Sequence[Any]) -> tuple[bytes | None, bool]:
        """The identity of an application, if operands have one; and whether none of them may be written into."""
        known, is_lasting = self._known, True
        parts = [token]
        for x in operands:
            found = known.get(id(x))
            if found is not None and found() is x:
                parts.append(found.identity)
            elif type(x) in SCALARS:
                parts.append(_of_number(x))
            elif isinstance(x, HOST):
                is_lasting = is_lasting and isinstance(x, np.generic)
                if x.nbytes > BY_ELEMENTS:
                    return None, False
                parts.append(_of_elements(np.asarray(x)))
            else:
                return None, False
        return blake2b(b"".join(parts), digest_size=IDENTITY).digest(), is_lasting

    def _token(self, op: Op, items: Any) -> bytes:
        key = (op, op.key(items)) if items else op
        found = self._tokens.get(key)
        if found is None:
            if len(self._tokens) >= MOST_TOKENS:
                self._tokens.clear()
            found = self._tokens.setdefault(key, _own())
        return found

    # --- what is computed -------------------------------------------------------------------------------------

    def over(self, compute: Callable[..., Any], by_programs: bool = False) -> Callable[..., Any]:
        """``compute(op, arrays, params)``, memoised; what has an effect, and what is a view, is computed each time.

        Results that are computed `by_programs` are these programs' memory.
        """

        def memoised(op: Op, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
            if op.effect or not op.pure:
                return compute(op, arrays, params)
            items = op.canonical(params) if params or op.params else ()
            if op.holds_body and not is_pure(op, items):
                return compute(op, arrays, params)
            identity, is_lasting = self._asked(self._token(op, items), arrays)
            kept = None if op.view is not None else self._found(identity)
            if kept is not None:
                return kept.arrays if op.multi_result else kept.arrays[0]
            start = perf_counter()
            found = compute(op, arrays, params)
            seconds = perf_counter() - start
            results = tuple(found) if op.multi_result else (found,)
            if by_programs:
                shown = _shown(results)
                if shown is None:
                    return found
                results = shown
            is_new = self._noted(identity, results, arrays, is_lasting)
            if is_new and op.view is None:
                results = self._kept(identity, results, seconds)
            return results if op.multi_result else results[0]

        return memoised

    def run(self, program: Any, arrays: Sequence[Any]) -> list[Any]:
        """What a program gives of arrays, memoised as one command; it computes each time if it has effects.

        A program gives its memory again once nobody refers to it, so that the arrays that it gave are others then: what
        is kept and handed out shows them, and is an array of its own.
        """
        if program not in self._programs:
            self._programs[program] = _computing(program)
        known = self._programs[program]
        if known is None:
            return program.run(arrays)  # type: ignore[no-any-return]
        token, variables = known
        before = [(each.serial, each.version) for each in variables]
        if before:
            token = blake2b(token + repr(before).encode(), digest_size=IDENTITY).digest()
        identity, _ = self._asked(token, arrays)
        kept = self._found(identity)
        if kept is not None:
            return [*kept.arrays]
        start = perf_counter()
        found = program.run(arrays)
        seconds = perf_counter() - start
        shown = _shown(found)
        if shown is None:
            return found  # type: ignore[no-any-return]
        if before != [(each.serial, each.version) for each in variables]:
            identity = None  # another thread has assigned one
        self._noted(identity, shown, (), True)
        return [*self._kept(identity, shown, seconds)]

    def _found(self, identity: bytes | None) -> _Entry | None:
        if identity is None:
            return None
        counts, kept = self._mine(), self._entries.get(identity)
        if kept is None:
            counts[1] += 1
            return None
        counts[0] += 1
        counts[2] += kept.seconds
        kept.worth = self._floor + kept.density, next(_numbers)
        return kept

    def _noted(
        self, identity: bytes | None, results: tuple[Any, ...], operands: Sequence[Any], is_lasting: bool
    ) -> bool:
        """Give results identities; whether all of them are new arrays, none that a caller may write into."""
        is_new, given = True, {*map(id, operands)}
        for n, array in enumerate(results):
            if id(array) in given or (not is_lasting and getattr(array, "base", None) is not None):
                is_new = False
            elif n and identity is not None:
                self.note(array, blake2b(identity + b"%d" % n, digest_size=IDENTITY).digest())
            else:
                self.note(array, identity)
        return is_new

    def _kept(self, identity: bytes | None, results: tuple[Any, ...], seconds: float) -> tuple[Any, ...]:
        """The results, kept from now on if they may be found again; those of a thread that was faster."""
        nbytes = ENTRY + sum(map(self._taken, results))
        if identity is None or nbytes > self.limit:
            return results
        entry = _Entry(identity, results, seconds, nbytes)
        self._fresh.append(entry)  # which whoever counts it puts among the entries
        self._take_in()
        return self._entries.get(identity, entry).arrays

    def _take_in(self) -> None:
        while self._fresh:
            if not alone(self._lock, self._take_fresh):  # whoever has it looks at this one, too
                return

    def _take_fresh(self) -> None:
        """Count what is new; what an interrupt ends, whoever comes next goes on with."""
        while self._fresh:
            entry = self._fresh[0]  # until it is done with
            if entry is not None and not entry.is_counted:
                self._count(entry)
            self._evict(0 if entry is None else self.limit)
            self._fresh.popleft()

    def _count(self, entry: _Entry) -> None:
        if self._entries.setdefault(entry.identity, entry) is entry:  # else another thread was faster
            worth = self._floor + entry.density, next(_numbers)
            heappush(self._heap, (worth, entry))
            entry.worth, entry.is_counted, self.nbytes = worth, True, self.nbytes + entry.nbytes

    def _evict(self, most: int) -> None:
        heap = self._heap
        while heap and (self.nbytes > most or not most):
            worth, entry = heap[0]
            is_there = self._entries.get(entry.identity) is entry
            if is_there and entry.worth is not worth:  # it was asked for meanwhile
                heapreplace(heap, (entry.worth, entry))
                continue
            if is_there:  # else an interrupt came when it had gone
                del self._entries[entry.identity]
                self._floor = worth[0]
                self.nbytes -= entry.nbytes
            heappop(heap)

    def clear(self) -> None:
        """Forget all results; figures go on."""
        self._fresh.append(None)
        self._take_in()

    # --- in numbers -------------------------------------------------------------------------------------------

    @property
    def figures(self) -> Memoisation:
        """What was found, and what is kept."""
        hits, misses, seconds = map(sum, zip(*self._counts.values(), strict=True)) if self._counts else (0, 0, 0.0)
        return Memoisation(hits, misses, float(seconds), len(self._entries), self.nbytes, self.limit)

    def _mine(self) -> list[Any]:
        """What this thread has counted: no other one writes there."""
        thread = get_ident()
        found = self._counts.get(thread)
        return self._counts.setdefault(thread, [0, 0, 0.0]) if found is None else found

    def _nbytes(self, array: Any) -> int:
        aval = self._device.aval(array)
        return int(aval.size) * int(aval.dtype.itemsize)

    def _taken(self, array: Any) -> int:
        """Bytes that are kept with an array: of a view, those that it shows a part of."""
        if not isinstance(array, np.ndarray):
            return self._nbytes(array)
        while isinstance(array.base, np.ndarray):
            array = array.base
        return int(array.nbytes)


def memo_of(engine: Any) -> Memo | None:
    """The memo of an engine's recipe; None where its setting `memoise` is."""
    if engine.memoise is None:
        return None
    recipe = (type(engine), *(getattr(engine, each.name) for each in init_fields(engine)))
    found = _memos.get(recipe)
    return _memos.setdefault(recipe, Memo(engine.memoise, engine.device)) if found is None else found


def _shown(arrays: Sequence[Any]) -> tuple[Any, ...] | None:
    """Arrays of their own that show those of a program, whose memory is its again once nobody shows it.

    None where an array does not say what it shows: then there are none.
    """
    shown = tuple([array[...] for array in arrays])
    return shown if all(getattr(s, "base", None) is a for s, a in zip(shown, arrays, strict=True)) else None


def _own() -> bytes:
    """An identity that nothing else has."""
    return next(_numbers).to_bytes(IDENTITY, "big")


def _of_number(x: Any) -> bytes:
    """Of a number by type and bits: 1, 1.0 and True differ, and 0.0 and -0.0."""
    bits = repr(x).encode() if isinstance(x, int) else pack("<2d", x.real, x.imag)
    return blake2b(type(x).__name__.encode() + b" " + bits, digest_size=IDENTITY, person=b"number").digest()


def _of_elements(array: Any) -> bytes:
    """Of a small array by dtype, shape and bits."""
    said = f"{array.dtype!r} {array.shape} ".encode()
    return blake2b(said + array.tobytes(), digest_size=IDENTITY, person=b"elements").digest()


def _computing(program: Any) -> tuple[bytes, list[Any]] | None:
    """What tells a program from others, and the variables that it reads; None where it does more than to compute."""
    graph = program.graph if isinstance(program, Program) else None
    if graph is None or graph.updates or graph.effects:
        return None
    if any(node.op not in LEAVES and not is_pure(node.op, node.items) for node in graph.nodes):
        return None
    return _own(), [node.data for node in graph.variables]
