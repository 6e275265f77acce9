"""Pauses: while one is open what is computed is a constant, to a recording and to what is being differentiated."""

from __future__ import annotations

from contextlib import suppress
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

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        paused.set((*paused.get(), self._owner))

    def __exit__(self, *error: object) -> None:
        left = [*paused.get()]
        with suppress(ValueError):  # a generator that is closed in another thread has left nothing open there
            left.remove(self._owner)
        paused.set(tuple(left))
