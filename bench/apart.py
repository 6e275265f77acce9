"""Peers in processes of their own, taken in turn: no one's threads wait for work on the cores that another one has.

While one side runs the others are stopped. Between rounds all are, and for a moment it is looked how much of the cores
somebody else takes: what runs beside a benchmark takes from both sides, and not alike.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from operator import truediv
from pathlib import Path
from typing import Any

QUIET = 0.05  # of the cores, that others may take
PAUSE = 0.05  # seconds between rounds
TURN, MOST = 0.1, 50  # seconds of a turn, and calls at most
STATISTICS = Path("/proc/stat")


def serve(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter, **facts: Any) -> None:
    """In the process of a side: tell the facts, then call it as often as each line asks, and tell the seconds."""
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        taken = []
        for _ in range(int(line)):
            start = clock()
            found = call()
            taken.append(clock() - start)
            del found
        print(json.dumps(taken), flush=True)


class Side:
    """A process that serves, stopped but while it is asked.

    Parameters
    ----------
    command
        What follows the interpreter on its command line.
    threads
        Of its libraries.
    python
        The interpreter.
    """

    def __init__(self, command: Sequence[str], threads: int, python: str = sys.executable) -> None:
        asked = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        root = str(Path(__file__).resolve().parent.parent)
        asked["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [python, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **asked},
        )  # fmt: skip
        self.facts: dict[str, Any] = self._answer()
        self._pause(signal.SIGSTOP)

    def ask(self, number: int) -> list[float]:
        """Seconds of so many calls."""
        self._pause(signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        found: list[float] = self._answer()
        self._pause(signal.SIGSTOP)
        return found

    def end(self) -> None:
        """Let it end."""
        self._pause(signal.SIGCONT)
        self.process.communicate()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(map(str, self.process.args))} ended with {self.process.wait()}")
        return json.loads(line)

    def _pause(self, number: int) -> None:
        self.process.send_signal(number)


def busy_and_all() -> tuple[int, int]:
    """Ticks of all cores since the start of the system, those that were not idle and all; zeros where nobody tells."""
    try:
        ticks = [*map(int, STATISTICS.read_text(encoding="utf-8").splitlines()[0].split()[1:])]
    except OSError:
        return 0, 0
    return sum(ticks) - ticks[3], sum(ticks)


def in_turn(begin: Callable[[], Mapping[str, Side]], rounds: int, processes: int = 1) -> dict[str, Any]:
    """Milliseconds of a call of each side, the median and the fastest; ratios of the first one to each other.

    Each side is begun in so many processes, one after the other, and asked so often in each. A turn takes some 100 ms;
    its first call counts for nothing: another side has had the caches meanwhile, and threads were asleep. A ratio is
    the median of those of neighbours in time. What the last sides told is among the figures.
    """
    taken: dict[str, list[float]] = {}
    begun: list[Mapping[str, Side]] = []
    busy = total = 0
    for _ in range(processes):
        sides = begin()
        begun.append(sides)
        try:
            for side in sides.values():
                side.ask(1)
            often = {name: min(max(int(TURN / side.ask(1)[0]), 1), MOST) for name, side in sides.items()}
            for _ in range(rounds):
                for name, side in sides.items():
                    taken.setdefault(name, []).append(1e3 * statistics.median(side.ask(1 + often[name])[1:]))
                before = busy_and_all()
                time.sleep(PAUSE)
                after = busy_and_all()
                busy, total = busy + after[0] - before[0], total + after[1] - before[1]
        finally:
            for side in sides.values():
                side.end()
    first, *others = taken
    share = busy / total if total else None
    return {
        "milliseconds": {name: statistics.median(times) for name, times in taken.items()},
        "fastest milliseconds": {name: min(times) for name, times in taken.items()},
        "ratios": {name: statistics.median(map(truediv, taken[first], taken[name])) for name in others},
        "ratios of the fastest": {name: min(taken[first]) / min(taken[name]) for name in others},
        "share of others": share,
        "is quiet": share is not None and share <= QUIET,
        "facts": {name: side.facts for name, side in begun[-1].items()},
    }
