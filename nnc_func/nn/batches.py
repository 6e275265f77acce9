"""Batches: examples in an order that is a function of the seed and the epoch, so that training resumes where it was."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen

from nnc_func.errors import ShapeError
from nnc_func.tree import flatten, mapped


def _arrays(given: Any) -> Any:
    several = isinstance(given, dict) or (isinstance(given, tuple) and all(isinstance(a, np.ndarray) for a in given))
    try:
        return mapped(np.asarray, given) if several and given else np.asarray(given)
    except ValueError:
        raise ShapeError("examples are an array, or a list whose rows have one length") from None


@frozen(eq=False)
class Batches:
    """Examples and their targets, cut into batches of one size; what does not fill a batch waits for another epoch.

    Attributes
    ----------
    x, y
        Arrays whose first axis counts examples; or a dict, or a tuple, of arrays where a model has several inputs.
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

    x: Any = field(converter=_arrays, repr=False)
    y: Any = field(converter=_arrays, repr=False)
    size: int
    seed: int = 0
    shuffle: bool = True
    _order: dict[int, Any] = field(init=False, factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        counts = [len(each) for each in flatten((self.x, self.y))[0]]
        if len({*counts}) != 1:
            told = f"{counts[-1]} for {counts[0]}" if len(counts) == 2 else f"arrays of {counts}"
            raise ShapeError(f"batches want as many targets as examples, given {told}")
        if not 0 < self.size <= counts[0]:
            raise ShapeError(f"a batch has 1 to {counts[0]} examples, all there are; given {self.size}")

    @property
    def per_epoch(self) -> int:
        """Number of batches in an epoch."""
        return self._count // self.size

    @property
    def _count(self) -> int:
        return len(flatten(self.x)[0][0])

    def at(self, step: int) -> tuple[Any, Any]:
        """The batch of that step, counted from 0 over all epochs."""
        epoch, i = divmod(step, self.per_epoch)
        if epoch not in self._order:
            self._order.clear()
            self._order[epoch] = self._permutation(epoch)
        chosen = self._order[epoch][i * self.size : (i + 1) * self.size]
        x, y = mapped(lambda each: each[chosen], (self.x, self.y))
        return x, y

    def _permutation(self, epoch: int) -> Any:
        count = self._count
        if not self.shuffle:
            return np.arange(count)
        # words of the generator, sorted: NumPy keeps these bits for good, those of its permutation it does not
        words = np.random.Philox(key=[self.seed % 2**64, epoch]).random_raw(count)
        return np.argsort(words, kind="stable")
