"""An answer to a joint problem: what is run, by which kernels, over what, and where; what it takes, if it is valid.

Nothing here searches, so that it judges what others have found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush

from attrs import frozen

from nnc_func.engine.joint_choice.problem import JointProblem
from nnc_func.errors import AnswerError

LIFE, SCRATCH, HOUSE = "life", "scratch", "house"  # kinds of blocks


@frozen
class Run:
    """A task that is run.

    Attributes
    ----------
    task
        Its number.
    kernel
        Which of its kernels runs it.
    over
        Pairs of a buffer that it makes, and the one whose memory that takes over.
    """

    task: int
    kernel: int = 0
    over: tuple[tuple[int, int], ...] = ()


@frozen
class Block:
    """Memory that holds one buffer, or several that took it over one from the other, or scratch.

    Attributes
    ----------
    kind
        `LIFE`, `SCRATCH` or `HOUSE`.
    size
        Bytes.
    lower, upper
        The runs during which it is held, half open.
    first
        The buffer that it holds first; of scratch, its position among that of the run.
    may_be_housed
        It may lie in a house.
    """

    kind: str
    size: int
    lower: int
    upper: int
    first: int
    may_be_housed: bool = False


@frozen
class Choice:
    """Runs, and where each block lies.

    Attributes
    ----------
    runs
        One after another.
    offsets
        Of each of `blocks`, in bytes: of what lies in the arena. What lies in a house has its offset there.
    homes
        The house of each of the blocks; -1: the arena. Houses themselves have offset 0, and are their own.
    """

    runs: tuple[Run, ...]
    offsets: tuple[int, ...]
    homes: tuple[int, ...]


def cost(problem: JointProblem, runs: Sequence[Run]) -> int:
    """What runs cost in sum."""
    return sum(problem.offers[run.task][run.kernel].cost for run in runs)


def blocks(problem: JointProblem, runs: Sequence[Run]) -> list[Block]:
    """The memory of runs: by the run that takes it first, and of one run by number, scratch last.

    Raises
    ------
    AnswerError
        The runs are no answer to the problem; says why.

    Examples
    --------
    >>> from nnc_func.engine.orders.base import OrderProblem
    >>> tasks = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], overwrites={1: [(1, (0,))]})
    >>> [(b.size, b.lower, b.upper) for b in blocks(JointProblem(tasks), [Run(0), Run(1, 0, ((1, 0),))])]
    [(8, 0, 2)]
    """
    check_runs(problem, runs)
    tasks, again = problem.tasks, problem.again
    of: dict[int, int] = {}  # buffer -> its life at the moment
    lives: list[list[int]] = []  # of each: buffer, first run, last run
    taken: dict[int, int] = {}  # life -> the one that takes over its memory
    found: list[Block] = []
    for at, run in enumerate(runs):
        made = again.get(run.task, ())
        for buffer in sorted(tasks.uses[run.task]):
            if buffer in made or buffer not in of:
                of[buffer] = len(lives)
                lives.append([buffer, at, at])
            lives[of[buffer]][2] = at
        for new, old in run.over:
            if old not in of or lives[of[new]][1] != at:
                raise AnswerError(f"run {at}, of task {run.task}, cannot make buffer {new} over buffer {old} there")
            taken[of[old]] = of[new]
    for buffer in tasks.lasting:
        if buffer in of:
            lives[of[buffer]][2] = len(runs)
    for old, new in taken.items():
        if lives[old][2] != lives[new][1]:
            raise AnswerError(
                f"run {lives[new][1]}, of task {runs[lives[new][1]].task}, makes buffer {lives[new][0]} over buffer "
                f"{lives[old][0]}, which is read after it"
            )
    over = {*taken.values()}
    if len(over) < len(taken):
        raise AnswerError("a buffer would be made over two others")
    for life, (buffer, first, last) in enumerate(lives):
        if life in over:
            continue
        held, lies = buffer in problem.housed, life
        while lies in taken:
            lies = taken[lies]
            last = lives[lies][2]
            held = held and lives[lies][0] in problem.housed
        kind = HOUSE if buffer in problem.houses else LIFE
        found.append(Block(kind, tasks.sizes[buffer], first, last + 1, buffer, held and kind == LIFE))
    for at, run in enumerate(runs):
        scratch = problem.offers[run.task][run.kernel].scratch
        found += [Block(SCRATCH, size, at, at + 1, i) for i, size in enumerate(scratch)]
    found = [block for block in found if block.size]
    return sorted(found, key=lambda b: (b.lower, b.kind == SCRATCH, b.first))


def check_runs(problem: JointProblem, runs: Sequence[Run]) -> None:
    """Refuse runs that are none of the problem.

    Raises
    ------
    AnswerError
        A task or a kernel that there is not, a task that is run before one that it needs, never, or again though it may
        not be; what is made over a buffer that it may not be; more cost than the limit.
    """
    tasks, ran, closed = problem.tasks, set[int](), False
    for at, run in enumerate(runs):
        task = run.task
        if not (0 <= task < len(problem) and 0 <= run.kernel < len(problem.offers[task])):
            raise AnswerError(f"run {at} is of task {task} by kernel {run.kernel}, which there is not")
        if task in ran and (task not in problem.again or closed):
            raise AnswerError(f"run {at} runs task {task} again, which may not be run there")
        if not ran.issuperset(tasks.needs[task]):
            raise AnswerError(f"run {at} is of task {task}, before what it needs: {[*tasks.needs[task]]}")
        allowed = dict(tasks.overwrites.get(task, ()))
        makes = [new for new, _ in run.over]
        if len({*makes}) < len(makes) or len({old for _, old in run.over}) < len(makes):
            raise AnswerError(f"run {at}, of task {task}, takes one buffer twice: {run.over}")
        for new, old in run.over:
            if old not in allowed.get(new, ()):
                raise AnswerError(f"run {at}, of task {task}, may not make buffer {new} over buffer {old}")
        ran.add(task)
        closed = closed or task == problem.barrier
    if len(ran) < len(problem):
        raise AnswerError(f"task {min({*range(len(problem))} - ran)} is never run")
    if problem.limit is not None and cost(problem, runs) > problem.limit:
        raise AnswerError(f"the runs cost {cost(problem, runs)}, and the limit is {problem.limit}")


def loads(problem: JointProblem, runs: Sequence[Run]) -> list[int]:
    """Bytes that are held while each run lasts, houses included."""
    change = [0] * (len(runs) + 2)
    for block in blocks(problem, runs):
        change[block.lower] += block.size
        change[min(block.upper, len(runs) + 1)] -= block.size
    total, found = 0, []
    for at in range(len(runs)):
        total += change[at]
        found.append(total)
    return found


def arena(problem: JointProblem, choice: Choice) -> int:
    """The bytes of the arena that a choice takes: what is to be small. It is checked in full.

    Raises
    ------
    AnswerError
        The choice is none of the problem: says what of it is not valid.

    Examples
    --------
    >>> from nnc_func.engine.orders.base import OrderProblem
    >>> tasks = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], overwrites={1: [(1, (0,))]})
    >>> arena(JointProblem(tasks), Choice((Run(0), Run(1)), (0, 8), (-1, -1)))
    16
    """
    found = blocks(problem, choice.runs)
    if not len(found) == len(choice.offsets) == len(choice.homes):
        raise AnswerError(f"{len(found)} blocks, {len(choice.offsets)} offsets, {len(choice.homes)} homes: not as many")
    placed: dict[int, list[tuple[int, int, Block]]] = {}
    most = 0
    for block, offset, home in zip(found, choice.offsets, choice.homes, strict=True):
        if offset < 0 or (block.kind == HOUSE and (home != block.first or offset)):
            raise AnswerError(f"block {block} lies at {offset} of {home}")
        if home == -1:
            most = max(most, offset + block.size)
        elif home not in problem.houses or offset + block.size > problem.tasks.sizes[home]:
            raise AnswerError(f"block {block} lies at {offset} in buffer {home}, which is no house of that size")
        elif block.kind != HOUSE and not block.may_be_housed:
            raise AnswerError(f"block {block} may not lie in a house")
        placed.setdefault(home, []).append((offset, offset + block.size, block))
    for each in placed.values():
        check_apart(each)
    return most


def check_apart(placed: Sequence[tuple[int, int, Block]]) -> None:
    """Refuse blocks that overlap; of each its two ends in bytes, and when it is held, ascending.

    Each new one is compared with its neighbours among those that are held.

    Raises
    ------
    AnswerError
        Two do; says which.
    """
    held: list[tuple[int, int, int]] = []  # low, high, position
    ends: list[tuple[int, tuple[int, int, int]]] = []
    for at, (low, high, block) in enumerate(placed):
        while ends and ends[0][0] <= block.lower:
            held.remove(heappop(ends)[1])
        row = (low, high, at)
        position = bisect_left(held, row)
        for other in held[max(position - 1, 0) : position + 1]:
            if max(low, other[0]) < min(high, other[1]):
                raise AnswerError(f"blocks {block} and {placed[other[2]][2]} overlap")
        held.insert(position, row)
        heappush(ends, (block.upper, row))
