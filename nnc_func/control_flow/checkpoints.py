"""What a loop's derivative keeps, as users say it, in the words of the operator."""

from __future__ import annotations

import re
from typing import Any

from nnc_func.errors import OperatorError
from nnc_func.graph.ops.loop_schedules import ALL, BUDGET, CARRIES, ROOT

Checkpoint = None | str | int
UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
WANTED = 'None, "full", "carries", "sqrt", a number of carries, or "budget:" and bytes, as in "budget:64MB"'
_BUDGET = re.compile(r"budget:\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")


def spelled(checkpoint: Checkpoint, most: Any) -> str:
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
        It is nothing of that kind; "full" where nothing bounds the loop.

    Examples
    --------
    >>> [spelled(each, 100) for each in (None, "full", "sqrt", 8, "budget:1.5 kB", "budget:2MiB")]
    ['', '', 'sqrt', '8', 'budget:1500', 'budget:2097152']
    """
    if checkpoint is None:
        return ALL
    if isinstance(checkpoint, str):
        if checkpoint == "full":
            if most is None:
                raise OperatorError(
                    'checkpoint="full" wants to know how many times there are at most: say max_iterations=, length= of '
                    "a number, or a number of carries"
                )
            return ALL
        if checkpoint in (CARRIES, ROOT):
            return checkpoint
        found = _BUDGET.fullmatch(checkpoint)
        if found is not None and found[2] in UNITS and (nbytes := int(float(found[1]) * UNITS[found[2]])):
            return f"{BUDGET}{nbytes}"
        if found is not None:
            raise OperatorError(f"a budget is a number of {', '.join(filter(None, UNITS))}, given {checkpoint!r}")
    elif isinstance(checkpoint, int) and not isinstance(checkpoint, bool) and checkpoint > 0:
        return str(checkpoint)
    raise OperatorError(f"checkpoint= is {WANTED}, given {checkpoint!r}")
