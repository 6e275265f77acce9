"""Cancellation: a run is told from another thread to stop, and stops before its next instruction or time of a loop."""

from __future__ import annotations

from contextvars import ContextVar

from nnc_func.errors import CancelledError
from nnc_func.override import Override

_asked: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


class Cancellation:
    """Runs inside ``with`` it look, before each instruction, whether another thread has cancelled them.

    A planned loop looks before each time of its body.
    A run that is cancelled raises `CancelledError` and leaves variables and held values as they were, even where it had
    begun to write them. Runs outside of any such block pay nothing. The block counts for the thread (or the
    asynchronous task) that entered it, for whatever runs there: programs, forced values, jitted functions, training.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,))
    >>> program = lazy.compile([x], x + 1)
    >>> cancellation = nnc.Cancellation()
    >>> cancellation.cancel("enough")  # from another thread
    >>> with cancellation:
    ...     program([1, 2])
    Traceback (most recent call last):
    ...
    nnc_func.errors.CancelledError: cancelled before add: enough
    """

    def __init__(self) -> None:
        self._why: str | None = None
        self._entered: list[Override] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether it has been cancelled."""
        return self._why is not None

    def cancel(self, why: str = "") -> None:
        """Let what runs inside end as soon as it can; what starts inside later, at once."""
        self._why = why

    def check(self, before: str) -> None:
        """Raise `CancelledError` if it has been cancelled; `before` says what was to be done next."""
        if self._why is not None:
            raise CancelledError(f"cancelled before {before}" + (f": {self._why}" if self._why else ""))

    def __enter__(self) -> Cancellation:
        own = Override(_asked, self)
        self._entered.append(own)
        try:
            own.__enter__()
        except BaseException:  # an interrupt
            self._entered.remove(own)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.pop().__exit__()

    def __repr__(self) -> str:
        return f"<cancellation{', cancelled' if self.is_cancelled else ''}>"


asked = _asked.get  # the cancellation that this thread's runs look at; None if there is none


def check_cancelled(before: str) -> None:
    """Raise `CancelledError` if what this thread does has been cancelled.

    Examples
    --------
    >>> check_cancelled("the next step")
    """
    found = _asked.get()
    if found is not None:
        found.check(before)
