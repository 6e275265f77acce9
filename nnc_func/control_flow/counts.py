"""Numbers of elements that a body tells: what has so many waits for them, as for a loop whose carries grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.autodiff.traced import Traced
from nnc_func.aval import Aval
from nnc_func.facets.dims import Dim


@frozen(eq=False)
class Count:
    """A stage of a body that computes a number, which is the extent of its one result.

    Attributes
    ----------
    stack
        Whose tensor the number is.
    depth
        How many functions are being traced, one within the other.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> Count(stack, 1).run([stack.carrier(stack.asarray(3))])[0].shape
    (3,)
    """

    stack: Any
    depth: int

    def described(self, args: Sequence[Aval], number: int) -> tuple[list[Aval], dict[str, tuple[int, int]]]:
        """As of a `GrowingLoop`."""
        name = f"count{self.depth}@{number}"
        return [Aval((Dim.named(name),), "bool")], {name: (0, 0)}

    def within(self, around: Mapping[str, int]) -> Count:
        """It where these extents are known."""
        return self

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Its result, of a number that is known."""
        (carrier,) = args
        while type(carrier) is Traced:
            carrier = carrier.primal
        engine = self.stack.engine
        count = int(engine.device.to_numpy(engine.force([carrier])[0]))
        return [self.stack.carrier(self.stack.asarray(np.zeros(count, bool)))]
