"""Sessions: what is called. Inputs in, outputs out, nested as they were given; variables are written at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nnc_func.config import config
from nnc_func.engine.inspecting.inspection import Inspected
from nnc_func.engine.running.cancelling import asked
from nnc_func.engine.running.checking_observers import observers
from nnc_func.engine.running.observers import Observer, drained
from nnc_func.graph.reader_writer_lock import Run, enter, leave


class Session(Inspected):
    """Base of programs over an executable: what they have in common, whatever runs them.

    A subclass runs in the plain way (`_run`), and one application at a time (`walk`).

    Attributes
    ----------
    graph, source
        The graph that runs, and the one that was compiled.
    stats
        What the compilation did.
    """

    stats: Any
    _check: bool  # of numerics
    _turns: Sequence[Any]  # of variables; see `reader_writer_lock.ordered`

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        return self.nested(self.run(inputs, out))

    def run(self, inputs: Any, out: Any = None) -> list[Any]:
        """The outputs as a flat list, of the inputs as a sequence."""
        if self._check or config.spec >= 3 or asked() is not None:
            return drained(self.walk(inputs, out))  # type: ignore[no-any-return]
        return self._run(inputs, out)

    def _run(self, inputs: Any, out: Any) -> list[Any]:
        """A run with nobody looking on."""
        raise TypeError(f"{type(self).__name__} does not say how it is run")

    def _observers(self, watching: Sequence[Observer]) -> list[Observer]:
        """Those who look on, and those that the settings ask for."""
        return [*watching, *observers(self._device, self._check, asked())]

    @contextmanager
    def _in_turn(self, turns: Sequence[Any]) -> Iterator[None]:
        """While it is open, variables are this run's."""
        me = Run()
        try:
            enter(me, turns)
            yield
        finally:
            leave(me, turns)
