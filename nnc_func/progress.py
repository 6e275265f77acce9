"""How far a long work has come: tqdm's bar where that is installed, a line a second on standard error otherwise."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time


class Silent:
    """No line."""

    def tell(self, done: int, text: str) -> None:
        """Say nothing."""

    def close(self) -> None:
        """End."""


class EverySecond(Silent):
    """A line a second on standard error, and one at the end."""

    def __init__(self, count: int | None, unit: str, delay: float) -> None:
        self._count = count
        self._unit = unit
        self._delay = delay
        self._start = self._last = time.perf_counter()

    def tell(self, done: int, text: str) -> None:
        """How it goes, if a second has passed or it is the end."""
        now = time.perf_counter()
        is_due = now - self._last >= 1.0 or done == self._count
        if is_due and now - self._start >= self._delay:
            self._last = now
            of = f"/{self._count}" if self._count else ""
            speed = done / (now - self._start)
            print(f"{self._unit} {done}{of}  {text}  {speed:.1f} {self._unit}s/s", file=sys.stderr, flush=True)


class Bar(Silent):
    """A tqdm bar."""

    def __init__(self, count: int | None, unit: str, delay: float) -> None:
        self._bar = importlib.import_module("tqdm").tqdm(total=count, unit=unit, delay=delay)
        self._done = 0

    def tell(self, done: int, text: str) -> None:
        """Move it."""
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(done - self._done)
        self._done = done

    def close(self) -> None:
        """Leave the last line."""
        self._bar.close()


def progress(count: int | None, unit: str, delay: float = 0.0) -> Silent:
    """What tells how far a work has come.

    Parameters
    ----------
    count
        How many units it has; None where that is not known.
    unit
        What they are called.
    delay
        Seconds before which nothing is shown.

    Examples
    --------
    >>> line = progress(2, "step", delay=60.0)
    >>> line.tell(1, "loss 0.5")
    >>> line.close()
    """
    kind = Bar if importlib.util.find_spec("tqdm") is not None else EverySecond
    return kind(count, unit, delay)
