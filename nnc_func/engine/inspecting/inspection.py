"""Programs looked at while they run: one step at a time, timed, in numbers, for the first NaN. They share `walk`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nnc_func.engine.running.observers import Application, Observer
from nnc_func.engine.running.outs import kept
from nnc_func.errors import OperatorError, PlanError
from nnc_func.graph.unpickled import Unpickled

if TYPE_CHECKING:  # what few ask for is imported when it is asked for
    from nnc_func.engine.inspecting.nonfinite import NonFinite
    from nnc_func.engine.inspecting.profile import Profile
    from nnc_func.engine.inspecting.summary import Statistics


class Whole(Observer):
    """Lets loops run whole."""

    looks_within = False


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


class Inspected(Unpickled):
    """What every kind of program offers to those who look on while it runs."""

    kept_by: ClassVar[str] = "program.save(path) keeps it, and nnc.load_program(path) reads it"
    written_as: ClassVar[str | None] = None  # in files; None: it is not written
    graph: Any
    source: Any
    _device: Any

    @property
    def name(self) -> str:
        """That of its graph."""
        return str(self.graph.name)

    @property
    def device(self) -> Any:
        """Where it runs."""
        return self._device

    def leaf_arrays(self, inputs: Any) -> dict[str, Any]:
        """Inputs, variables and constants as NumPy arrays, by what one calls them."""
        host = self.device.to_numpy
        found = {f"input {n.data!r}": np.asarray(a) for n, a in zip(self.graph.inputs, inputs, strict=False)}
        found |= {f"variable {n.data.name!r}": host(n.data.array) for n in self.graph.variables}
        return found | {f"constant {i}": host(n.data) for i, n in enumerate(self.graph.constants)}

    def walk(
        self,
        inputs: Any,
        out: Any = None,
        watching: Sequence[Observer] = (),
        keep: bool = True,
        wait: Any = None,
    ) -> Generator[Application, None, list[Any]]:
        """A run whose applications are computed one at a time, each when the next is asked for; it returns the outputs.

        Parameters
        ----------
        inputs, out
            As of `run`.
        watching
            Observers, beside those that the settings ask for.
        keep
            False: variables are put back at the end too.
        wait
            Called after each kernel: what waits for the device, where kernels are timed.
        """
        raise TypeError(f"{type(self).__name__} does not say how it is walked")

    def nested(self, results: list[Any]) -> Any:
        """Outputs nested as a call returns them."""
        return self.source.structure.build(results)

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

    def save(self, path: Any) -> None:
        """Write it to a file, from which `nnc_func.load_program` reads it; see `files.saving.save`."""
        from nnc_func.engine.files.saving import save

        save(self, path)

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

    def profile(self, *inputs: Any, repeat: int = 10) -> Profile:
        """Seconds, bytes and FLOPs of each instruction: medians over `repeat` runs, after one that is not counted.

        Loops are instructions; what they compute, time after time, is of one more run: `Profile.within`.

        Variables and inputs are as before afterwards. Kernels are timed one by one, waiting for the device after each.

        Raises
        ------
        OperatorError
            `repeat` is less than one.

        Examples
        --------
        >>> import numpy as np
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> x = lazy.input("x", (100, 100), "float32")
        >>> profile = lazy.compile([x], (x @ x).sum()).profile(np.eye(100, dtype="float32"))
        >>> [(i.name, i.flops, i.nbytes) for i in profile.instructions]
        [('matmul', 2000000, 120000), ('sum', 10000, 40004)]
        """
        if repeat < 1:
            raise OperatorError(f"profile wants repeat to be 1 or more, given {repeat}")
        runs = []
        for _ in range(repeat + 1):
            start = perf_counter()
            walk = self.walk(kept(inputs), watching=[Whole()], keep=False, wait=self.device.synchronise)
            runs.append((start, list(walk)))
        start = perf_counter()
        within = list(self.walk(kept(inputs), keep=False, wait=self.device.synchronise))
        from nnc_func.engine.inspecting.profile import profiled

        return profiled(self.name, self.device, runs[1:], (start, [each for each in within if each.depth]))

    def _with_elements(self) -> None:
        """Raise DeviceError where the device has none, so that there is nothing to look at."""
        self.device.to_numpy(self.device.empty((), np.float32))

    def statistics(self, *inputs: Any) -> Statistics:
        """What each result holds, in the order of the run; it prints itself. Variables and inputs are as before.

        Examples
        --------
        >>> import numpy as np
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> x = lazy.input("x", (3,), "float64")
        >>> for application, summaries in lazy.compile([x], lazy.ops.log(x)).statistics(np.array([0.0, 1.0, 1.0])):
        ...     print(application.op, summaries)
        log [float64[3]: 0 to 0, mean 0, deviation 0, 2 zeros, 1 infinity]
        """
        from nnc_func.engine.inspecting.summary import Statistics, summarised

        self._with_elements()
        return Statistics((step, [summarised(a) for a in step.results]) for step in self.walk(kept(inputs), keep=False))

    def first_nonfinite(self, *inputs: Any) -> NonFinite | None:
        """The first application that gives a NaN or an infinity, what it was given, and the user's line; else None.

        Inputs, variables and constants that hold one already are said. Variables and inputs are as before afterwards.

        Examples
        --------
        >>> import numpy as np
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> x = lazy.input("x", (2,), "float64")
        >>> found = lazy.compile([x], lazy.ops.sum(lazy.ops.log(x - 1))).first_nonfinite(np.array([1.0, 3.0]))
        >>> found.name, found.operands
        ('log', (float64[2]: 0 to 2, mean 1, deviation 1, 1 zero,))
        """
        from nnc_func.engine.inspecting.nonfinite import first_nonfinite

        self._with_elements()
        return first_nonfinite(
            lambda watching: self.walk(kept(inputs), watching=watching, keep=False),
            self.leaf_arrays(inputs),
            self.device,
        )
