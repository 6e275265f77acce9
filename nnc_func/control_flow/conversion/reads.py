"""Reads of variables that may have no value, or None, in code that is left to Python: they ask for it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from nnc_func.control_flow.conversion.exits import assigned
from nnc_func.control_flow.conversion.names import COMPREHENSIONS, own, within


def compared_with_none(node: ast.Compare) -> ast.Name | None:
    """The variable of ``x is None``, or ``x is not None``; None of another comparison."""
    sides = [node.left, *node.comparators]
    names = [each for each in sides if isinstance(each, ast.Name)]
    nothing = [each for each in sides if isinstance(each, ast.Constant) and each.value is None]
    is_one = len(sides) == 2 and names and nothing and isinstance(node.ops[0], (ast.Is, ast.IsNot))
    return names[0] if is_one else None


def renamed(body: Sequence[ast.stmt], names: set[str]) -> set[str]:
    """Variables that are given, in ``y = x``, what some others have, or what those have that are."""
    found: set[str] = set()
    given = [n for n in within(body) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name)]
    while True:
        more = {
            each.id for n in given if n.value.id in names | found  # type: ignore[attr-defined]
            for each in n.targets if isinstance(each, ast.Name)
        }  # fmt: skip
        if more <= found:
            return found
        found |= more


class Asking(ast.NodeTransformer):
    """Lets code that is left to Python ask variables for their values, in functions and classes within it too.

    Parameters
    ----------
    asked
        What stands for a name that is read.
    names
        The variables.
    is_none
        What stands for ``x is None``, and ``x is not None``.
    """

    def __init__(
        self, asked: Callable[[ast.Name], Any], names: set[str], is_none: Callable[[ast.Compare, ast.Name], Any]
    ) -> None:
        self.asked, self.names, self.is_none = asked, names, is_none

    def visit_Compare(self, node: ast.Compare) -> Any:
        """``x is None``, of a variable."""
        name = compared_with_none(node)
        return self.generic_visit(node) if name is None or name.id not in self.names else self.is_none(node, name)

    def visit_Name(self, node: ast.Name) -> Any:
        """A variable."""
        return self.asked(node) if isinstance(node.ctx, ast.Load) and node.id in self.names else node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """A variable that is read first."""
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name) or node.target.id not in self.names:
            return node
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        return [assigned(node.target.id, self.asked(read), node), node]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """All that is within; names of a scope's own are none of the variables there."""
        names, mine = self.names, own(node)
        if mine & names:
            first = node.generators[0] if isinstance(node, COMPREHENSIONS) else None
            if first is not None:
                first.iter = self.visit(first.iter)
            self.names = names - mine
        super().generic_visit(node)
        self.names = names
        return node
