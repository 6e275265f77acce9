"""The joint choice of order, kernels, aliases, offsets and recomputation, beside the chain of separate choices.

python bench/joint.py [NAME ...] [--steps N] [--seconds S] [--smallest]: generated problems of 10 to 60 tasks, and parts
of the zoo's graphs of up to 60 instructions, beside CP-SAT, which has S seconds by the clock for each. `equal` is of
those of which CP-SAT proves its optimum: bars are 50 of them, and that all are equal. Writes
bench/results/joint.json.

python bench/joint.py --zoo [NETWORK ...]: programs of the zoo, one example, inference and training: bytes of the chain,
of the chain within the same time (`with_time_budget`), and of the joint choice; what no plan of its problem takes less
than; what it computes again, how many other kernels it takes, and its estimated time. The bar is that it is never more
than either. Writes bench/results/joint_zoo.json.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from measure import earlier, options, peer, report

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.joint_choice import cp_sat
from nnc_func.engine.joint_choice.choice import arena
from nnc_func.engine.joint_choice.generators import cut, network
from nnc_func.engine.joint_choice.problem import JointProblem
from nnc_func.engine.joint_choice.search import JointSearch
from nnc_func.engine.planning.answers import footprint

SIZES = (10, 14, 20, 26, 32, 40, 50, 60)
GENERATED = 64
PARTS = ("resnet-18", "vgg-16", "u-net", "gpt-2", "darts", "char-lstm")
WORK = 1.1


def generated(count: int, sizes: Sequence[int] = SIZES) -> Iterator[tuple[str, JointProblem]]:
    """Networks of tasks: every third one with a house, every second one with sizes that are mostly alike."""
    for i in range(count):
        size = sizes[i % len(sizes)]
        yield (
            f"network {i}, {size} tasks",
            network(2000 + i, size, width=5, again=0.15, houses=i % 3 == 0, mixed=i % 2 == 0),
        )


def parts(names: Sequence[str], sizes: Sequence[int] = (24, 40, 58)) -> Iterator[tuple[str, JointProblem]]:
    """Parts of training steps: from the middle, where most bytes are alive, and from behind it."""
    stack = nnc.lazy(nnc.Null())
    for name in names:
        whole = stack.engine.joint_problem(models.get(name).training(stack, 1, seed=None))
        for i, size in enumerate(sizes):
            start = max(0, min(len(whole) - size, len(whole) * (i + 1) // (len(sizes) + 1) - size // 2))
            yield f"{name}, training, from {start}", cut(whole, start, min(len(whole), start + size))


def compared(name: str, problem: JointProblem, steps: int, seconds: float, solver: Any) -> dict[str, Any]:
    """Ours and CP-SAT's answer, both checked."""
    begin = time.process_time()
    ours = JointSearch(steps).solved(problem)
    spent = time.process_time() - begin
    assert ours.choice is not None
    assert arena(problem, ours.choice) == ours.nbytes
    row: dict[str, Any] = {
        "problem": name, "tasks": len(problem), "again": len(problem.again), "joint": ours.nbytes, "bound": ours.bound,
        "proven": ours.is_proven, "steps": ours.steps, "seconds": spent,
    }  # fmt: skip
    if solver is not None:
        begin = time.process_time()
        theirs = cp_sat.solve(problem, steps=10**9, seconds=seconds)
        row |= {
            "CP-SAT": theirs.nbytes if theirs.choice is not None else None,
            "its bound": theirs.bound,
            "its seconds": time.process_time() - begin,
            "equal": ours.nbytes == theirs.nbytes if theirs.is_proven else None,
        }
    return row


def planned(name: str, training: bool, steps: int) -> dict[str, Any]:
    """A program of the chain, of the chain within the same time, and of the joint choice."""
    stack, model = nnc.lazy(nnc.Null()), models.get(name)
    graph = (model.training if training else model.make)(stack, 1, seed=None)
    seconds = []
    for engine in (stack.engine, stack.engine.with_joint_choice(WORK, steps=steps)):
        begin = time.process_time()
        program = engine.compile(graph)
        seconds.append(time.process_time() - begin)
    found, joint = program.stats.joint, footprint(program.plan.verify())
    return {
        "network": f"{name}, {'training' if training else 'inference'}",
        "instructions": len(program.plan.instructions),
        "chain": found.chain,
        "same time": found.in_time,
        "joint": joint,
        "joint/chain": joint / found.chain,
        "joint/same time": joint / found.in_time,
        "bound": found.bound,
        "proven": found.is_proven,
        "steps": found.steps,
        "again": found.again,
        "kernels": found.kernels,
        "work": found.work,
        "chain s": seconds[0],
        "joint s": seconds[1],
    }


def zoo(names: Sequence[str], steps: int, smallest: bool) -> None:
    """All rows of networks."""
    rows = earlier("joint_zoo", {"rows": []})["rows"] if names and not smallest else []
    worse = 0
    for name in names or models.names():
        for training in (False, True)[: 1 + models.get(name).trains]:
            found = planned(name, training, steps)
            rows = [row for row in rows if row["network"] != found["network"]] + [found]
            worse = sum(row["joint"] > min(row["chain"], row["same time"]) for row in rows)
            report("joint_zoo", rows, smallest=smallest, worse=worse)
    print(f"networks: {len(rows)}, of which take more than a chain: {worse} (bar: 0)")


def main() -> None:
    """All rows."""
    parser = options(__doc__)
    parser.add_argument(
        "--steps", type=int, default=0, help="of each search; 20000, and 4000 for networks, unless given"
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="that CP-SAT has for each problem")
    parser.add_argument("--zoo", action="store_true", help="programs of the zoo instead of problems")
    parser.add_argument(
        "names", nargs="*", help="problems that begin so, or networks; those measured before stay in the results"
    )
    given = parser.parse_args()
    if given.zoo or given.smallest:
        zoo(["lenet-5"] if given.smallest else given.names, given.steps or 4_000, given.smallest)
    if given.zoo:
        return
    solver = peer("ortools")
    problems = [*generated(3, SIZES[:3]), *parts(["lenet-5"], (12,))] if given.smallest else None
    rows: list[dict[str, Any]] = earlier("joint", {"rows": []})["rows"] if given.names and not given.smallest else []
    totals: dict[str, int] = {}
    for name, problem in problems or chain(generated(GENERATED), parts(PARTS)):
        if given.names and not name.startswith(tuple(given.names)):
            continue
        rows = [row for row in rows if row["problem"] != name]
        rows.append(compared(name, problem, given.steps or 20_000, given.seconds, solver))
        known = [row["equal"] for row in rows if row.get("equal") is not None]
        totals = {"CP-SAT proves": len(known), "equal": sum(known), "ours proves": sum(row["proven"] for row in rows)}
        report("joint", rows, smallest=given.smallest, all=totals)  # written after each: it takes long
    print(f"{totals} of {len(rows)} (bars: 50, all of these equal)")


if __name__ == "__main__":
    main()
