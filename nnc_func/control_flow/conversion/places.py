"""Where in its file the code that conversion adds stands: at the line of what it stands for."""

from __future__ import annotations

import ast
from typing import Any, TypeVar

T = TypeVar("T", bound=ast.AST)


def placed(made: T, at: ast.AST) -> T:
    """A node that stands where another does, as do all in it that stand nowhere yet.

    What has a place is whole: the parser made it, or this function. So it is not gone through again, as
    `ast.fix_missing_locations` does, of which the time grows with the square of the depth of blocks.

    Examples
    --------
    >>> call = ast.parse("f(x)").body[0].value
    >>> ast.increment_lineno(call, 6).lineno
    7
    >>> made = placed(ast.UnaryOp(ast.Not(), ast.Call(ast.Name("g", ast.Load()), [call.args[0]], [])), call)
    >>> made.operand.func.lineno, made.operand.func.end_col_offset
    (7, 4)
    """
    ast.copy_location(made, at)
    for each in ast.iter_child_nodes(made):
        _fill(each, made)
    return made


def _fill(node: Any, around: Any) -> None:
    """Give a node the place of what is around it, unless it has one."""
    if "lineno" in node._attributes:
        if hasattr(node, "lineno") and node.end_lineno is not None:
            return
        ast.copy_location(node, around)
        around = node
    for each in ast.iter_child_nodes(node):
        _fill(each, around)
