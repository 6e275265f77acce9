"""What a loop's derivative keeps, as users say it, in the words of the operator."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nnc_func.control_flow.messages import check_body
from nnc_func.errors import OperatorError, check_hash
from nnc_func.graph.ops.loop_policies import CARRIES, POLICIES, Policy
from nnc_func.graph.ops.loop_schedules import ALL, BUDGET, ROOT

Checkpoint = None | str | int | Policy
UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
WANTED = (
    'None, "full", "sqrt", a number of carries, "budget:" and bytes, as in "budget:64MB", a policy, which is a '
    f"function of an application, or the name of one, {', '.join(map(repr, POLICIES))}"
)
_BUDGET = re.compile(r"budget:\s*(\d{1,18}(?:\.\d{1,18})?)\s*([a-zA-Z]*)")


def spelled(checkpoint: Checkpoint, most: Any) -> str | Policy:
    """The parameter `checkpoint` of `loop`.

    Parameters
    ----------
    checkpoint
        As `scan`, `foreach`, `fori` and `while_loop` take it.
    most
        How many times there are at most; None: nothing bounds it.

    Raises
    ------
    OperatorError
        It is nothing of that kind, or a policy that cannot be called with an application; "full" or a policy, but for
        "carries", where nothing bounds the loop.

    Examples
    --------
    >>> [spelled(each, 100) for each in (None, "full", "sqrt", 8, "budget:1.5 kB", "budget:2MiB")]
    ['', '', 'sqrt', '8', 'budget:1500', 'budget:2097152']
    """
    if checkpoint is None:
        return ALL
    is_policy = callable(checkpoint) or (isinstance(checkpoint, str) and checkpoint in {*POLICIES} - {CARRIES})
    if most is None and (is_policy or checkpoint == "full"):
        said = f'checkpoint="{checkpoint}"' if isinstance(checkpoint, str) else "a policy of checkpoint="
        raise OperatorError(
            f"{said} wants to know how many times there are at most: say max_iterations=, length= of a number, or a "
            "number of carries"
        )
    if callable(checkpoint):
        check_hash(checkpoint, "checkpoint=")
        check_body(checkpoint, "checkpoint=", ["made"], "the policy")
        return checkpoint
    if isinstance(checkpoint, str):
        if checkpoint == "full":
            return ALL
        if checkpoint == ROOT or checkpoint in POLICIES:
            return checkpoint
        found = _BUDGET.fullmatch(checkpoint)
        if found is not None and found[2] in UNITS and (nbytes := int(float(found[1]) * UNITS[found[2]])):
            return f"{BUDGET}{nbytes}"
        if found is not None:
            raise OperatorError(
                f"a budget is 1 byte or more, as a number of {', '.join(filter(None, UNITS))}, given {checkpoint!r}"
            )
    elif isinstance(checkpoint, (int, np.integer)) and not isinstance(checkpoint, bool) and checkpoint > 0:
        return str(int(checkpoint))
    raise OperatorError(f"checkpoint= is {WANTED}, given {checkpoint!r}")
