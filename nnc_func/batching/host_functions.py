"""The batching rule of pure callbacks: one callback, which calls the function of the host for each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.batching.bodies import avals_of_rows
from nnc_func.errors import ShapeError
from nnc_func.facets.batching import Application, Same
from nnc_func.graph.ops.effects import TOKEN
from nnc_func.graph.ops.host_functions import name_of


def callback_of_batches(call: Application) -> Any:
    """The rule of `callback`: an operand without rows is the same in each, so that its cotangents are summed."""
    shapes, dtypes = call.params["shapes"], call.params["dtypes"]
    wholes = [_whole(call, n, aval) for n, aval in enumerate(avals_of_rows(call)) if n]
    function = ByRows(call.params["function"], len(wholes), len(shapes), tuple(zip(shapes, dtypes, strict=True)))
    before = call.args[0]
    if call.is_batched[0]:  # kept of each time of a loop, for its derivative: it has no elements
        before = call.o.reshape(before, shape=TOKEN.shape)
    token, *found = call.bind(
        before, *wholes, function=function, shapes=tuple([(call.size, *shape) for shape in shapes])
    )
    return (Same(token), *found)


def _whole(call: Application, position: int, aval: Any) -> Any:
    """An operand with rows."""
    o, x = call.o, call.args[position]
    if call.is_batched[position]:
        return x
    x = o.reshape(x, shape=(1, *aval.shape)) if hasattr(x, "shape") else o.full(shape=(1,), value=x, dtype=aval.dtype)
    return o.broadcast_to(x, shape=(call.size, *aval.shape))


@frozen(repr=False)
class ByRows:
    """A function of the host on batches, all of whose arguments have rows.

    Attributes
    ----------
    function
        Of one row.
    values, results
        How many arguments and results it has.
    like
        Shape and dtype of each result, of one row; nothing of a derivative, which may give None for a zero.
    """

    function: Callable[..., Any]
    values: int
    results: int
    like: tuple[tuple[Any, Any], ...] = ()

    @property
    def __name__(self) -> str:
        return f"{name_of(self.function)}, for each row,"

    @property
    def vjp(self) -> Any:
        """That of each row; None where there is none."""
        rule = getattr(self.function, "vjp", None)
        return None if rule is None else ByRows(rule, self.values + 2 * self.results, self.values)

    @property
    def jvp(self) -> Any:
        """That of each row; None where there is none."""
        rule = getattr(self.function, "jvp", None)
        return None if rule is None else ByRows(rule, 2 * self.values + self.results, self.results)

    def __repr__(self) -> str:
        return f"ByRows({self.function!r})"

    def __call__(self, *arrays: Any) -> list[Any]:
        """What the function gives for each row, one below the other.

        Raises
        ------
        ShapeError
            Rows have several results, or shapes.
        """
        rows = [_listed(self.function(*row)) for row in zip(*arrays, strict=True)]
        if not rows:
            return [np.zeros((0, *shape), dtype) for shape, dtype in self.like] or [None] * self.results
        if len({*map(len, rows)}) > 1:
            raise ShapeError(f"{self.__name__} returned {sorted({*map(len, rows)})} results for the rows of a batch")
        return [self._stacked(n, of_rows) for n, of_rows in enumerate(zip(*rows, strict=True))]

    def _stacked(self, number: int, rows: tuple[Any, ...]) -> Any:
        arrays = [None if row is None else np.asarray(row) for row in rows]
        given = [each for each in arrays if each is not None]
        if not given:
            return None
        if len({each.shape for each in given}) > 1:
            raise ShapeError(
                f"{self.__name__} returned arrays of shapes {sorted({each.shape for each in given})} as result "
                f"{number} for the rows of a batch, which are to have one shape"
            )
        return np.stack([np.zeros_like(given[0]) if each is None else each for each in arrays])


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [] if found is None else [found]
