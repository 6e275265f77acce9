"""The sequence of operators that is under way in a thread: what came from outside, and what it has promised."""

from __future__ import annotations

from contextvars import Context, copy_context
from sys import getrefcount
from typing import Any
from weakref import ref

from nnc_func.engine.dynamic.records import Recorded
from nnc_func.engine.dynamic.replay.places import Place
from nnc_func.graph.tensors.promise import Promise, promise


class Sequence:
    """What was applied since the last one ended.

    Attributes
    ----------
    follower
        Whose it is.
    place
        Where in the tree of what has occurred it is.
    is_deferred
        Whether it is known so far: nothing of it was computed, and values from outside are held.
    inputs
        Values from outside, in the order in which they were first used. Empty once it is computed.
    promises
        Of each result, while they are not kept.
    values
        Of results, by number, while they are handed out.
    context
        The context variables of when something was first promised: who looks may be tracing a function.
    numbers
        Of values from outside, by identity: with a weak reference, since a value that is gone may have left its
        identity to another.
    """

    __slots__ = (
        "__weakref__", "context", "follower", "inputs", "is_deferred", "numbers", "place", "promises", "values",
    )  # fmt: skip

    def __init__(self, follower: Any, root: Place) -> None:
        self.follower, self.place = follower, root
        self.is_deferred = True
        self.inputs: list[Any] = []
        self.promises: list[Promise] = []
        self.numbers: dict[int, tuple[int, Any]] = {}
        self.context: Context | None = None
        self.values: dict[int, Any] = {}

    def promise(self, promise: Promise) -> None:
        """Note what is promised."""
        if not self.promises:
            self.context = copy_context()
        self.promises.append(promise)

    def inspect(self, promise: Promise) -> None:
        """See to it that a promise is kept, since a user looks at it: the sequence ends."""
        self.follower.inspect(self, promise)

    def add(self, values: list[Any]) -> None:
        """Number values from outside that are used for the first time."""
        first = self.place.inputs
        for n, value in enumerate(values):
            self.numbers[id(value)] = (-1 - first - n, ref(value))
        if self.is_deferred:
            self.inputs += values

    def held(self) -> bytes:
        """For each result 1 where a tensor has its promise."""
        return bytes(_shared(self.promises))

    def above(self) -> bytes:
        """For each value from outside 1 where it takes gradients and others hold it, or what it was made of."""
        pairs = zip(self.inputs, _shared(self.inputs), strict=True)
        return bytes([type(x) is Recorded and (shared or x.record.reaching > 0) for x, shared in pairs])

    def hand_out(self) -> None:
        """Keep promises with the values that there are."""
        values = self.values
        for each in self.promises if values else ():
            if each.index in values and not hasattr(each, "value"):
                each.value = values[each.index]
        self.values = {}

    def settle(self) -> None:
        """Let go of what was held until it was computed."""
        self.promises = []
        self.is_deferred = False
        self.inputs = []

    def mend(self) -> None:
        """Be where the place is, after a step that was interrupted; what it gave and nobody was given, nobody holds."""
        place = self.place
        self.context = self.context or copy_context()
        if self.is_deferred:
            known = {each.index: each for each in self.promises}
            avals = [aval for each in place.path() for aval in each.avals]
            self.promises = [known.get(n) or promise(self, n, aval) for n, aval in enumerate(avals)]
        else:
            self.promises = []
        self.inputs = self.inputs[: place.inputs]
        self.numbers = {at: known for at, known in self.numbers.items() if known[0] >= -place.inputs}


def _shared(values: list[Any]) -> list[bool]:
    """For each whether others than the list refer to it, by how many refer to one of which this is known."""
    (alone,) = map(getrefcount, [object()])
    return [count > alone for count in map(getrefcount, values)]
