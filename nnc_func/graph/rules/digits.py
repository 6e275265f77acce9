"""Whether a number that a rule makes of two constants has all its digits: what is subnormal has lost some, or all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import Condition, that
from nnc_func.op import Op


def keeps_digits(op: Op, of: tuple[Any, ...], d: Any, result: Any) -> Condition:
    """No product, or quotient, of elements of some constants and another is subnormal in a dtype, unless one is zero.

    Of constants whose elements are not on the host nothing is known, and it holds; integers have all digits.

    Parameters
    ----------
    op
        `divide`, or else the product.
    of, d
        Patterns of constants: the first factors, or dividends, and by what.
    result
        The pattern of the result, whose dtype counts.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.rules.pattern import Tensor
    >>> c, d, product = (Tensor(name) for name in ("c", "d", "product"))
    >>> condition = keeps_digits(OPS["multiply"], (c,), d, product)
    >>> condition
    c times d has all its digits
    >>> small = nnc.lazy().symbol.constant(np.float32(1e-30))
    >>> condition.holds({c: small, d: small, product: small})
    False
    """
    is_quotient = op is OPS["divide"]

    def holds(*values: Any) -> bool:
        *ones, other, result = values
        found, by = [_magnitudes(c) for c in ones], _magnitudes(other)
        if by is None or None in found or kind_of(result.dtype) not in "fc":
            return True
        tiny = float(limits_of(result.dtype).tiny)
        return all(bool((c[0] / by[1] if is_quotient else c[0] * by[0]) >= tiny) for c in found if c is not None)

    says = f"{' and '.join(map(str, of))} {'over' if is_quotient else 'times'} {d} has all its digits"
    return that(holds, *of, d, result, says=says)


def _magnitudes(value: Any) -> tuple[Any, Any] | None:
    """The least and the largest magnitude of what is not zero in a constant; None if it is not on the host."""
    node = value.node
    found = node.params["value"] if node.op is not CONSTANT else node.table.literals.get(node, node.data)
    if not isinstance(found, (np.ndarray, int, float, complex)):
        return None
    sizes = np.abs(np.asarray(found)).astype(float)
    sizes = sizes[sizes > 0]
    return np.float64(sizes.min(initial=math.inf)), np.float64(sizes.max(initial=0.0))
