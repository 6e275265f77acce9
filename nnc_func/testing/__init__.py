"""The public test kit: what the library tests itself with, for operators, rules, allocators and stacks of one's own.

- `strategies`: Hypothesis strategies for shapes, dtypes, arrays, avals, programs, arguments, a rule's
  graphs, sets of rules.
- `check_operator`, `check_gradients`, `check_rule`, `check_stack`: every law, on what one made oneself.
- `prove_rule`: a rule is right for all extents and elements, by the theorem prover z3 (extra ``proofs``).
- `differential`: programs on several stacks, compared; `variations` of a stack are such.

`docs/testing.md` shows each of them. It needs the extra ``testing``; nothing else in the library imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc_func.deferred import deferred

if TYPE_CHECKING:
    from nnc_func.testing import strategies
    from nnc_func.testing.agreement import differential, variations
    from nnc_func.testing.gradients import check_gradients
    from nnc_func.testing.operators import check_operator
    from nnc_func.testing.program import Program
    from nnc_func.testing.proofs.rules import prove_rule
    from nnc_func.testing.rules import check_rule
    from nnc_func.testing.stacks import check_stack
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            "Program": "nnc_func.testing.program",
            "check_gradients": "nnc_func.testing.gradients",
            "check_operator": "nnc_func.testing.operators",
            "check_rule": "nnc_func.testing.rules",
            "check_stack": "nnc_func.testing.stacks",
            "differential": "nnc_func.testing.agreement",
            "prove_rule": "nnc_func.testing.proofs.rules",
            "variations": "nnc_func.testing.agreement",
        },
    )

__all__ = [
    "Program", "check_gradients", "check_operator", "check_rule", "check_stack", "differential", "prove_rule",
    "strategies", "variations",
]  # fmt: skip
