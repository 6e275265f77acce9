"""Programs looked at while they run: one step at a time, timed, in numbers, for the first NaN. They share `walk`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from nnc_func.engine.observed import Application
from nnc_func.errors import PlanError


class Steps(Iterator[Application]):
    """A run of a program, one application at a time: `next` computes one.

    Variables are written in the last steps; before the last has been asked for, closing it (`close`, the end of a
    ``with`` block, or letting it go) leaves every variable as it was.

    Attributes
    ----------
    results
        The program's outputs, nested as it returns them; None until the last step has been made.
    """

    def __init__(self, walk: Generator[Application, None, list[Any]], build: Any) -> None:
        self.results: Any = None
        self._walk = walk
        self._build = build

    def __next__(self) -> Application:
        try:
            return next(self._walk)
        except StopIteration as end:
            if end.value is not None:
                self.results = self._build(end.value)
            raise StopIteration from None

    def close(self) -> None:
        """End the run here."""
        self._walk.close()

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<steps, {'at their end' if self.results is not None else 'under way'}>"


class Inspected:
    """What every kind of program offers to those who look on while it runs."""

    def walk(self, *_: Any, **__: Any) -> Any:
        """A run whose applications are computed one at a time; each kind of program has its own."""
        raise TypeError(f"{type(self).__name__} does not say how it is walked")

    def autotune(self, *_: Any, **__: Any) -> Any:
        """The kernels of a program can be tuned where it has a plan that every call runs whole; see `Program.autotune`.

        Raises
        ------
        PlanError
            Of other kinds of programs.
        """
        raise PlanError(
            f"{self!r} is not tuned itself: tune what a lazy stack compiles of the graph, without `retain` and on a "
            "device with memory, and give the table to the engine that is to use it (engine.with_kernels)"
        )

    def nested(self, results: list[Any]) -> Any:
        """Outputs nested as a call returns them."""
        raise TypeError(f"{type(self).__name__} does not say how its outputs are nested")

    def steps(self, *inputs: Any) -> Steps:
        """Run it one application at a time, as a debugger does.

        Each step shows the operator, its operands and results (NumPy arrays; read-only views of memory that later
        steps may write over), the user's lines, the seconds it took and the bytes alive.

        Raises
        ------
        NncError
            As a call: inputs that do not fit at the first step, a kernel that fails at its own.

        Examples
        --------
        >>> import numpy as np
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> x = lazy.input("x", (2,), "float32")
        >>> steps = lazy.compile([x], lazy.ops.square(x * 2)).steps(np.float32([0, 1]))
        >>> for step in steps:
        ...     print(step.op, step.results[0])
        multiply [0. 2.]
        square [0. 4.]
        >>> steps.results
        array([0., 4.], dtype=float32)
        """
        return Steps(self.walk(inputs), self.nested)
