"""Policies: which results of a loop's body are kept for its derivative, decided application by application.

The idea, and two of the ready ones, are those of the policies of JAX's ``checkpoint``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.body import bodies_of
from nnc_func.errors import OperatorError, line_of
from nnc_func.graph.ops.bodies import is_fusible, is_reduction
from nnc_func.graph.ops.conv import conv2d, conv2d_input_gradient, conv2d_kernel_gradient
from nnc_func.graph.ops.linalg import matmul, tensordot
from nnc_func.op import Op

PRODUCTS = frozenset({matmul, tensordot, conv2d, conv2d_input_gradient, conv2d_kernel_gradient})
CARRIES = "carries"


@frozen
class Candidate:
    """An application in a loop's body, of whose results a policy says whether they are kept.

    Attributes
    ----------
    op
        The operator.
    params
        Its parameters, by name.
    operands, results
        Avals of what it reads and of what it gives, at one time: their shapes, dtypes, and bytes.
    """

    op: Op
    params: Mapping[str, Any]
    operands: tuple[Aval, ...]
    results: tuple[Aval, ...]

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.op.name


Policy = Callable[[Candidate], Any]


def nothing(made: Candidate) -> bool:
    """Keep no result: all is computed again from what is carried into each time."""
    return False


def products(made: Candidate) -> bool:
    """Keep products of matrices and convolutions, and what loops and branches give that have such."""
    operators = {made.op, *(op for body in bodies_of(made.params.items()) for op in body.operators)}
    return not PRODUCTS.isdisjoint(operators)


def costly(made: Candidate) -> bool:
    """Keep all but what is elementwise."""
    return not is_fusible(made.op) or is_reduction(made.op)


POLICIES: Mapping[str, Policy] = {CARRIES: nothing, "products": products, "costly": costly}
"""By the names that `checkpoint` gives them."""


def policy_of(checkpoint: Any) -> Policy | None:
    """The policy that a parameter `checkpoint` of a loop is or names; None: it is another way.

    Examples
    --------
    >>> policy_of("products") is products, policy_of("sqrt") is None
    (True, True)
    """
    return POLICIES.get(checkpoint) if isinstance(checkpoint, str) else checkpoint


def keeps(policy: Policy, made: Candidate) -> bool:
    """What a policy says.

    Raises
    ------
    OperatorError
        Something that is neither true nor false.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> row = Aval((3,), "float32")
    >>> keeps(costly, Candidate(OPS["sum"], {}, (row,), (Aval((), "float32"),)))
    True
    >>> keeps(lambda made: made.results[0].nbytes, Candidate(OPS["tanh"], {}, (row,), (row,)))
    Traceback (most recent call last):
    nnc_func.errors.OperatorError: a policy of checkpoint= says True or False of tanh, given 12 (the ...
    """
    found = policy(made)
    if not isinstance(found, (bool, np.bool_)):
        where = f" (the policy at {line})" if (line := line_of(policy)) else ""
        raise OperatorError(f"a policy of checkpoint= says True or False of {made.name}, given {found!r}{where}")
    return bool(found)
