"""Domains: whether an operator takes whatever elements its operands have, or raises for some when it is computed.

An index out of range is an element that is not taken, and so is a singular matrix; NaN is not, as something is given of
it. What is asked before it is known whether anybody wants it (a branch of rows, of which none may take it) is left out
where it would raise.
"""

from __future__ import annotations

from typing import Any


def everything(*dtypes: Any, **params: Any) -> bool:
    """It takes all elements.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> OPS["divide"].takes_all is everything, OPS["take"].takes_all is everything
    (True, False)
    """
    return True


def something(*dtypes: Any, **params: Any) -> bool:
    """There are elements for which it raises.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> OPS["inv"].takes_all(np.dtype("float32"))
    False
    """
    return False


def unless_checked(*dtypes: Any, checked: bool, **params: Any) -> bool:
    """It takes all, but where it is told to look.

    Examples
    --------
    >>> import numpy as np
    >>> unless_checked(np.dtype("int64"), checked=False, depth=3), unless_checked(np.dtype("int64"), checked=True)
    (True, False)
    """
    return not checked


def unless_integers(*dtypes: Any, **params: Any) -> bool:
    """It takes all elements of floating and of complex operands: integers have no negative powers among them.

    Examples
    --------
    >>> import numpy as np
    >>> unless_integers(np.dtype("float32"), np.dtype("int64")), unless_integers(np.dtype("int8"), np.dtype("int8"))
    (True, False)
    """
    return any(dtype.kind not in "biu" for dtype in dtypes)
