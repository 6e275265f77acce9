"""A strategy of rematerialisation of one's own: a problem and a budget in, the sequence of tasks out."""

from __future__ import annotations

import numpy as np

import nnc_func as nnc
from nnc_func import nn
from nnc_func.engine.rematerialising import STRATEGIES, RematerialisationProblem, best
from nnc_func.engine.rematerialising.replay import Replay


def keep_the_dearest(problem: RematerialisationProblem, budget: int) -> list[int]:
    """What costs little for its bytes is dropped where the tape ends, more and more of it, until the rest fits."""
    price = {t: problem.costs[t] / problem.sizes[t] for t in range(problem.turn) if problem.sizes[t]}
    cheap = sorted(price, key=price.__getitem__)

    def without(count: int) -> list[int]:
        dropped, run = set(cheap[:count]), Replay(problem)
        for task in range(len(problem)):
            run.bring(task)
            if task <= problem.turn:
                run.drop(
                    t for t in {task, *problem.needs[task]} & dropped if max(problem.users[t], default=0) > task + 1
                )
        return run.sequence

    return [*best(problem, budget, map(without, range(0, len(cheap), max(1, len(cheap) // 16))))]


def main() -> None:
    """The bytes and the arithmetic of a training step within a budget, under each strategy."""
    model = nn.Sequential(*(part for _ in range(12) for part in (nn.Dense(64), nn.tanh)), nn.Dense(10))
    x, y = np.zeros((4096, 64), "float32"), np.zeros(4096, "int64")
    lazy = nnc.lazy(nnc.Null())
    for strategy in (*(STRATEGIES[n] for n in ("greedy", "square_root", "binomial")), keep_the_dearest):
        small = lazy.swap(engine=lazy.engine.with_time_budget(1.3, strategy))
        step = nn.Step(small, model.init(0, x.shape), nn.softmax_cross_entropy, nn.SGD())
        print(f"{step.program(x, y).stats.recomputation.strategy:16} {step.program(x, y).stats.recomputation}")


if __name__ == "__main__":
    main()
