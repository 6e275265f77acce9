"""Both sides of a rewrite: the part of a graph that it is about, what lies below it named by letters."""

from __future__ import annotations

from collections.abc import Iterable

from nnc_func.graph.formulas.formula import formula
from nnc_func.graph.leaves import INPUT, LEAVES, VARIABLE
from nnc_func.graph.node import Node, Value

NEAR = 4  # applications within each other that a rewrite is taken to be about
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sides(before: Value, after: Value) -> tuple[str, str]:
    """Both sides of a rewrite as formulas, what they have in common named by letters.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (), "float64")
    >>> deep = lazy.ops.exp(lazy.ops.sin(x))
    >>> sides((deep + -deep).value, (deep - deep).value)
    ('a + (-a)', 'a - a')
    """
    names = names_of([before, after])
    one, other = (str(formula(side, names, deep=NEAR + 1, grouped=True)) for side in (before, after))
    return one, other


def names_of(values: Iterable[Value]) -> dict[Node, str]:
    """Letters for the applications that all of these values are near to, the topmost; of a dropped operand itself."""
    roots = [v.node for v in values]
    common = set.intersection(*map(near, roots))
    taken = {leaf_name(n) for root in roots for n in near(root) if n.op in (INPUT, VARIABLE)}
    letters = (letter for letter in (*LETTERS, *(f"a{i}" for i in range(len(common)))) if letter not in taken)
    found: dict[Node, str] = {}
    seen: set[Node] = set()
    stack = roots[::-1]
    while stack:
        node = stack.pop()
        if node in seen or (node.op in LEAVES and not node.args):
            continue
        seen.add(node)
        if node in common and node is not roots[0] and node.args:
            found[node] = next(letters)
            continue
        stack += [a.node for a in reversed(node.args)]
        if len(seen) > len(common) + 4**NEAR:
            break
    return found


def near(node: Node) -> set[Node]:
    """A node and what lies at most `NEAR` applications below it."""
    found, edge = {node}, {node}
    for _ in range(NEAR):
        edge = {a.node for n in edge for a in n.args} - found
        found |= edge
    return found


def leaf_name(node: Node) -> str:
    """The name of an input or a variable."""
    return str(node.data if node.op is INPUT else node.data.name)
