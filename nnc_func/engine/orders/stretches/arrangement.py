"""The best arrangement of a stretch: for one limit after another, whether there is one that stays within it.

How many bytes are alive depends on which tasks have run, not on their order (dynamic programming over sets, with a
budget: SERENITY, Ahn and others, "Ordering chaos: memory-aware scheduling of irregularly wired neural networks for edge
devices", MLSys 2020). Within a limit there is no need to know by which order a set was reached, and most sets need not
be looked at: if some more tasks can be run within it so that no more is alive behind them than before, and no fewer in
between, then they are run at once. For bytes alive are a submodular function of the set that has run, so what is spared
is spared in whatever comes later; of a tree these are Liu's segments from valley to valley ("An application of
generalized tree pebbling to sparse matrix factorization", SIAM Journal on Algebraic and Discrete Methods 8, 1987).
"""

from __future__ import annotations

import heapq

from attrs import frozen

from nnc_func.engine.orders.stretches.spans import Span

AHEAD = 10  # sets that are looked at for tasks to run at once
STEP = 256  # the part of a peak by which a limit is lowered: it is quick to see that one is high enough
State = tuple[int, int, tuple[int, ...], tuple[int, ...]]  # what has run, bytes alive, ready moves, moves since then


@frozen
class Arranged:
    """What a search found.

    Attributes
    ----------
    tasks
        The best arrangement that was found; None where there is none below the bound, or none was found.
    states
        Sets of tasks that were looked at.
    low
        Bytes: it is proven that no arrangement has a lower peak.
    is_complete
        Whether what was found is optimal, or there is nothing below the bound.
    """

    tasks: list[int] | None
    states: int
    low: int
    is_complete: bool


def arranged(span: Span, bound: int, most: int, floor: int = 0) -> Arranged:
    """The arrangement with the least peak below a bound, of at most so many sets of tasks.

    Peaks below the `floor` are all the same. A limit is given up after half of the sets that are left.
    """
    low, high = max(floor, span.floor), bound
    open_ = low  # no limit below it is tried any more
    best: list[int] | None = None
    states = 0
    limit = bound - 1
    while open_ < high and states < most:
        found = Within(span, limit)
        found.search(max(1, (most - states) // 2))
        states += found.states
        if found.tasks is not None:
            best, high = found.tasks, max(low, found.peak)
        elif found.is_complete:
            low = open_ = min(max(low, found.exceeded), high)
        else:
            open_ = limit + 1
        limit = high - 1 if found.tasks is None else max((open_ + high) // 2, high - 1 - high // STEP)
    return Arranged(best, states, low, low >= high)


class Within:
    """The search for an arrangement whose peak is at most a limit.

    Attributes
    ----------
    tasks, peak
        The arrangement, if there is one, and its peak.
    exceeded
        Without one: the least peak that any arrangement may have.
    """

    def __init__(self, span: Span, limit: int) -> None:
        self.span, self.limit = span, limit
        self.tasks: list[int] | None = None
        self.peak = 0
        self.states = 0
        self.exceeded = 1 << 200
        self.is_complete = False
        self._full = (1 << len(span.tasks)) - 1

    def search(self, most: int) -> None:
        """Look at sets, those of most tasks first, then those with least alive, until all have run or none is left."""
        ready = tuple(move for move, needed in enumerate(self.span.needs) if not needed)
        came: dict[int, tuple[int, tuple[int, ...]]] = {}  # set -> the one looked at before, and the moves since then
        seen: set[int] = set()
        heap: list[tuple[int, int, int, tuple[int, ...]]] = []
        origin = -1
        following: list[State] = [(0, self.span.alive, ready, ())]
        while True:
            for each in following:
                state = self._settled(each)
                if state[0] in seen:
                    continue
                seen.add(state[0])
                (done, alive, ready, ran), is_dead = self._ahead(state)
                if done in came:
                    continue
                came[done] = origin, ran
                if done == self._full:
                    self._trace(came)
                    return
                if not is_dead:
                    heapq.heappush(heap, (-done.bit_count(), alive, done, ready))
            if not heap or self.states >= most:
                self.is_complete = not heap
                return
            self.states += 1
            _, alive, origin, ready = heapq.heappop(heap)
            following = list(self._deeper([(origin, alive, ready, ())]).values())

    def _trace(self, came: dict[int, tuple[int, tuple[int, ...]]]) -> None:
        moves: list[int] = []
        at = self._full
        while at >= 0:
            at, ran = came[at]
            moves[:0] = ran
        span, done, alive = self.span, 0, self.span.alive
        self.peak = alive
        for move in moves:
            needed, grows = span.cost(move, done)
            self.peak = max(self.peak, alive + needed)
            alive += grows
            done |= span.masks[move]
        self.is_complete = True
        self.tasks = [task for move in moves for task in span.moves[move]]

    def _opened(self, ready: tuple[int, ...], move: int, done: int) -> tuple[int, ...]:
        span = self.span
        more = [f for f in span.followers[move] if not span.needs[f] & ~done]
        return (*[r for r in ready if r != move], *more)

    def _settled(self, state: State) -> State:
        """Run each move behind which no more is alive."""
        if not self.span.settles:
            return state
        done, alive, ready, ran = state
        cost, masks = self.span.cost, self.span.masks
        at = 0
        while at < len(ready):
            move = ready[at]
            needed, grows = cost(move, done)
            if grows > 0 or alive + needed > self.limit:
                at += 1
                continue
            done |= masks[move]
            alive += grows
            ran = (*ran, move)
            ready = self._opened(ready, move, done)
            at = 0
        return done, alive, ready, ran

    def _ahead(self, state: State) -> tuple[State, bool]:
        """The state, further on where moves are run at once, and whether it is known that it leads nowhere."""
        while True:
            found, is_dead = self._least(state)
            if found is None:
                return state, is_dead
            state = self._settled(found)

    def _least(self, state: State) -> tuple[State | None, bool]:
        """By breadth, the first set behind which no more is alive, or all; and whether there are no more sets."""
        done, alive, _, ran = state
        if done == self._full or not self.span.settles:
            return None, False
        level, looked = [state], 0
        while level and looked < AHEAD:
            looked += len(level)
            level = list(self._deeper(level).values())
            for each in level:
                grown, moves = each[1] - alive, each[3][len(ran) :]
                if each[0] == self._full or (grown <= 0 and self._is_least(done, moves, grown)):
                    return each, False
        return None, not level

    def _deeper(self, level: list[State]) -> dict[int, State]:
        """What one move more leads to within the limit."""
        cost, masks, limit = self.span.cost, self.span.masks, self.limit
        found: dict[int, State] = {}
        for done, alive, ready, ran in level:
            for move in ready:
                needed, grows = cost(move, done)
                if alive + needed > limit:
                    self.exceeded = min(self.exceeded, alive + needed)
                    continue
                after = done | masks[move]
                if after not in found:
                    found[after] = after, alive + grows, self._opened(ready, move, after), (*ran, move)
        return found

    def _is_least(self, done: int, moves: tuple[int, ...], grown: int) -> bool:
        """Whether no set on the way has fewer bytes alive, be it within the limit or not."""
        masks, needs, cost = self.span.masks, self.span.needs, self.span.cost
        level = {done: 0}
        for _ in moves[1:]:
            deeper: dict[int, int] = {}
            for each, by in level.items():
                for move in moves:
                    if not masks[move] & each and not needs[move] & ~each:
                        deeper[each | masks[move]] = by + cost(move, each)[1]
            if len(deeper) > AHEAD or min(deeper.values()) < grown:
                return False
            level = deeper
        return True
