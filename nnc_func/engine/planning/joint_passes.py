"""Passes that follow a joint choice: they take the places of those that choose an order, kernels, and so on in turn."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from nnc_func.engine.joint_choice.choice import HOUSE, LIFE, SCRATCH, Block, blocks, check_apart
from nnc_func.engine.joint_choice.search import JointSearch
from nnc_func.engine.joint_choice.solution import Solution
from nnc_func.engine.plan_rows import ARENA, LENT
from nnc_func.engine.planning import output_borrowing
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.joint_problem import Asked, joint_problem
from nnc_func.engine.planning.ordering import chosen
from nnc_func.engine.planning.passes import Passes
from nnc_func.engine.planning.variants import Variant
from nnc_func.errors import AnswerError, PlanError

ORDER = "joint"  # what plans name as their order
REPLACED = ("order", "in_place", "lend", "negotiate", "allocate")


@frozen
class JointChoice:
    """What a joint choice may take.

    Attributes
    ----------
    work
        How many times longer a run may take, as estimated, for kernels with less scratch and what is computed again.
    steps
        Of the search, for each draft; see `JointSearch`.
    seed
        Of what is drawn.

    Raises
    ------
    PlanError
        They are no such numbers.
    """

    work: float = 1.1
    steps: int = 4_000
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        work = self.work
        if not (isinstance(work, (int, float)) and not isinstance(work, bool) and 1 <= work < float("inf")):
            raise PlanError(f"wanted times of a run's time from 1 on, such as 1.1, given work={work!r}")
        if type(self.steps) is not int or self.steps < 0 or type(self.seed) is not int:
            raise PlanError(f"wanted whole numbers, of steps from 0 on: given steps={self.steps!r}, seed={self.seed!r}")


@frozen(eq=False)
class Followed:
    """A choice for one draft, by its instructions in the order that is chosen, and its storages.

    Attributes
    ----------
    asked, solution
        The problem, and its answer.
    kernels
        The variants of instructions that have a choice.
    over
        By instruction, what is made over which storage.
    offsets, homes
        Of storages, and of scratch by instruction and position; the result that houses it, or -1.
    """

    asked: Asked
    solution: Solution
    kernels: Mapping[int, Variant]
    over: Mapping[int, Mapping[int, int]]
    offsets: Mapping[tuple[int, int], int]
    homes: Mapping[int, int]


@frozen(eq=False)
class JointPasses:
    """The passes of a joint choice.

    Parameters
    ----------
    settings
        What it may take.
    own
        The passes that it stands beside, or in the place of.
    limit
        Picoseconds that a run may take; None: as the settings say.
    """

    settings: JointChoice
    own: Passes
    limit: int | None = None

    def passes(self) -> Passes:
        """Those of a planning."""
        return evolve(self.own, **{name: getattr(self, name) for name in REPLACED})

    def order(self, draft: Draft) -> Draft:
        """Choose, and put the instructions in the order that is chosen."""
        asked = joint_problem(draft, self.settings.work, self.limit)
        if asked is None:
            return self.own.order(draft)
        draft.ordering = asked.usual
        first, _ = chosen(asked.usual, draft.request.orders, {})
        try:
            solution = JointSearch(self.settings.steps, self.settings.seed).solved(asked.problem, first.sequence)
        except PlanError:  # not even the cheapest kernels keep what is left of the time
            return self.own.order(draft)
        draft.order = ORDER
        draft.joint = _followed(asked, solution)
        assert solution.choice is not None
        best = [run.task for run in solution.choice.runs]
        if asked.start is not None:
            at = best.index(asked.start)
            best = [task - (task > asked.start) for task in best if task != asked.start]
            draft.commit = at
        if best != [*range(len(best))]:
            draft.reorder(best)
        return draft

    def in_place(self, draft: Draft) -> Draft:
        """Let results take over what is chosen, and what the choice does not know of."""
        followed: Followed | None = draft.joint
        if followed is not None:
            kept = []
            for t, pairs in enumerate(draft.overwritable):
                over, rows = followed.over.get(t, {}), []
                for made, homes, slots in pairs:
                    if draft.sizes[made]:
                        both = [
                            (home, slot)
                            for home, slot in zip(homes, slots, strict=True)
                            if not draft.sizes[home] or over.get(made) == home
                        ]
                        homes, slots = [home for home, _ in both], [slot for _, slot in both]
                    if homes:
                        rows.append((made, homes, slots))
                kept.append(tuple(rows))
            draft.overwritable = kept
        return self.own.in_place(draft)

    def lend(self, draft: Draft) -> Draft:
        """Let results house what is chosen."""
        followed: Followed | None = draft.joint
        if followed is None or draft.streams is not None:
            return self.own.lend(draft)
        for number, home in followed.homes.items():
            storage, house = draft.storages[number], draft.storages[home]
            alone = storage.merged == number and storage.kind == ARENA
            fits = followed.offsets[number, -1] + storage.nbytes <= house.nbytes  # the problem has rounded both up
            if alone and fits and storage.last < house.first and storage.place == house.place:
                storage.kind, storage.source = LENT, house.source
                storage.offset = followed.offsets[number, -1]
        output_borrowing.reuse(draft)
        return draft

    def negotiate(self, draft: Draft) -> Draft:
        """Take the kernels that are chosen."""
        followed: Followed | None = draft.joint
        if followed is None:
            return self.own.negotiate(draft)
        rows = draft.instructions
        other = {t: each for t, each in followed.kernels.items() if each.kernel is not rows[t].kernel}
        if other:
            draft.run_by({t: (each.kernel, each.wanted) for t, each in other.items()})
        return draft

    def allocate(self, draft: Draft) -> Draft:
        """Take the offsets that are chosen, where those of the allocator take more."""
        draft = self.own.allocate(draft)
        found = None if draft.joint is None or draft.streams is not None else _offsets(draft, draft.joint)
        if found is not None:
            ends = [offset + draft.aligned(draft.storages[number].nbytes) for number, offset in found.items()]
            if max(ends, default=0) < draft.arenas[None]:
                draft.offsets, draft.arenas[None] = found, max(ends, default=0)
        return draft


def _followed(asked: Asked, solution: Solution) -> Followed:
    choice, start = solution.choice, asked.start
    assert choice is not None
    passed = next((i for i, run in enumerate(choice.runs) if run.task == start), len(choice.runs))
    at = [i - (i > passed) for i in range(len(choice.runs))]  # the instruction of each run
    kernels = {
        at[i]: asked.variants[run.task][run.kernel] for i, run in enumerate(choice.runs) if run.task in asked.variants
    }
    over = {at[i]: dict(run.over) for i, run in enumerate(choice.runs) if run.over}
    lies: dict[tuple[int, int], int] = {}
    homes: dict[int, int] = {}
    for block, offset, home in zip(blocks(asked.problem, choice.runs), choice.offsets, choice.homes, strict=True):
        if block.kind == SCRATCH:
            lies[at[block.lower], block.first] = offset
        elif block.kind != HOUSE:
            lies[block.first, -1] = offset
            if home != -1:
                homes[block.first] = home
    return Followed(asked, solution, kernels, over, lies, homes)


def _offsets(draft: Draft, followed: Followed) -> dict[int, int] | None:
    """The offsets of all that lies in the arena; None: something lies there that the choice did not know of."""
    scratch = {s: (t, i) for t, row in enumerate(draft.instructions) for i, (_, s) in enumerate(row.scratch)}
    found: dict[int, int] = {}
    placed = []
    for number, storage in enumerate(draft.storages):
        if storage.merged != number or storage.kind != ARENA or storage.last < 0:
            continue
        if not storage.nbytes:
            found[number] = 0
            continue
        offset = followed.offsets.get(scratch.get(number, (number, -1)))
        if offset is None:
            return None
        found[number] = offset
        size = draft.aligned(storage.nbytes)
        placed.append((offset, offset + size, Block(LIFE, size, storage.first, storage.last + 1, number)))
    try:
        check_apart(sorted(placed, key=lambda each: each[2].lower))
    except AnswerError:
        return None
    return found
