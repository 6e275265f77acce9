"""Allocators, orders, strategies and joint choices beside each other: what fails is a row, and the others go on.

It may take hours. ``allocators``, ``orders``, ``strategies`` and ``joint_choices`` ask; ``trials`` makes trials one by
one, ``isolation`` in processes of their own; ``records`` keeps rows in a file; ``comparison`` and ``statistics`` say
what they mean.
"""

from nnc_func.engine.comparing.allocators import bytes_without_reuse, compare
from nnc_func.engine.comparing.comparison import Comparison, Trial
from nnc_func.engine.comparing.joint_choices import compare_joint_choices
from nnc_func.engine.comparing.orders import compare_orders
from nnc_func.engine.comparing.records import Record
from nnc_func.engine.comparing.strategies import Budgeted, compare_strategies
from nnc_func.engine.comparing.trials import Conditions

__all__ = [
    "Budgeted", "Comparison", "Conditions", "Record", "Trial", "bytes_without_reuse", "compare",
    "compare_joint_choices", "compare_orders", "compare_strategies",
]  # fmt: skip
