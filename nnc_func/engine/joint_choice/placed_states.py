"""Whether a capacity does: depth first over states of what has run and where what is held lies, with those that failed.

States without places tell before what has no room whatever lies where (`states`). Bytes are counted in units that
divide all sizes; in the place of an offset any sum of sizes may be: where it is pushed down, a block lies on others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from nnc_func.engine.joint_choice.choice import HOUSE, LIFE, SCRATCH, Choice, Run, blocks
from nnc_func.engine.joint_choice.problem import JointProblem
from nnc_func.engine.joint_choice.states import State, States, bits

Places = tuple[tuple[int, int], ...]  # of held buffers, by number: the address
ARENA = -1
DEEPEST = 200  # runs, and times that something is given up: a search that wants more ends


class OutOfStepsError(Exception):
    """The budget of a search is spent."""


class PlacedStates:
    """The search for a choice within a capacity.

    Addresses are those of the arena, and behind it of one house after the other.

    Parameters
    ----------
    problem
        Has a unit of bytes that divides all sizes, see `unit_of`.
    capacity
        Bytes of the arena.
    steps
        States and placements that may be looked at.
    """

    def __init__(self, problem: JointProblem, capacity: int, steps: int) -> None:
        self.problem, self.states, self.most = problem, States(problem), steps
        self.unit = unit_of(problem)
        self.capacity = capacity // self.unit
        self.sizes = [size // self.unit for size in problem.tasks.sizes]
        self.scratch = [[[n // self.unit for n in a.scratch if n] for a in offers] for offers in problem.offers]
        self.starts = {}  # house -> its address
        end = self.capacity
        for house in problem.houses:
            self.starts[house] = end
            end += self.sizes[house]
        self.sums = self._sums()
        self.steps = 0
        self.failed: dict[tuple[int, Places], int] = {}  # state -> the least cost with which it failed
        self.hopeless: dict[State, int] = {}  # the same whatever lies where
        self.hopeful: dict[State, int] = {}  # the most with which it does not
        self.found: list[tuple[Run, dict[int, int], list[int]]] = []

    def _sums(self) -> int:
        """The sums of sizes that an offset may be, as bits."""
        room = (1 << self.capacity + 1) - 1
        found = 1
        times = dict.fromkeys(self.problem.maker, 3)
        counted = [(size, times.get(b, 1)) for b, size in enumerate(self.sizes)]
        counted += [(n, 1) for offers in self.scratch for each in offers for n in each]
        for size, count in counted:
            for _ in range(count if size else 0):
                found |= found << size & room
        return found

    def choice(self) -> Choice | None:
        """A choice within the capacity; None: it is proven that there is none.

        Raises
        ------
        OutOfStepsError
            Neither was found.
        """
        return self._choice() if self._search(0, (), 0, 0) else None

    # --- states with places ---------------------------------------------------------------------------

    def _search(self, done: int, places: Places, spent: int, depth: int) -> bool:
        if done == self.states.all:
            return True
        if depth > DEEPEST:
            raise OutOfStepsError
        self._count()
        state = self._state(done, places)
        key = done, self._canonical(places)
        if self.failed.get(key, spent + 1) <= spent or not self._may_end(state, spent, 0):
            return False
        lies = dict(places)
        for run, then, price in self._runs(state):
            after = done | 1 << run.task
            for new, kernel, scratch in self._placements(run, lies, state.held):
                cost = spent + price + self.problem.offers[run.task][kernel].cost
                if self.states.spare is not None and cost > self.states.spare:
                    continue
                both = {**lies, **new}
                held = tuple((b, both[b]) for b in bits(then))
                if self._may_end(self._state(after, held), cost, 0):
                    self.found.append((Run(run.task, kernel, run.over), new, scratch))
                    if self._search(after, held, cost, depth + 1):
                        return True
                    self.found.pop()
        if not self.states.is_closed(done):
            for without in self.states.without(state):
                if self._search(done, tuple(each for each in places if without.held >> each[0] & 1), spent, depth + 1):
                    return True
        self.failed[key] = min(spent, self.failed.get(key, spent))
        return False

    def _state(self, done: int, places: Places) -> State:
        held = inside = 0
        for buffer, at in places:
            held |= 1 << buffer
            if at >= self.capacity and buffer not in self.starts:
                inside |= 1 << buffer
        return State(done, held, inside)

    def _canonical(self, places: Places) -> Places:
        """The same for what is its mirror image: the arena may be turned over."""
        turned = tuple((b, self.capacity - at - self.sizes[b] if at < self.capacity else at) for b, at in places)
        return min(places, turned)

    def _count(self) -> None:
        self.steps += 1
        if self.steps > self.most:
            raise OutOfStepsError

    def _runs(self, state: State) -> Iterator[tuple[Run, int, int]]:
        """Runs, with each way to make buffers over others; what is held then; and what they cost, but for kernels."""
        states = self.states
        done, held, _ = state
        for task in sorted(states.tasks(done, held), key=lambda t: self._growth(t, done, held)):
            alive = held | states.uses[task]
            kept, loose = states.kept(alive, done | 1 << task)
            for over, given_up in states.all_ways(task, alive & ~kept, loose):
                yield Run(task, 0, over), kept & ~given_up, 0 if done >> task & 1 else -states.least[task]

    def _growth(self, task: int, done: int, held: int) -> tuple[int, int]:
        states = self.states
        kept, _ = states.kept(held | states.uses[task], done | 1 << task)
        return states.nbytes(kept) - states.nbytes(held), task

    def _placements(self, run: Run, lies: dict[int, int], held: int) -> Iterator[tuple[dict[int, int], int, list[int]]]:
        """Addresses of what a run makes, with the cheapest kernel whose scratch has room beside; and that scratch's."""
        states = self.states
        over = dict(run.over)
        made = states.makes.get(run.task, 0)
        new = {b: lies[o] for b, o in over.items() if o in lies}
        if len(new) < len(over) or any(self._is_misplaced(b, at) for b, at in new.items()):
            return
        used = [(lies[b], lies[b] + self.sizes[b]) for b in bits(held)]
        fresh = [
            b
            for b in bits(states.uses[run.task] & (~held | made))
            if b not in over and (made >> b & 1 or b not in lies)
        ]
        begun = [b for b in fresh if b in self.starts]
        for house in begun:
            low, high = self.starts[house], self.starts[house] + self.sizes[house]
            if any(a < high and low < z for a, z in used):
                return
            new[house] = low
            used.append((low, high))
        rest = sorted((b for b in fresh if b not in self.starts and self.sizes[b]), key=lambda b: -self.sizes[b])
        new.update({b: 0 for b in fresh if not self.sizes[b]})
        yield from self._placed(run.task, rest, used, new)

    def _is_misplaced(self, buffer: int, at: int) -> bool:
        """Whether an address is of a house that a buffer may not lie in."""
        houses = self.problem.may_house
        return at >= self.capacity and not any(
            buffer in houses[h] for h, a in self.starts.items() if a <= at < a + self.sizes[h]
        )

    def _placed(
        self, task: int, rest: Sequence[int], used: list[tuple[int, int]], new: dict[int, int]
    ) -> Iterator[tuple[dict[int, int], int, list[int]]]:
        if not rest:
            self._count()
            for _, _, kernel in self.states.offers[task]:
                scratch = self._room(self.scratch[task][kernel], used)
                if scratch is not None:
                    yield dict(new), kernel, scratch
                    return
            return
        buffer, size = rest[0], self.sizes[rest[0]]
        for at in self._addresses(buffer, size, used):
            yield from self._placed(task, rest[1:], [*used, (at, at + size)], {**new, buffer: at})

    def _addresses(self, buffer: int, size: int, used: Sequence[tuple[int, int]]) -> list[int]:
        """Where so many units are free: next to what is held first."""
        gaps = self._gaps(used)
        tight = [at for low, high in gaps if high - low >= size for at in dict.fromkeys((low, high - size))]
        found = dict.fromkeys(tight)
        for low, high in gaps:
            for at in bits(self.sums >> low & (1 << max(0, high - size - low + 1)) - 1):
                found[low + at] = None
        for house, start in self.starts.items():
            if buffer in self.problem.may_house[house]:
                end = start + self.sizes[house]
                inside = sorted((a, z) for a, z in used if a < end and start < z)
                at = start
                for a, z in [*inside, (end, end)]:
                    found.update(dict.fromkeys(range(at, a - size + 1)))
                    at = z
        return [*found]

    def _gaps(self, used: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Free ranges of the arena."""
        at, found = 0, []
        for low, high in sorted(used):
            if low >= self.capacity:
                break
            if at < low:
                found.append((at, low))
            at = max(at, high)
        if at < self.capacity:
            found.append((at, self.capacity))
        return found

    def _room(self, scratch: Sequence[int], used: list[tuple[int, int]]) -> list[int] | None:
        """Addresses for scratch; None: there is no room."""
        if not scratch:
            return []
        for low, high in self._gaps(used):
            if high - low >= scratch[0]:
                rest = self._room(scratch[1:], [*used, (low, low + scratch[0])])
                if rest is not None:
                    return [low, *rest]
        return None

    # --- states without places ------------------------------------------------------------------------

    def _may_end(self, state: State, spent: int, depth: int) -> bool:
        """Whether the loads of some runs are within the capacity from here to the end, for what costs are left."""
        if depth > DEEPEST:
            raise OutOfStepsError
        if self.hopeful.get(state, -1) >= spent:
            return True
        if self.hopeless.get(state, spent + 1) <= spent:
            return False
        good = state.done == self.states.all
        if not good:
            self._count()
            peak = self.capacity * self.unit
            left = None if self.states.spare is None else self.states.spare - spent
            for step in sorted(self.states.steps(state, peak, left), key=lambda s: s.run is None):
                if step.load <= peak and self._may_end(step.state, spent + step.cost, depth + 1):
                    good = True
                    break
        if good:
            self.hopeful[state] = max(spent, self.hopeful.get(state, spent))
        else:
            self.hopeless[state] = min(spent, self.hopeless.get(state, spent))
        return good

    def _choice(self) -> Choice:
        """What was found."""
        runs = [run for run, _, _ in self.found]
        offsets, homes = [], []
        for block in blocks(self.problem, runs):
            run, new, scratch = self.found[block.lower]
            sizes = self.problem.offers[run.task][run.kernel].scratch
            if block.kind == SCRATCH:
                at = scratch[sum(1 for n in sizes[: block.first] if n)]
            else:
                at = new[block.first]
            home = ARENA
            if block.kind in (LIFE, HOUSE) and at >= self.capacity:
                home = next(h for h, start in self.starts.items() if start <= at < start + self.sizes[h])
                at -= self.starts[home]
            offsets.append(at * self.unit)
            homes.append(home)
        return Choice(tuple(runs), tuple(offsets), tuple(homes))


def unit_of(problem: JointProblem) -> int:
    """The most bytes that divide all sizes."""
    scratch = [n for offers in problem.offers for each in offers for n in each.scratch]
    return math.gcd(*problem.tasks.sizes, *scratch) or 1
