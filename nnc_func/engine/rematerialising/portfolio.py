"""What strategies answer where they may take as little memory as they can: by it is told which budgets are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt

from nnc_func.engine.naming import name_of
from nnc_func.engine.rematerialising.binomial import binomial
from nnc_func.engine.rematerialising.greedy import greedy
from nnc_func.engine.rematerialising.problem import RematerialisationProblem, Simulation, Strategy, answered, simulated
from nnc_func.engine.rematerialising.square_root import Tape, square_root

PORTFOLIO: tuple[Strategy, ...] = (binomial, square_root, greedy)  # what takes least time first
MANY = 2500  # tasks, from which on few answers are given: planning each takes longer than finding it
FEW = 200  # tasks, up to which other budgets are asked for as well: so many divided by those that there are, up to 8
MOST = 3500  # tasks, from which on `square_root` alone is asked, and a strategy that is not among these
NEAR = 1.05  # times the least peak: what is planned of so much may take least


def least_answers(problem: RematerialisationProblem, strategy: Strategy) -> Iterator[tuple[str, Simulation]]:
    """Names of strategies, and their answers to a budget of 0: what is found soonest first, and the one asked for last.

    What has the least peak may not be the plan that takes least. So, where there are few tasks, they are asked for
    budgets between that peak and the one without recomputation, too.

    The first one is a part of what `square_root` tries, which tells in no time whether much can be saved. Where there
    are many tasks, `square_root` is asked first, and of the others what has far more than the least peak is left out.

    Examples
    --------
    >>> from nnc_func.engine.rematerialising.generators import layers
    >>> [(name, found.peak) for name, found in least_answers(layers(16), greedy)][:4]
    [('square_root', 8), ('binomial', 4), ('square_root', 8), ('greedy', 4)]
    """
    asked = dict.fromkeys((*PORTFOLIO, strategy))
    if len(problem) < MANY:
        if problem.turn > 0:
            yield name_of(square_root), simulated(problem, Tape(problem).segmented(max(2, isqrt(problem.turn + 1))))
        least = problem.base.peak
        for each in asked:
            answer = answered(each, problem, 0)
            least = min(least, answer.peak)
            yield name_of(each), answer
        count = min(8, FEW // max(1, len(problem)))
        for budget in (least + (problem.base.peak - least) * i // (count + 1) for i in range(1, count + 1)):
            yield from ((name_of(each), answered(each, problem, budget)) for each in asked)
        return
    found = answered(square_root, problem, 0)
    yield name_of(square_root), found
    rest = [each for each in asked if each not in PORTFOLIO or (each is not square_root and len(problem) < MOST)]
    several = [(name_of(each), answered(each, problem, 0)) for each in rest]
    least = min([found.peak, *(answer.peak for _, answer in several)])
    yield from (each for each in several if each[1].peak <= NEAR * least)


def others(strategy: Strategy) -> Sequence[Strategy]:
    """The strategies that are asked where one has no answer within a budget."""
    return [each for each in PORTFOLIO if each is not strategy]
