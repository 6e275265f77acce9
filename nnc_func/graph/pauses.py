"""Pauses: while one is open what is computed is a constant, to a recording and to what is being differentiated."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import ContextVar
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, ParamSpec, TypeVar

from nnc_func.errors import DerivativeError
from nnc_func.override import assign

P = ParamSpec("P")
R = TypeVar("R")
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
        next(self._open.pop(), None)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, during whose calls it is open: a decorator.

        Raises
        ------
        DerivativeError
            What the function gives is computed later: it is a generator or a coroutine.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.dynamic()
        >>> @stack.no_grad()
        ... def square(x):
        ...     return x * x
        >>> square(stack.variable("x", 3.0)), stack.live.nodes
        (Tensor(float64[], 9.), 0)
        """
        if isgeneratorfunction(function) or iscoroutinefunction(function) or isasyncgenfunction(function):
            raise DerivativeError(
                f"no_grad as a decorator of {function.__qualname__}, which computes after the call has ended; write "
                "`with stack.no_grad():` within it"
            )

        @wraps(function)
        def paused_function(*args: P.args, **kwargs: P.kwargs) -> R:
            with Pause(self._owner):
                return function(*args, **kwargs)

        return paused_function


def _pausing(owner: Any) -> Generator[None, None, None]:
    """A pause that Python closes where nobody does, as after an interrupt that came when `__exit__` was called."""
    before = paused.get()
    within = (*before, owner)
    try:
        assign(paused, within)
        yield
        assign(paused, _left(before, within, owner))
    except GeneratorExit:
        assign(paused, _left(before, within, owner))
    except BaseException:  # an interrupt; at once, since another one may come with it
        paused.set(before)
        raise


def _left(before: tuple[Any, ...], within: tuple[Any, ...], owner: Any) -> tuple[Any, ...]:
    """The owners of the pauses that stay open; a generator that is closed in another thread has left nothing there."""
    now = paused.get()
    if now is within or now is before:
        return before
    at = now.index(owner) if owner in now else len(now)
    return (*now[:at], *now[at + 1 :])
