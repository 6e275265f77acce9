"""Operands first, those first that need most beyond what they leave.

Optimal among the depth-first orders of a tree: Liu, "On the storage requirement in the out-of-core multifrontal
method", ACM Transactions on Mathematical Software 12, 1986; for equal sizes Sethi and Ullman, "The generation of
optimal code for arithmetic expressions", JACM 17, 1970. Graphs are taken for trees: what two tasks
need counts for both.
"""

from __future__ import annotations

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.by_users import first_uses
from nnc_func.engine.orders.walks import operands_first


def sethi_ullman(problem: OrderProblem) -> list[int]:
    """Operands go by the peak of what is before them less the bytes that they leave, most first; ties by number.

    So do the tasks that no other needs. Linear, but for sorting the operands of a task.

    Examples
    --------
    A large detour first, and then what leaves more than it needs:

    >>> needs, uses = [(), (), (1,), (0, 2)], [(0,), (1,), (1, 2), (0, 2)]
    >>> sethi_ullman(OrderProblem(needs, uses, [4, 16, 4]))
    [1, 2, 0, 3]
    """
    leaves = first_uses(problem)
    kept = [sum(problem.sizes[b] for b in used if b in problem.lasting) for used in problem.uses]
    peaks = [0] * len(problem)
    needs: list[list[int]] = []

    def gain(task: int) -> tuple[int, int]:
        return leaves[task] - peaks[task], task

    for task, needed in enumerate(problem.needs):
        needs.append(sorted(needed, key=gain))
        held = peak = 0
        for one in needs[-1]:
            peak = max(peak, held + peaks[one])
            held += leaves[one]
        peaks[task] = max(peak, held + leaves[task])
        if not problem.followers[task]:
            leaves[task] = kept[task]
    return operands_first(needs, sorted(problem.sinks, key=gain))
