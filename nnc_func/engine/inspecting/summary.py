"""What an array holds, in a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.facets.dtypes import kind_of


@frozen
class Summary:
    """What an array holds: of its finite elements the extremes, mean and deviation; of complex ones their magnitudes.

    Attributes
    ----------
    aval
        Shape and dtype.
    minimum, maximum, mean, deviation
        Of the finite elements, as Python numbers; None if there are none. The deviation is that of the population.
    zeros, nans, infinities
        Numbers of elements.

    Examples
    --------
    >>> summarised(np.array([0.0, 1.0, 2.0, np.nan]))
    float64[4]: 0 to 2, mean 1, deviation 0.8165, 1 zero, 1 NaN
    """

    aval: Aval
    minimum: float | None
    maximum: float | None
    mean: float | None
    deviation: float | None
    zeros: int
    nans: int
    infinities: int

    @property
    def is_finite(self) -> bool:
        """Whether all elements are."""
        return not self.nans and not self.infinities

    def __repr__(self) -> str:
        said = [] if self.mean is None else [
            f"{self.minimum:.4g} to {self.maximum:.4g}", f"mean {self.mean:.4g}", f"deviation {self.deviation:.4g}",
        ]  # fmt: skip
        for count, one, many in (
            (self.zeros, "zero", "zeros"), (self.nans, "NaN", "NaN"), (self.infinities, "infinity", "infinities"),
        ):  # fmt: skip
            if count:
                said.append(f"{count} {one if count == 1 else many}")
        return f"{self.aval!r}: {', '.join(said) or 'no elements'}"


def summarised(array: Any) -> Summary:
    """The summary of a NumPy array."""
    aval = Aval(array.shape, array.dtype)
    nans = int(np.isnan(array).sum()) if kind_of(array.dtype) in "fc" else 0
    infinities = int(np.isinf(array).sum()) if kind_of(array.dtype) in "fc" else 0
    zeros = int(array.size - np.count_nonzero(array))
    values = np.abs(array) if array.dtype.kind == "c" else array
    if nans or infinities:
        values = values[np.isfinite(values)]
    if not values.size:
        return Summary(aval, None, None, None, None, zeros, nans, infinities)
    wide = values.astype(np.float64)
    return Summary(
        aval, float(wide.min()), float(wide.max()), float(wide.mean()), float(wide.std()), zeros, nans, infinities
    )


class Statistics(list[tuple[Any, list[Summary]]]):
    """Applications in the order in which they ran, each with the summaries of its results; it prints a line a result.

    Examples
    --------
    >>> Statistics([("exp", [summarised(np.array([1.0, 2.0]))])])
    exp
      float64[2]: 1 to 2, mean 1.5, deviation 0.5
    """

    def __repr__(self) -> str:
        return "\n".join(
            "\n".join([str(application), *(f"  {each!r}" for each in summaries)]) for application, summaries in self
        )
