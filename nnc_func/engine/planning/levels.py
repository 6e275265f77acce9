"""Two levels of memory: plans within a small fast memory, which move values to a large slow one and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from attrs import evolve, frozen

from nnc_func.engine.naming import name_of, unknown
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import NEXT, OUTPUT
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.overlap import Estimate, estimated, moving_seconds
from nnc_func.engine.planning.planner import Planned, placed, smallest_draft
from nnc_func.engine.planning.request import Request
from nnc_func.engine.planning.spills import rebuilt, spillable
from nnc_func.engine.spilling import POLICIES, Movement, Policy, answered
from nnc_func.engine.spilling.prefetch import prefetched
from nnc_func.errors import PlanError
from nnc_func.facets.places import Place, given, settled
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node
from nnc_func.graph.origin import describe
from nnc_func.graph.pictures.svg import sized
from nnc_func.graph.rules.cost import work_of

TRIES = 8  # answers of a policy to one capacity
EARLY = 3  # plans in which values are brought back early, each with less room for that than the last


@frozen
class FastMemory:
    """What a program may take of the device's own place, and where the rest goes.

    Attributes
    ----------
    nbytes
        Of the arena there and of fresh results there, in bytes.
    slow
        The place to which values are moved; None: the device's second one.
    policy
        What is moved when: one of `POLICIES`, by name, or any function like them.
    """

    nbytes: int
    slow: str | None = None
    policy: Policy | str = "cover"

    @property
    def chooses(self) -> Policy:
        """The policy itself."""
        return POLICIES[self.policy] if isinstance(self.policy, str) else self.policy


@frozen
class Traffic:
    """What is moved between the two levels of memory in a program.

    Attributes
    ----------
    fast_bytes, slow_bytes
        What it takes of the device's own place, arena and fresh results, and of the arena in slow memory.
    without
        What it would take of the device's own place if nothing were moved.
    spills, fetches
        How many values are written to slow memory, and how often one is brought back.
    spilled, fetched
        The bytes of these.
    estimate, estimate_without
        Seconds of a run, and of one in which nothing is moved.
    policy
        The name of what chose.
    """

    fast_bytes: int
    slow_bytes: int
    without: int
    spills: int
    fetches: int
    spilled: int
    fetched: int
    estimate: Estimate
    estimate_without: Estimate
    policy: str

    @property
    def moved(self) -> int:
        """Bytes moved, there and back."""
        return self.spilled + self.fetched

    def __str__(self) -> str:
        saved = f"{sized(self.fast_bytes)} of fast memory instead of {sized(self.without)}"
        longer = self.estimate.together / self.estimate_without.together if self.estimate_without.together else 1.0
        moved = f"{self.spills} spills and {self.fetches} fetches of {sized(self.moved)}"
        return f"{saved}: {moved}, {longer:.2f} times as long"


@frozen(eq=False)
class Levelled:
    """A program in two levels of memory.

    Attributes
    ----------
    graph, planned
        Its graph, and the plan.
    traffic
        What is moved.
    """

    graph: ComputationGraph
    planned: Planned
    traffic: Traffic


def fast_bytes(plan: Plan) -> int:
    """The bytes that a plan takes in the device's own place besides what is there before: its arena, fresh results."""
    return plan.arena_bytes + sum(b.nbytes for b in plan.buffers if b.kind in (OUTPUT, NEXT) and b.place is None)


def check_fast_memory(fast: FastMemory) -> None:
    """Refuse a fast memory that is none.

    Raises
    ------
    PlanError
        Bytes, place or policy are no such thing.
    """
    if type(fast.nbytes) is not int or fast.nbytes < 0:
        raise PlanError(f"a fast memory is a number of bytes, given {fast.nbytes!r}")
    if fast.slow is not None and not isinstance(fast.slow, str):
        raise PlanError(f"slow memory is a place, by its name, given {fast.slow!r}")
    if isinstance(fast.policy, str) and fast.policy not in POLICIES:
        raise PlanError(unknown(fast.policy, "policy", POLICIES))
    if not isinstance(fast.policy, str) and not callable(fast.policy):
        raise PlanError(f"a policy is a name or a function, given {fast.policy!r}")


def levelled(fast: FastMemory, request: Request) -> Levelled:
    """The plan of a request in so much fast memory: where it takes more as it is, values are moved to slow memory.

    Every capacity from the least on is kept, and none below: with the device's own choice of kernels, or, where that
    does not do, with kernels that want less scratch.

    Raises
    ------
    PlanError
        The device has no second place; or the capacity is less than the least that was found, which is said.
    """
    slow = _slow(request.device, fast.slow)
    request = evolve(request, streams=1)
    plain = _Search(fast, request, slow)
    found = plain.found()
    if found is None:
        least = _Search(fast, evolve(request, memory=0), slow)
        found = least.found()
        if found is None:
            raise PlanError(_refusal(fast, min(plain, least, key=lambda search: search.least_bytes)))
        found = _Search(fast, evolve(request, memory=fast.nbytes), slow).found() or found
    draft, planned = found
    return Levelled(draft.graph, planned, _traffic(fast, planned.plan, plain.plain.plan, slow, request.device))


def _traffic(fast: FastMemory, plan: Plan, plain: Plan, slow: Place, device: Any) -> Traffic:
    """What is moved in a plan beyond what the graph itself moves, as it does in the plain one."""
    moves = [*(_moves(plan) - _moves(plain)).elements()]
    spilled = [nbytes for nbytes, place in moves if place is not None]
    fetched = [nbytes for nbytes, place in moves if place is None]
    return Traffic(
        fast_bytes(plan), dict(plan.elsewhere).get(str(slow), 0), fast_bytes(plain), len(spilled), len(fetched),
        sum(spilled), sum(fetched), estimated(plan, device), estimated(plain, device),
        fast.policy if isinstance(fast.policy, str) else name_of(fast.policy),
    )  # fmt: skip


def _slow(device: Any, name: Place) -> Place:
    places: tuple[str, ...] = getattr(device, "places", ())
    if len(places) < 2:
        raise PlanError(
            f"two levels of memory are two places, and {device!r} has one; compose the stack on a device that has "
            f"both: Places(fast={device!r}, slow={device!r})"
        )
    place = settled(places[1] if name is None else name, places)
    if place is None:
        raise PlanError(f"slow memory is another place than the first one, {places[0]!r}, which is fast memory")
    return place


class _Search:
    """Plans of one request, with its kernels, in fast memory of some bytes.

    Attributes
    ----------
    spillable
        What may be moved.
    least_bytes
        Fast memory that the plan takes in which the most is moved, or nothing if that takes less.
    """

    def __init__(self, fast: FastMemory, request: Request, slow: Place) -> None:
        self.fast, self.request, self.slow = fast, request, slow
        self.draft = smallest_draft(request)
        self.plain = placed(self.draft)
        self.least_bytes = fast_bytes(self.plain.plan)

    def found(self) -> tuple[Draft, Planned] | None:
        """The plan, if there is one."""
        nbytes, device = self.fast.nbytes, self.request.device
        if self.least_bytes <= nbytes:
            return self.draft, self.plain
        self.spillable = spillable(self.draft)
        problem = self.spillable.problem
        least = [self._planned(problem.least)]
        if fast_bytes(least[0][1].plan) > nbytes:
            least.append(self._planned(answered(self.fast.chooses, problem, problem.least.peak)))
        taken = [fast_bytes(each.plan) for _, each, _ in least]
        self.least_bytes = min(self.least_bytes, *taken)
        if self.least_bytes > nbytes:
            return None
        within = [each for each, size in zip(least, taken, strict=True) if size <= nbytes]
        draft, planned, movement = min([*self._tries(), *within], key=lambda each: each[2].moved)
        early = self._prefetched(movement)
        if early is not None:
            sooner = estimated(early[1].plan, device).together < estimated(planned.plan, device).together
            draft, planned = early if sooner else (draft, planned)
        return draft, planned

    def _tries(self) -> Iterator[tuple[Draft, Planned, Movement]]:
        """Plans that fit, of the policy's answers to a capacity that is less by what the last one took too much.

        Behind one that fits, and is not the first, comes one of a capacity between it and the last one that did not.
        """
        nbytes, problem = self.fast.nbytes, self.spillable.problem
        target, failed, seen = nbytes, nbytes, set[frozenset[int]]()
        for _ in range(TRIES):
            movement = answered(self.fast.chooses, problem, max(target, problem.least.peak))
            if movement.dropped in seen:
                return
            seen.add(movement.dropped)
            draft, planned, _ = self._planned(movement)
            taken = fast_bytes(planned.plan)
            if taken <= nbytes:
                yield draft, planned, movement
                if failed == nbytes:
                    return
                target = (target + failed) // 2
            else:
                failed = target
                target = min(target, movement.peak) - (taken - nbytes)

    def _planned(self, movement: Movement, fetched: dict[int, int] | None = None) -> tuple[Draft, Planned, Movement]:
        gaps = self.spillable.problem.gaps
        at = {number: gaps[number].end for number in movement.dropped} if fetched is None else fetched
        draft = rebuilt(self.spillable, movement, at, self.slow)
        return draft, placed(draft), movement

    def _prefetched(self, movement: Movement) -> tuple[Draft, Planned] | None:
        """The plan in which values are brought back before they are wanted; None where there is no room for that."""
        asked, found = self.request, self.spillable
        problem = found.problem
        rows = [self.draft.instructions[t].node for t in found.rows]
        seconds = [work_of(node, asked.machine).seconds if type(node) is Node else 0.0 for node in rows]
        fetching = {
            number: moving_seconds(asked.device, problem.sizes[problem.gaps[number].value], self.slow, None)
            for number in movement.dropped
        }
        capacity = self.fast.nbytes
        for _ in range(EARLY):
            at = prefetched(problem, movement, capacity, seconds, fetching)
            if all(at[number] == problem.gaps[number].end for number in movement.dropped):
                break
            draft, planned, _ = self._planned(movement, at)
            excess = fast_bytes(planned.plan) - self.fast.nbytes
            if excess <= 0:
                return draft, planned
            capacity -= excess
        return None


def _moves(plan: Plan) -> Counter[tuple[int, Place]]:
    """The bytes of each copy from place to place, and whereto: how many there are."""
    moved = [plan.slots[i.results[0]].aval for i in plan.instructions if i.op.place is given]
    return Counter((aval.nbytes, aval.place) for aval in moved)


def _refusal(fast: FastMemory, search: _Search) -> str:
    """What was asked for, what there is, which instruction needs it, and what to do."""
    problem, draft, least = search.spillable.problem, search.draft, search.least_bytes
    loads = problem.least.loads
    step = loads.index(max(loads))
    row, scratch = draft.instructions[search.spillable.rows[step]], problem.scratch[step]
    where = describe(row.node.origin)
    alone = sum(size for size, touched in zip(problem.sizes, problem.touches, strict=True) if step in touched)
    beside = loads[step] - alone - scratch + problem.saved(step, range(len(problem.gaps)))
    stays = f", and {_told(beside)} beside it stay, which are results or not whole yet" if beside > 0 else ""
    return (
        f"the fast memory of {draft.graph.name!r} is {_told(fast.nbytes)}; the least found is {_told(least)}, with all "
        f"else moved to {str(search.slow)!r}: instruction {search.spillable.rows[step]}, {row.node.op.name}"
        f"{f' (built at {where})' if where else ''}, reads and makes {_told(alone)} with {_told(scratch)} of scratch"
        f"{stays}. Give {least} bytes or more, or a graph that needs less: a smaller batch, say"
    )


def _told(nbytes: int) -> str:
    return f"{nbytes} bytes ({sized(nbytes)})"
