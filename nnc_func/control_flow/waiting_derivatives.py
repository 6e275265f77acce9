"""Derivatives of loops that are computed at once where no value is known yet: each is one more thing to wait for.

A body, or a graph of regions, that waits for a loop whose carries grow (see `stages`) knows neither how often it goes
nor what it keeps. So its derivative is a stage of its own. Once values are known it computes the loop again,
differentiated as any, and gives cotangents, or tangents, of known shapes. It has derivatives of the same kind in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from nnc_func.aval import Aval
from nnc_func.control_flow.row_by_row import is_row, row_by_row
from nnc_func.control_flow.tracing import Extents, aval_of, cut_off, waits
from nnc_func.graph.ops.cut_bodies import is_smooth


def run_at_once(loop: Any, args: Sequence[Any], in_rows: bool = False) -> list[Any] | None:
    """The results of a loop for which something waits, also under differentiation; None where it is computed now.

    Parameters
    ----------
    loop
        As of a `Stage`.
    in_rows
        Whether rows of a vmap are waited for, too: beneath derivatives each row is computed by itself.

    Raises
    ------
    UnboundError
        Values are not known, and nothing can wait for them.
    """
    cut = cut_off(loop, args)
    if cut is None and (waits(loop, args) or (in_rows and any(map(is_row, args)))):
        return loop.stack.autodiff.call(Waiting(loop), args)  # type: ignore[no-any-return]
    return cut


class Waiting:
    """A loop for which something waits, as Autodiff asks for a function with a rule of its own."""

    name = "a loop with dynamic=True"

    def __init__(self, loop: Any) -> None:
        self.loop = loop

    def value(self, args: Sequence[Any]) -> list[Any]:
        """The results."""
        return _listed(self.loop.run(args))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results and their tangents."""
        moving = tuple([n for n, t in enumerate(tangents) if t is not None])
        results = self._results(primals)
        smooth = tuple([n for n, aval in enumerate(results) if is_smooth(aval)])
        pushed = Derivative(self.loop, len(primals), moving, smooth, forward=True)
        found = pushed.run([*primals, *(tangents[n] for n in moving)])
        slopes = dict(zip(smooth, found[len(results) :], strict=True))
        return found[: len(results)], [slopes.get(n) for n in range(len(results))]

    def linearize(self, primals: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        """The results, and the derivative both ways."""
        wanted = tuple([n for n, x in enumerate(primals) if is_smooth(aval_of(self.loop.stack, x))])

        def pull(gs: Sequence[Any]) -> list[Any]:
            given = tuple([n for n, g in enumerate(gs) if g is not None])
            found = Derivative(self.loop, len(primals), wanted, given).run([*primals, *(gs[n] for n in given)])
            slopes = dict(zip(wanted, found, strict=True))
            return [slopes.get(n) for n in range(len(primals))]

        return self.value(primals), lambda ts: self.jvp(primals, ts)[1], pull

    def _results(self, primals: Sequence[Any]) -> list[Aval]:
        return self.loop.described([aval_of(self.loop.stack, x) for x in primals], 0)[0]  # type: ignore[no-any-return]


@frozen(eq=False)
class Derivative:
    """The derivative of a loop, computed at once: a loop itself, to what waits for it.

    Attributes
    ----------
    loop
        What is differentiated.
    count
        How many arguments that has.
    arguments, results
        Those that are differentiated, and that have a tangent or a cotangent.
    forward
        Given tangents of the arguments, the results and their tangents; else, given cotangents of the results, those of
        the arguments.
    """

    loop: Any
    count: int
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    forward: bool = False

    @property
    def stack(self) -> Any:
        """Whose operators it applies."""
        return self.loop.stack

    @property
    def names(self) -> tuple[str, ...]:
        """How messages call the results."""
        return ()

    @property
    def carries(self) -> int:
        """None: all that it gives is output."""
        return 0

    def within(self, around: Mapping[str, int]) -> Derivative:
        """It where these extents are known."""
        return evolve(self, loop=self.loop.within(around))

    def described(self, args: Sequence[Aval], number: int) -> tuple[list[Aval], Extents]:
        """Avals of its results in what waits for it, and which of them tell which new symbols."""
        if not self.forward:
            return [args[n] for n in self.arguments], {}
        avals, extents = self.loop.described(args[: self.count], number)
        return [*avals, *(avals[n] for n in self.results)], extents

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Its results, of arguments and of tangents or cotangents."""
        rows = row_by_row(self, args)
        if rows is not None:
            return rows[0]
        found = run_at_once(self, args, in_rows=True)
        return self._found(args) if found is None else found

    def computed(self, args: Sequence[Any]) -> tuple[list[Any], None]:
        """As `run`, and nothing, of values that are known."""
        return self.stack.engine.force(self._found(args)), None

    def _found(self, args: Sequence[Any]) -> list[Any]:
        primals, given, autodiff = args[: self.count], args[self.count :], self.stack.autodiff
        if self.forward:
            tangents = dict(zip(self.arguments, given, strict=True))
            values, slopes = autodiff.jvp(self._run, primals, [tangents.get(n) for n in range(self.count)])
            found = [*values, *(slopes[n] for n in self.results)]
            return [*values, *map(self._or_zeros, found[len(values) :], (values[n] for n in self.results))]

        def run(*moving: Any) -> list[Any]:
            whole = [*primals]
            for n, x in zip(self.arguments, moving, strict=True):
                whole[n] = x
            return self._run(*whole)

        values, pull = autodiff.vjp(run, [primals[n] for n in self.arguments])
        cotangents = dict(zip(self.results, given, strict=True))
        found = pull(*(cotangents.get(n) for n in range(len(values))))
        return [*map(self._or_zeros, found, (primals[n] for n in self.arguments))]

    def _run(self, *args: Any) -> list[Any]:
        return _listed(self.loop.run(args))

    def _or_zeros(self, slope: Any, like: Any) -> Any:
        return self.stack.autodiff.functions.zeros_like(like) if slope is None else slope


def _listed(found: Any) -> list[Any]:
    """The results of a loop that may tell extents besides."""
    results: list[Any] = found[0] if isinstance(found, tuple) else found
    return results
