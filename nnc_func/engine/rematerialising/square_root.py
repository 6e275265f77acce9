"""Segments: of a forward part only what crosses between its segments is kept; each is run again when it is turned back.

With √n segments n equal layers take the memory of about 2√n, for at most one more forward run. T. Chen, B. Xu, C. Zhang
and C. Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import isqrt

from nnc_func.engine.rematerialising.problem import RematerialisationProblem, best
from nnc_func.engine.rematerialising.replay import Replay

STEPS = 1 << 17  # tasks of the segmentations that are looked at, about


def square_root(problem: RematerialisationProblem, budget: int) -> Sequence[int]:
    """The cheapest of the segmentations that fits, of √n segments and of fewer and more. n log n for n tasks.

    Segments make about as many bytes of tape each. Of equally good ones the one with the fewest segments is taken.

    Examples
    --------
    Sixteen layers and their derivatives, each of which reads a layer's result:

    >>> from nnc_func.engine.rematerialising.generators import chain
    >>> from nnc_func.engine.rematerialising.problem import simulated
    >>> problem = chain(16)
    >>> problem.base
    <schedule: peak 16, 32 tasks run, 0 of them again, cost 15>
    >>> simulated(problem, square_root(problem, 0))
    <schedule: peak 8, 40 tasks run, 8 of them again, cost 23>
    """
    tape = Tape(problem)
    return best(problem, budget, (tape.segmented(count) for count in _counts(problem)))


def _counts(problem: RematerialisationProblem) -> Iterator[int]:
    """Numbers of segments that are tried: all up to 2√n, then every power of √2; of large problems fewer."""
    last = 2 * isqrt(problem.turn + 1) + 1
    stride = 1 + last * len(problem) // STEPS
    yield from range(2, last + 1, stride)
    step = float(last)
    while (step := step * (2**0.5 if stride == 1 else 2)) < problem.turn:
        yield int(step)


class Tape:
    """What a problem's forward part makes that is read behind it.

    Parameters
    ----------
    problem
        Of whose tasks up to `turn` segments are made.
    """

    def __init__(self, problem: RematerialisationProblem) -> None:
        self.problem, turn = problem, problem.turn
        self.reach = [max((u for u in users if u <= turn), default=t) for t, users in enumerate(problem.users)]
        later = [bool(users) and users[-1] > turn for users in problem.users[: turn + 1]]
        self.made = list(accumulate(s * t for s, t in zip(problem.sizes, later, strict=False)))

    def segmented(self, count: int) -> list[int]:
        """The sequence with so many segments.

        Examples
        --------
        >>> from nnc_func.engine.rematerialising.generators import layers
        >>> Tape(layers(6)).segmented(2)
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 9, 10, 11]
        """
        made, reach, turn = self.made, self.reach, self.problem.turn
        run, part, ended = Replay(self.problem), 0, -1
        for task in range(len(self.problem)):
            run.bring(task)
            if task < turn and made[-1] and made[task] * count >= (part + 1) * made[-1]:
                part = made[task] * count // made[-1]
                run.drop([t for t in run.alive if ended < t and reach[t] <= task])
                ended = task
        return run.sequence
