"""Trials beside each other: ratios and means, how sure they are, and who is how often near the best.

A performance profile (Dolan and Moré, "Benchmarking optimization software with performance profiles", 2002) says on
which share of the problems one is within so much of the best.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import asdict, evolve, field, fields, frozen, has

from nnc_func.engine.comparing.isolation import ANSWERED
from nnc_func.engine.comparing.statistics import interval, mean, paired
from nnc_func.engine.comparing.trials import FAILURES
from nnc_func.errors import PlanError

WITHIN = (1.0, 1.001, 1.01, 1.05, 1.1, 1.2, 1.5, 2.0)  # ratios of which a profile tells the shares
COUNTED = {"allocator": "buffer", "order": "task", "strategy": "task"}  # what is asked, and what a problem has of


@frozen
class Trial:
    """One answer to one problem.

    Attributes
    ----------
    problem, by
        The names of the problem, and of what was asked: an allocator, an order, a strategy.
    count
        Of the problem's buffers, or tasks.
    bound
        What no answer is below: bytes, or cost.
    unit
        What ratios are to: the bound of an arena, the peak of the depth-first order, the cost without recomputation.
    value
        Bytes of the arena or of the peak, or the cost; None where there is no answer.
    seconds
        On processors: the median of the repetitions.
    answer
        Offsets in bytes, one a buffer; or tasks in their order.
    error
        Why there is no answer.
    kind
        ``"answered"``; or why there is none: ``"refused"``, it raised a `PlanError`; ``"raised"``, any other exception;
        ``"wrong"``, the answer is none; ``"time limit"``; ``"memory"``; ``"ended"``, its process did; ``"skipped"``, it
        was not asked.
    seed
        Of what it drew; None where it does not draw.
    printed
        The end of what it printed, where it had a process of its own.
    """

    problem: str
    by: str
    count: int
    bound: float
    unit: float
    value: float | None = None
    seconds: float = math.nan
    answer: Sequence[int] = field(default=(), repr=False)
    error: str = ""
    kind: str = ANSWERED
    seed: int | None = None
    printed: str = field(default="", repr=False)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Trial:
        """The trial of a row, as `trials.rows` makes them."""
        return cls(**{a.name: row[a.name] for a in fields(cls) if a.name in row})

    @property
    def ratio(self) -> float | None:
        """Value / unit; of an arena 1 is the best there can be."""
        if self.value is None:
            return None
        return self.value / self.unit if self.unit else 1.0

    @property
    def is_optimal(self) -> bool:
        """Whether the bound proves that there is nothing better."""
        return self.value == self.bound


@frozen
class Comparison:
    """All trials, problem by problem, in the order in which they were made.

    Attributes
    ----------
    what
        What was asked: ``"allocator"``, ``"order"`` or ``"strategy"``.
    trials
        One a problem, what was asked, and seed.

    Examples
    --------
    >>> from nnc_func.engine.allocators import BestFit, NoReuse, Problem
    >>> from nnc_func.engine.comparing import compare
    >>> found = compare({"three": Problem([64, 64, 64], [0, 1, 2], [2, 3, 4])}, {"fit": BestFit(), "none": NoReuse()})
    >>> [(t.by, t.ratio, t.is_optimal) for t in found.trials]
    [('fit', 1.0, True), ('none', 1.5, False)]
    >>> found.means, found.profile()["none"][1.5]
    ({'fit': 1.0, 'none': 1.5}, 1.0)
    """

    what: str
    trials: tuple[Trial, ...]

    @property
    def problems(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(t.problem for t in self.trials))

    @property
    def asked(self) -> list[str]:
        """The names of what was asked, in order."""
        return list(dict.fromkeys(t.by for t in self.trials))

    def of(self, name: str) -> list[Trial]:
        """The trials of one that was asked."""
        return [t for t in self.trials if t.by == name]

    def best(self, problem: str) -> Trial:
        """The least value of one problem; of equal ones that of the fastest.

        Raises
        ------
        PlanError
            None had an answer.
        """
        found = [t for t in self.trials if t.problem == problem and t.value is not None]
        if not found:
            raise PlanError(f"no {self.what} has an answer for {problem!r}")
        return min(found, key=lambda t: (t.value, t.seconds))

    def ratios(self, name: str) -> dict[str, float]:
        """The ratios of one that was asked, of the problems that it has answers for: over seeds the geometric mean."""
        found: dict[str, list[float]] = {}
        for t in self.of(name):
            if t.ratio is not None:
                found.setdefault(t.problem, []).append(t.ratio)
        return {problem: mean(each) for problem, each in found.items()}

    @property
    def means(self) -> dict[str, float]:
        """The geometric mean of the ratios of each that was asked, of the problems that it has an answer for."""
        return {name: mean(self.ratios(name).values()) for name in self.asked}

    def profile(self, within: Iterable[float] = WITHIN) -> dict[str, dict[float, float]]:
        """For each that was asked the share of the problems on which it is within these ratios of the best."""
        best = {name: self.best(name).value or 1 for name in self.problems if self._has_answer(name)}
        shares, within = {}, tuple(within)
        for name in self.asked:
            found: dict[str, list[float]] = {}
            for t in self.of(name):
                if t.problem in best:
                    found.setdefault(t.problem, []).append(math.inf if t.value is None else t.value / best[t.problem])
            shares[name] = {
                w: sum(sum(r <= w for r in each) / len(each) for each in found.values()) / max(len(best), 1)
                for w in within
            }
        return shares

    def _has_answer(self, problem: str) -> bool:
        return any(t.problem == problem and t.value is not None for t in self.trials)

    def summary(self) -> list[dict[str, Any]]:
        """A row for each that was asked, the best first: ratios, proven optima, shares within 1 % of the best, speed.

        ``low`` and ``high`` are the mean's interval of confidence (95 %), None with fewer than five problems: see
        `statistics.interval`. ``failures`` are trials that raised, were wrong, or were killed.
        """
        shares, found = self.profile((1.01,)), []
        for name, ratio in self.means.items():
            trials = self.of(name)
            answers = [t for t in trials if t.value is not None]
            low, high = interval(self.ratios(name).values())
            found.append(
                {
                    self.what: name,
                    "mean_ratio": ratio,
                    "low": low,
                    "high": high,
                    "best_ratio": min((t.ratio for t in answers if t.ratio is not None), default=math.nan),
                    "worst_ratio": max((t.ratio for t in answers if t.ratio is not None), default=math.nan),
                    "proven_optimal": sum(t.is_optimal for t in answers),
                    "answers": len(answers),
                    "problems": len(trials),
                    "failures": sum(t.kind in FAILURES for t in trials),
                    "within_1_percent": shares[name][1.01],
                    f"microseconds_a_{COUNTED[self.what]}": 1e6
                    * sum(t.seconds for t in answers)
                    / max(sum(t.count for t in answers), 1),
                }
            )
        return sorted(
            found,
            key=lambda row: (row["answers"] < row["problems"], not row["answers"], row["mean_ratio"], row[self.what]),
        )

    def against(self, name: str) -> list[dict[str, Any]]:
        """Each other beside one, on the problems that both have answers for: see `statistics.paired`.

        Raises
        ------
        PlanError
            No trial is of that name.
        """
        if name not in self.asked:
            raise PlanError(f"no trial is of {name!r}; there are trials of: {', '.join(self.asked)}")
        others = {each: self.ratios(each) for each in self.asked if each != name}
        return [{self.what: row.pop("name"), **row} for row in paired(self.ratios(name), others)]

    def rows(self) -> list[dict[str, Any]]:
        """A row a trial, but for the answers: for tables and plots of one's own."""
        found = []
        for t in self.trials:
            row = asdict(t, filter=lambda a, _: a.name not in ("by", "answer"))
            found.append({"problem": t.problem, self.what: t.by, **row, "ratio": t.ratio})
        return found

    def to_json(self) -> str:
        """All of it but the answers; None for what is not a number."""
        whole = {"summary": self.summary(), "profile": self.profile(), "trials": self.rows()}
        return json.dumps(_plain(whole))


def _plain(value: Any) -> Any:
    """The same, with None for what is not a number: JSON has none."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def seeded(asked: Any, seeds: Iterable[int]) -> list[tuple[int | None, Any]]:
    """What draws, once for each seed; what does not, once.

    Examples
    --------
    >>> from nnc_func.engine.allocators import ALLOCATORS
    >>> [seed for seed, _ in seeded(ALLOCATORS["hill_climb"], (0, 1))], seeded(ALLOCATORS["best_fit"], (0, 1))
    ([0, 1], [(None, BestFit())])
    """
    if has(type(asked)) and any(a.name == "seed" for a in fields(type(asked))):
        return [(seed, evolve(asked, seed=seed)) for seed in seeds]
    return [(None, asked)]


def count(problems: Iterable[Any], asked: Mapping[str, Any], seeds: Sequence[int]) -> int:
    """How many trials a comparison makes."""
    return sum(1 for _ in problems) * sum(len(seeded(each, seeds)) for each in asked.values())
