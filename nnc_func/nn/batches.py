"""Batches: examples in an order that is a function of the seed and the epoch, so that training resumes where it was."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen

from nnc_func.errors import ShapeError


@frozen(eq=False)
class Batches:
    """Examples and their targets, cut into batches of one size; what does not fill a batch waits for another epoch.

    Attributes
    ----------
    x, y
        Arrays whose first axis counts examples.
    size
        Examples in a batch.
    seed
        Of the order, which is another one in each epoch.
    shuffle
        Where it is false, examples go as they stand.

    Raises
    ------
    ShapeError
        Different numbers of examples, or fewer than a batch.

    Examples
    --------
    >>> batches = Batches(np.arange(6), np.arange(6), size=2, shuffle=False)
    >>> batches.per_epoch, batches.at(4)[0]
    (3, array([2, 3]))
    """

    x: Any = field(converter=np.asarray, repr=False)
    y: Any = field(converter=np.asarray, repr=False)
    size: int
    seed: int = 0
    shuffle: bool = True
    _order: dict[int, Any] = field(init=False, factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ShapeError(f"batches want as many targets as examples, given {len(self.y)} for {len(self.x)}")
        if not 0 < self.size <= len(self.x):
            raise ShapeError(f"a batch has 1 to {len(self.x)} examples, all there are; given {self.size}")

    @property
    def per_epoch(self) -> int:
        """Number of batches in an epoch."""
        return len(self.x) // self.size

    def at(self, step: int) -> tuple[Any, Any]:
        """The batch of that step, counted from 0 over all epochs."""
        epoch, i = divmod(step, self.per_epoch)
        if epoch not in self._order:
            self._order.clear()
            self._order[epoch] = self._permutation(epoch)
        chosen = self._order[epoch][i * self.size : (i + 1) * self.size]
        return self.x[chosen], self.y[chosen]

    def _permutation(self, epoch: int) -> Any:
        count = len(self.x)
        if not self.shuffle:
            return np.arange(count)
        # words of the generator, sorted: NumPy keeps these bits for good, those of its permutation it does not
        words = np.random.Philox(key=[self.seed % 2**64, epoch]).random_raw(count)
        return np.argsort(words, kind="stable")
