"""Replay: it stands before a stack's own way from operators to results, and has each thread's followed.

A thread's operators are a sequence, from one look at a value to the next. Sequences that occur are remembered as a
tree of places. Where one has occurred often enough its operators are no longer computed one by one: each gives a
promise of its results, whose shapes and dtypes are known. The sequence is computed

- when somebody looks at a promise: an *inspection*, by which it ends;
- when what comes is not known: a *divergence*, from which on operators are computed at once until it ends;
- when it begins anew: gradients were asked for, and an operator comes, from a line, that was before these.

Then it is as if all had been computed when it was applied: what is held has its value, what gradients may flow through
is recorded. A program computes just that where the same was held as often before.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from attrs import frozen

from nnc_func.body import is_pure
from nnc_func.engine.dynamic.quick import mentions
from nnc_func.engine.dynamic.replay.follower import UNKNOWN, Follower
from nnc_func.engine.dynamic.replay.places import Gradients
from nnc_func.errors import NncError
from nnc_func.graph.leaves import are_places
from nnc_func.graph.origin import innermost
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.locks import forkable_lock
from nnc_func.op import Op


@frozen
class Replays:
    """What a dynamic stack has replayed, in numbers.

    Attributes
    ----------
    operators
        Those that were not computed when they were applied; gradients of values count as one.
    prefixes, eager
        Sequences of them that were computed by a program, and one operator after another.
    divergences
        How often something came that was not known.
    programs
        That were compiled.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.dynamic(replay_after=2)
    >>> x = stack.asarray([1.0, 2.0])
    >>> for _ in range(9):
    ...     y = stack.ops.tanh(x * x).numpy()
    >>> stack.replays
    Replays(operators=14, prefixes=6, eager=1, divergences=0, programs=1)
    """

    operators: int
    prefixes: int
    eager: int
    divergences: int
    programs: int


class Replay:
    """How a stack replays.

    Parameters
    ----------
    stack, below
        The stack, and its own `bind`.
    after
        How often a sequence occurs before it is promised, and before it is compiled.
    gradients
        ``gradients(stack, ys, xs, cotangents, into)`` at once.
    pulled
        ``pulled(stack, ys, xs)``: how they flow, see `nnc_func.autodiff.values.pulled`.
    """

    def __init__(self, stack: Any, below: Any, after: int, gradients: Any, pulled: Any) -> None:
        self.stack, self.after, self.recording = stack, after, stack.engine.recording
        self._below, self._gradients, self._pulled = below, gradients, pulled
        self._counts = dict.fromkeys(("operators", "prefixes", "eager", "divergences", "programs"), 0)
        self._counting = forkable_lock()
        self._here = _Followers(lambda: Follower(self))

    def count(self, name: str, more: int = 1) -> None:
        """Count what happened."""
        with self._counting:
            self._counts[name] += more

    @property
    def replays(self) -> Replays:
        """What there was so far."""
        return Replays(**self._counts.copy())  # made without the lock: a finaliser may come in, and count

    def flush(self) -> None:
        """Have computed what this thread was promised."""
        self._here.mine.end()

    def bind(self, op: Op, *args: Any, **params: Any) -> Any:
        """As `Stack.bind`: promised if it is known, else at once."""
        stack = self.stack
        own = stack._array_type
        if own is None:
            stack._learn_array_type()
            own = stack._array_type
        if own is None or not op.pure or are_places() or (op.holds_body and not is_pure(op, params.items())):
            return self._below(op, *args, **params)
        items: Any = ()
        if params:
            if op.is_sized and mentions(params):
                return self._below(op, *args, **params)
            try:
                items = op.canonical(params)
            except NncError:
                return self._below(op, *args, **params)
        mine, site = self._here.mine, innermost()
        found = mine.usual(op, args, items, site)
        if found is not None:
            return found
        found = mine.step(op, args, params, items, site, own)
        return self._below(op, *args, **params) if found is UNKNOWN else found

    def gradients(self, ys: Any, xs: Any, cotangents: Any, into: Any) -> Any:
        """As `Stack.gradients`."""
        stack = self.stack
        own = stack._array_type
        both = isinstance(ys, (list, tuple)) and isinstance(xs, (list, tuple))
        plain = both and cotangents is None and into is None and own is not None and not are_places()
        if plain and all(type(each) is Tensor for each in (*ys, *xs)):  # what else is refused is refused at once
            found = self._here.mine.step(Gradients(len(ys)), (*ys, *xs), {}, (), innermost(), own)
            if found is not UNKNOWN:
                return found
        return self._gradients(stack, ys, xs, cotangents, into)

    def at_once(self, op: Any, args: list[Any], params: Any) -> Any:
        """An operator, or gradients, of tensors that have their values."""
        if type(op) is Gradients:
            return self._gradients(self.stack, args[: op.ys], args[op.ys :])
        return self._below(op, *args, **params)

    def flow(self, op: Gradients, args: list[Any]) -> Any:
        """How gradients flow, and the values that it is about."""
        return self._pulled(self.stack, args[: op.ys], args[op.ys :])


class _Followers(threading.local):
    """Of each thread its own."""

    def __init__(self, make: Callable[[], Follower]) -> None:
        self.mine = make()
        self._last = _Last(self.mine)


class _Last:
    """Goes with its thread, which keeps what it has promised: promises that nobody holds were a cycle else."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._process = os.getpid()

    def __del__(self) -> None:
        if not sys.is_finalizing() and os.getpid() == self._process:  # a fork drops it before locks are free
            self._follower.leave()
