"""Stretches of an order: what running a task costs depends on which others have run, not on their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnc_func.engine.orders.base import OrderProblem

Others = list[tuple[int, int]]  # the other users of a buffer as a set of bits, and its bytes


class Span:
    """Tasks that follow each other in a valid order. A set of them is an integer: bit `i` is the one at `i`.

    Some are run right before another one, which loses nothing: those that never give bytes back, in front of what is
    the first to need them. Such a group is one move.

    Parameters
    ----------
    before, after
        The tasks that run before and after them.

    Attributes
    ----------
    alive
        Bytes alive when the stretch begins.
    moves
        For each move its tasks, in the order in which they run.
    masks, needs, followers
        For each move the set of its tasks, the set of the tasks that must have run before it, and the moves that need
        it.
    """

    def __init__(
        self, problem: OrderProblem, before: Iterable[int], tasks: Sequence[int], after: Iterable[int]
    ) -> None:
        self.problem = problem
        self.tasks = tasks
        at = {task: i for i, task in enumerate(tasks)}
        self._begun = {b for task in before for b in problem.uses[task]}
        self._wanted = {*problem.lasting, *(b for task in after for b in problem.uses[task])}
        users = {b: sum(1 << at[one] for one in problem.users[b] if one in at) for t in tasks for b in problem.uses[t]}
        self.alive = sum(problem.sizes[b] for b in self._begun if b in self._wanted or b in users)
        self._others = [[(b, users[b] & ~(1 << i)) for b in problem.uses[task]] for i, task in enumerate(tasks)]
        self._first = [self._masks(i, self._begun) for i in range(len(tasks))]
        self._last = [self._masks(i, self._wanted) for i in range(len(tasks))]
        self._over = [
            [
                [(b, users[b] & ~(1 << i), problem.sizes[b]) for b in candidates if b not in self._wanted]
                for _, candidates in problem.overwrites.get(task, ())
            ]
            for i, task in enumerate(tasks)
        ]
        direct = [sum(1 << at[one] for one in set(problem.needs[task]) if one in at) for task in tasks]
        self._group(direct)
        # where a task makes two buffers over the same others, running another one early may take one from it
        self.settles = all(len({c for each in over for c in each}) == sum(map(len, over)) for over in self._over)
        self._known: list[dict[int, tuple[int, int]]] = [{} for _ in self.moves]

    def _masks(self, i: int, apart: set[int]) -> Others:
        return [(others, self.problem.sizes[b]) for b, others in self._others[i] if b not in apart]

    def _group(self, direct: list[int]) -> None:
        """Find the moves."""
        count = len(direct)
        above, behind, followers = _closed(direct)
        lead = [*range(count)]
        for i in reversed(range(count)):
            wanting = {lead[f] for f in followers[i]}
            first = min(wanting, default=i)
            waits = self._waits(i, above[i], behind[i])
            is_first = all(behind[first] >> one & 1 for one in wanting if one != first)
            if is_first and waits is not None and waits <= self._raised(first, behind[first]):
                lead[i] = first
        number = {i: n for n, i in enumerate(i for i in range(count) if lead[i] == i)}
        inside: list[list[int]] = [[] for _ in number]
        for i, one in enumerate(lead):
            inside[number[one]].append(i)
        self._inside = inside
        self.moves = [[self.tasks[i] for i in each] for each in inside]
        self.masks = [sum(1 << i for i in each) for each in inside]
        self.needs = [_union(direct[i] for i in each) & ~mask for each, mask in zip(inside, self.masks, strict=True)]
        self.followers: list[list[int]] = [[] for _ in inside]
        for n, needed in enumerate(self.needs):
            for one in {number[lead[i]] for i in _bits(needed)}:
                self.followers[one].append(n)
        near = [self._near(i) for i in range(count)]
        self._around = [_union(near[i] for i in each) & ~mask for each, mask in zip(inside, self.masks, strict=True)]

    def _near(self, i: int) -> int:
        return _union(others for _, others in self._others[i])

    def _waits(self, i: int, above: int, behind: int) -> int | None:
        """How many bytes a task needs beyond what is alive after it; None if it may give bytes back, so must not wait.

        What it frees has no users but those before it, so nobody else can take that over.
        """
        own = made = freed = 0
        spared = set()
        for b, others in self._others[i]:
            size = self.problem.sizes[b]
            is_first = b not in self._begun and not others & ~behind
            if b in self._wanted or others & behind:
                made += size if is_first else 0
            elif is_first:
                own += size
            elif not others & ~above:
                freed += size
                spared.add(b)
            else:
                return None
        if made < freed:
            return None
        pairs = self.problem.overwrites.get(self.tasks[i], ())
        return own + freed - sum(self.problem.sizes[m] for m, candidates in pairs if not spared.isdisjoint(candidates))

    def _raised(self, i: int, behind: int) -> int:
        """Bytes by which a task raises what is alive while it runs, whenever that is."""
        over = {made for made, _ in self.problem.overwrites.get(self.tasks[i], ())}
        return sum(
            self.problem.sizes[b]
            for b, others in self._others[i]
            if b not in over and b not in self._begun and not others & ~behind
        )

    def cost(self, move: int, done: int) -> tuple[int, int]:
        """How many bytes more are alive at most during a move after the set `done`, and behind it."""
        key = done & self._around[move]
        known = self._known[move]
        found = known.get(key)
        if found is None:
            needed = grows = 0
            for i in self._inside[move]:
                more, by = self._cost(i, done)
                needed = max(needed, grows + more)
                grows += by
                done |= 1 << i
            found = known[key] = needed, grows
        return found

    def _cost(self, i: int, done: int) -> tuple[int, int]:
        defined = freed = 0
        for others, size in self._first[i]:
            if not done & others:
                defined += size
        for others, size in self._last[i]:
            if done & others == others:
                freed += size
        return defined - _taken(self._over[i], done), defined - freed

    @property
    def floor(self) -> int:
        """Bytes that are alive at one time in any arrangement: while the task that uses most runs."""
        passing = self._begun & self._wanted
        through = sum(self.problem.sizes[b] for b in passing)
        most = self.alive
        for i, over in enumerate(self._over):
            used = sum(self.problem.sizes[b] for b, _ in self._others[i] if b not in passing)
            taken = sum(max((size for _, _, size in candidates), default=0) for candidates in over)
            most = max(most, through + used - taken)
        return most


def _taken(over: list[list[tuple[int, int, int]]], done: int) -> int:
    found, taken = 0, set()
    for candidates in over:
        for buffer, others, size in candidates:
            if done & others == others and buffer not in taken:
                taken.add(buffer)
                found += size
                break
    return found


def _closed(direct: list[int]) -> tuple[list[int], list[int], list[list[int]]]:
    """For each task all that come before it, all that come after it, and those that need it."""
    above: list[int] = []
    followers: list[list[int]] = [[] for _ in direct]
    for i, mask in enumerate(direct):
        above.append(_union(above[one] for one in _bits(mask)) | mask)
        for one in _bits(mask):
            followers[one].append(i)
    behind = [0] * len(direct)
    for i in reversed(range(len(direct))):
        behind[i] = _union(behind[one] | 1 << one for one in followers[i])
    return above, behind, followers


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
