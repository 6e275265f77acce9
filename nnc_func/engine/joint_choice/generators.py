"""Problems to try searches on: networks of tasks from seeds, and parts that are cut out of larger problems."""

from __future__ import annotations

from random import Random

from nnc_func.engine.joint_choice.problem import FREE, Alternative, JointProblem
from nnc_func.engine.orders.base import OrderProblem

UNIT = 64  # bytes
LARGEST = 12  # units of a buffer


def network(
    seed: int, count: int, *, width: int = 4, again: float = 0.2, houses: bool = False, mixed: bool = True
) -> JointProblem:
    """A network of so many tasks, each of which makes one buffer, or two, and reads up to three of the latest ones.

    Parameters
    ----------
    width
        How far back a task reads, in tasks: the larger, the more orders there are.
    again
        The part of the tasks that may be run again, and for which the limit has some room; 0: none.
    houses
        Whether a result lies outside the arena, and has others in it before.
    mixed
        Sizes are any; else all but a few are alike, so that more is written over what was there.

    Examples
    --------
    >>> problem = network(1, 12)
    >>> len(problem), problem.least_cost <= problem.limit
    (12, True)
    """
    draw = Random(seed)
    needs: list[tuple[int, ...]] = []
    uses: list[tuple[int, ...]] = []
    sizes: list[int] = []
    overwrites: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    kernels: list[tuple[Alternative, ...]] = []
    made: list[list[int]] = []
    unread: set[int] = set()
    for task in range(count):
        near = range(max(0, task - width), task)
        reads = min(len(near), draw.choice((0, 1, 1, 2, 2, 3)) if task < count - 1 else 3)
        some = [one for one in near if one in unread]
        some = draw.sample(some, min(len(some), reads))
        read = sorted({*some, *draw.sample(near, reads - len(some))})
        operands = [draw.choice(made[one]) for one in read]
        own = []
        for _ in range(1 + (draw.random() < 0.1)):
            own.append(len(sizes))
            sizes.append(UNIT * (draw.randint(1, LARGEST) if mixed or draw.random() < 0.3 else 4))
        over = [(b, tuple(o for o in operands if sizes[o] == sizes[b])) for b in own]
        if task < count - 1 and draw.random() < 0.6 and any(others for _, others in over):
            overwrites[task] = [(b, others) for b, others in over if others]
        needs.append(tuple(read))
        uses.append((*dict.fromkeys(operands), *own))
        made.append(own)
        unread = (unread - {*read}) | {task}
        kernels.append(_kernels(draw))
    lasting = tuple(made[-1])
    may = [t for t in range(1, count - 1) if draw.random() < again and _reads_behind(t, made, uses)]
    usual = sum(offers[0].cost for offers in kernels)
    least = sum(min(each.cost for each in offers) for offers in kernels)
    spare = max((min(each.cost for each in kernels[t]) for t in may), default=0) + draw.randint(0, 3)
    return JointProblem(
        OrderProblem(needs, uses, sizes, lasting, overwrites),
        kernels,
        {t: tuple(made[t]) for t in may},
        None,
        lasting if houses else (),
        [b for b in range(len(sizes)) if b not in lasting and draw.random() < 0.5] if houses else (),
        max(least + spare, usual),
    )


def cut(problem: JointProblem, start: int, stop: int, work: float = 1.1) -> JointProblem:
    """The tasks from one number to another, behind one that makes what they read of earlier ones.

    What later tasks read lasts. Houses are buffers that last, like others. The limit is so many times what the usual
    kernels cost.

    Examples
    --------
    >>> part = cut(network(1, 30), 10, 20)
    >>> len(part), part.tasks.needs[0]
    (11, ())
    """
    tasks = problem.tasks
    inside = range(start, stop)
    used = {b for task in inside for b in tasks.uses[task]}
    early = {b for task in range(start) for b in tasks.uses[task]} & used
    late = {b for task in range(stop, len(problem)) for b in tasks.uses[task]} & used
    numbers = {b: i for i, b in enumerate(sorted(used))}
    lasting = tuple(sorted(numbers[b] for b in (late | ({*tasks.lasting} & used))))
    needs = [(), *(tuple(dict.fromkeys([0, *(n - start + 1 for n in tasks.needs[t] if n >= start)])) for t in inside)]
    uses = [tuple(numbers[b] for b in sorted(early)), *(tuple(numbers[b] for b in tasks.uses[t]) for t in inside)]
    over = {
        t - start + 1: [
            (numbers[made], tuple(numbers[o] for o in others))
            for made, others in tasks.overwrites[t]
            if made not in early
        ]
        for t in inside
        if t in tasks.overwrites
    }
    kernels = [FREE, *(tuple(problem.offers[t]) for t in inside)]
    may = {
        t - start + 1: tuple(numbers[b] for b in made)
        for t, made in problem.again.items()
        if t in inside and not {numbers[b] for b in made} & {*lasting} and (problem.barrier or stop) >= start
    }
    barrier = problem.barrier
    sizes = [tasks.sizes[b] for b in sorted(used)]
    return JointProblem(
        OrderProblem(needs, uses, sizes, lasting, over),
        kernels,
        may,
        barrier - start + 1 if barrier is not None and barrier in inside and may else None,
        limit=int(sum(offers[0].cost for offers in kernels) * work),
    )


def _kernels(draw: Random) -> tuple[Alternative, ...]:
    """Kernels of a task: with scratch there may be slower ones that take less."""
    cost = draw.randint(2, 6)
    if draw.random() < 0.6:
        return (Alternative((), cost),)
    scratch = draw.randint(2, LARGEST)
    found = [Alternative((UNIT * scratch,), cost)]
    if draw.random() < 0.7:
        found.append(Alternative((UNIT * (scratch // 2), UNIT), cost + draw.randint(1, 2)))
    if draw.random() < 0.5:
        found.append(Alternative((), cost + draw.randint(2, 4)))
    return tuple(found)


def _reads_behind(task: int, made: list[list[int]], uses: list[tuple[int, ...]]) -> bool:
    """Whether what a task makes is read by others."""
    return any(not {*made[task]}.isdisjoint(used) for used in uses[task + 1 :])
