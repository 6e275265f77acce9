"""Pauses: while one is open what is computed is a constant, to a recording and to what is being differentiated."""

from __future__ import annotations

from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

paused: ContextVar[tuple[Any, ...]] = ContextVar("paused", default=())
paused_here = paused.get
"""The owners of the pauses that are open in this thread, each as often as one is."""


def owner_of(autodiff: Any) -> Any:
    """Whose pauses those of a stack are: the recording of a dynamic one, which stacks may share; else its layers."""
    found = getattr(autodiff.engine, "recording", None)
    return autodiff if found is None else found


class Pause:
    """While it is open in this thread nothing is recorded there; it may be opened again, and within itself.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.dynamic()
    >>> outer, inner = stack.no_grad(), stack.no_grad()
    >>> outer.__enter__(), inner.__enter__(), outer.__exit__(), stack.engine.recording.is_on
    (None, None, None, False)
    >>> inner.__exit__(), stack.engine.recording.is_on
    (None, True)
    """

    __slots__ = ("_open", "_owner")

    def __init__(self, owner: Any) -> None:
        self._owner, self._open = owner, list[Generator[None, None, None]]()

    def __enter__(self) -> None:
        guard = _pausing(self._owner)
        next(guard)
        self._open.append(guard)

    def __exit__(self, *error: object) -> None:
        self._open.pop().close()


def _pausing(owner: Any) -> Generator[None, None, None]:
    """A pause that Python closes where nobody does, as after an interrupt that came when `__exit__` was called."""
    before = paused.get()
    within = (*before, owner)
    try:
        paused.set(within)
        yield
    finally:
        try:
            paused.set(_left(before, within, owner))
        except BaseException:  # an interrupt, which may have come first
            paused.set(_left(before, within, owner))
            raise


def _left(before: tuple[Any, ...], within: tuple[Any, ...], owner: Any) -> tuple[Any, ...]:
    """The owners of the pauses that stay open; a generator that is closed in another thread has left nothing there."""
    now = paused.get()
    if now is within or now is before:
        return before
    at = now.index(owner) if owner in now else len(now)
    return (*now[:at], *now[at + 1 :])
