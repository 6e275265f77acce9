"""Trials: the kernels of one application timed in turn, on operands that are compared before they are trusted."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.engine.planning.layout_pass import Axes, conversion, order
from nnc_func.engine.running import array_views
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.facets.kernels import Kernel, private_bytes
from nnc_func.graph.ops.memory import relayout

Candidate = tuple[Kernel, tuple[Axes, ...]]  # and the orders to which it wants its operands converted

LEAST, MOST = 5, 25  # rounds
TICK = 5e-5  # seconds: what is shorter is called several times for one timing
FASTER = 0.95  # time of a kernel / time of the default one, from which it is chosen
OFTEN = 0.8  # of the rounds in which it must be faster
HOPELESS = 2.0  # times as slow in its first round: not measured any more; twice that when it is first run
SLOWER = 1.1  # times as slow after `LEAST` rounds: not measured any more


@frozen
class Trial:
    """One kernel for one group of equal applications.

    Attributes
    ----------
    application
        Operator, operands and parameters, as text.
    count
        How many such applications the program has.
    kernel
        Its name.
    seconds
        Median of its timings; NaN if it was not timed.
    ratio
        Its time / the default kernel's, round by round, their median; NaN if it was not timed.
    scratch
        Bytes of scratch, and those that it takes for itself.
    verdict
        ``"default"``, ``"chosen"``, ``"not faster"``, or why it was not timed: ``"much slower"``, ``"no time left"``,
        it failed, its results differ, it writes over its operands, it wants too much scratch.
    layouts
        The orders to which operands were converted for it, within the time given; empty: they were as they are.
    """

    application: str
    count: int
    kernel: str
    seconds: float
    ratio: float
    scratch: int
    verdict: str
    layouts: tuple[Axes, ...] = ()

    def __str__(self) -> str:
        timed = f"{self.seconds * 1e6:10.1f} us {self.ratio:7.3f}" if self.seconds == self.seconds else " " * 21
        order = f" in the orders {list(self.layouts)}" if self.layouts else ""
        return f"{timed}  {self.kernel}{order}: {self.verdict}, {self.scratch} bytes of scratch"


class _Runner:
    """A kernel with results and scratch of its own, on a group's operands, converted before if need be."""

    def __init__(self, device: Any, group: Any, kernel: Kernel, layouts: tuple[Axes, ...]) -> None:
        node = group.node
        self.kernel, self.layouts = kernel, layouts
        self.outs: tuple[Any, ...] = ()
        self._device, self._group = device, group
        self._avals = tuple(a.aval for a in node.args)
        self._results = tuple(v.aval for v in node.results)
        if layouts:
            moved = tuple(a.having(layout=axes) for a, axes in zip(self._avals, layouts, strict=True))
            laid = tuple(v.having(layout=node.op.layout(moved, v.shape, **node.params)) for v in self._results)
        else:
            moved, laid = self._avals, self._results
        self._moved, self._laid = moved, laid
        found = kernel.scratch(moved, **node.params) if kernel.scratch is not None else ()
        self._wanted = [Aval(shape, dtype, None, self._results[0].place) for shape, dtype in found]
        converted = [m for m, a in zip((*moved, *laid), (*self._avals, *self._results), strict=True) if m != a]
        private = private_bytes(kernel, moved, laid, node.params)
        self.scratch = sum(a.nbytes for a in (*self._wanted, *converted)) + private

    def bind(self) -> None:
        """Make its memory and bind the kernel to it."""
        device, node = self._device, self._group.node
        self._calls: list[tuple[Any, tuple[Any, ...]]] = []
        given = tuple(map(self._converted, self._group.operands, self._avals, self._moved))
        made = tuple(array_views.empty(device, v) for v in self._laid)
        scratch = tuple(array_views.empty(device, a) for a in self._wanted)
        call = device.writing(node.op, self.kernel, node.items, len(made), scratch)
        self._calls.append((call, (*given, *made)))
        self.outs = tuple(map(self._converted, made, self._laid, self._results))

    def _converted(self, array: Any, found: Aval, wanted: Aval) -> Any:
        """An array in the layout wanted: itself, or where a call that is part of the run copies it."""
        if found == wanted:
            return array
        items, target = conversion(order(wanted)), array_views.empty(self._device, wanted)
        kernel = self._device.choose(relayout, (found,), items)
        self._calls.append((self._device.writing(relayout, kernel, items, 1, ()), (array, target)))
        return target

    def run(self) -> None:
        """Compute it once."""
        for call, arrays in self._calls:
            call(*arrays)


def tried(
    device: Any, group: Any, kernels: Sequence[Candidate], until: float, deadline: float, workspace: int | None
) -> list[Trial]:
    """The trials of a group: the kernel that the program runs first, then the others.

    Parameters
    ----------
    until
        When to stop, as `time.perf_counter` tells it, once there are as many rounds as are needed.
    deadline
        What cannot be measured until then is not measured.
    workspace
        Bytes of scratch that another kernel may want; None for any number.
    """
    runners = [_Runner(device, group, k, layouts) for k, layouts in kernels]
    verdicts = {0: "default"}
    if time.perf_counter() + 2 * LEAST * group.seconds > deadline:
        return [_trial(group, r, (), (), verdicts.get(i, "no time left")) for i, r in enumerate(runners)]
    before = [device.to_numpy(a).copy() for a in group.operands]
    runners[0].bind()
    first = seconds(device, runners[0].run)
    able = [0]
    for i, runner in enumerate(runners[1:], start=1):
        if workspace is not None and runner.scratch > workspace:
            verdicts[i] = f"wants {runner.scratch} bytes of scratch"
            continue
        fault = _fault(device, group, before, runners[0], runner, 2 * HOPELESS * first)
        if fault:
            verdicts[i] = fault
            _restore(device, group, before)
        else:
            able.append(i)
    numbers = [max(1, int(TICK / max(group.seconds, 1e-9)))] * len(able)
    times = dict(zip(able, alternated(device, [runners[i].run for i in able], until, numbers), strict=True))
    return _judged(group, runners, verdicts, times)


def _fault(device: Any, group: Any, before: list[Any], default: _Runner, runner: _Runner, most: float) -> str:
    """Why a kernel must not be used; empty if nothing is wrong with it."""
    try:
        runner.bind()
        taken = seconds(device, runner.run)
    except Exception as error:  # whatever a kernel raises: it is not used, and it is told why
        return f"failed: {type(error).__name__}: {error}"
    for array, kept in zip(group.operands, before, strict=True):
        if device.to_numpy(array).tobytes() != kept.tobytes():
            return "writes over its operands"
    for found, wanted in zip(runner.outs, default.outs, strict=True):
        off = _ulps(group, device.to_numpy(found), device.to_numpy(wanted))
        if off > group.node.op.tolerance.ulps:
            return f"differs by {off:.3g} ulps, {group.node.op.tolerance.ulps:g} are allowed"
    slow = taken > max(most, TICK) and seconds(device, runner.run) > max(most, TICK)
    return "much slower" if slow else ""


def _restore(device: Any, group: Any, before: list[Any]) -> None:
    for array, kept in zip(group.operands, before, strict=True):
        if device.to_numpy(array).tobytes() != kept.tobytes():
            array[...] = device.asarray(kept)


def _ulps(group: Any, found: Any, wanted: Any) -> float:
    """How far two results are apart: units in the last place of the largest magnitude.

    Of sums, divided by the root of the number of their terms, as rounding errors grow (Higham and Mary, "A new
    approach to probabilistic rounding error analysis", 2019).
    """
    same = (found == wanted) | ((found != found) & (wanted != wanted))
    if same.all():
        return 0.0
    if kind_of(wanted.dtype) not in "fc" or not np.array_equal(np.isfinite(found), np.isfinite(wanted)):
        return math.inf
    finite = np.isfinite(wanted)
    if not same[~finite].all():
        return math.inf
    node = group.node
    cost = node.op.cost(tuple(a.aval for a in node.args), tuple(v.aval for v in node.results), **node.params)
    terms = max(1.0, cost.flops / max(1, sum(v.aval.size for v in node.results)) / 2)
    far, large = np.abs(found[finite] - wanted[finite]).max(), np.abs(wanted[finite]).max()
    return float(far / large / limits_of(wanted.dtype).eps / math.sqrt(terms)) if large else math.inf


# --- timing ------------------------------------------------------------------------------------------


def seconds(device: Any, call: Callable[[], Any]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    device.synchronise()
    return time.perf_counter() - start


def alternated(
    device: Any, calls: Sequence[Callable[[], Any]], until: float, numbers: Sequence[int] | None = None
) -> list[list[float]]:
    """Seconds of each call, taken in turn (A B A B …), so that a drift of the machine meets all alike.

    At most `MOST` rounds, and none after `until` but the first `LEAST`. What is hopeless in the first round, or slower
    after the first few, is left out of the others; without any left there are no more.
    """
    numbers = numbers or [1] * len(calls)
    taken: list[list[float]] = [[] for _ in calls]
    live = list(range(len(calls)))
    for done in range(MOST):
        if done >= LEAST and time.perf_counter() > until:
            break
        for i in live:
            start = time.perf_counter()
            for _ in range(numbers[i]):
                calls[i]()
            device.synchronise()
            taken[i].append((time.perf_counter() - start) / numbers[i])
        if done in (0, LEAST - 1):
            most = (HOPELESS if done == 0 else SLOWER) * statistics.median(taken[0])
            live = [i for i in live if statistics.median(taken[i]) <= most]
        if live == [0]:
            break
    return taken


def _judged(group: Any, runners: list[_Runner], verdicts: dict[int, str], times: dict[int, list[float]]) -> list[Trial]:
    """The trials, with the fastest kernel chosen if it is faster by more than noise."""
    ratios = {i: [t / d for t, d in zip(taken, times[0], strict=False)] for i, taken in times.items()}
    medians = {i: statistics.median(r) for i, r in ratios.items() if len(r) >= LEAST}
    better = [i for i, m in medians.items() if m < FASTER and sum(r < 1 for r in ratios[i]) >= OFTEN * len(ratios[i])]
    best = min(better, key=medians.__getitem__, default=0)
    if best:
        verdicts[best] = "chosen"
    return [
        _trial(group, r, times.get(i, ()), ratios.get(i, ()), verdicts.get(i, "not faster"))
        for i, r in enumerate(runners)
    ]


def _trial(group: Any, runner: _Runner, times: Sequence[float], ratios: Sequence[float], verdict: str) -> Trial:
    node = group.node
    said = ", ".join([*(repr(a.aval) for a in node.args), *(f"{k}={v!r}" for k, v in node.items)])
    return Trial(
        f"{node.op.name}({said})",
        group.count,
        runner.kernel.name,
        statistics.median(times) if times else math.nan,
        statistics.median(ratios) if ratios else math.nan,
        runner.scratch,
        verdict,
        runner.layouts,
    )
