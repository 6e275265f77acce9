"""Chains of matrix products, in the order that takes the fewest multiplications."""

from __future__ import annotations

from typing import Any

from nnc_func.facets.dims import known
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.pattern import Shaped
from nnc_func.graph.rules.rule import REASSOCIATION, whole_graph
from nnc_func.graph.rules.substituting import users_of

MOST = 64  # factors of a chain: the search for their order takes time with the third power

matmul = OPS["matmul"]
Factor = tuple[Value, bool]  # a matrix, and whether it is transposed
Plan = tuple[int, int]  # multiplications, and where a chain is cut


def _is_product(value: Value) -> bool:
    """A product of two matrices of known extents, in one dtype."""
    node = value.node
    return node.op is matmul and all(
        len(a.shape) == 2 and a.dtype == node.dtype and a.aval.layout is None and all(map(known, a.shape))
        for a in node.args
    )


def _factors(node: Node, inside: set[Node]) -> list[Factor]:
    """The matrices of a chain, from left to right."""
    found: list[Factor] = []
    stack: list[Factor] = [(node, False)]
    while stack:
        value, transposed = stack.pop()
        if value is node or (value.node in inside and not transposed):
            (a, b), params = value.node.args, value.node.params
            stack += [(b, params["transpose_b"]), (a, params["transpose_a"])]
        else:
            found.append((value, transposed))
    return found


def _extents(factors: list[Factor]) -> list[int]:
    """Rows of each, and the columns of the last."""
    shapes = [value.shape[::-1] if transposed else value.shape for value, transposed in factors]
    return [*(rows for rows, _ in shapes), shapes[-1][1]]


def _given(node: Node, inside: set[Node]) -> int:
    """Multiplications of the chain as it is."""
    total, stack = 0, [node]
    while stack:
        product = stack.pop()
        a = product.args[0].shape
        total += product.aval.size * a[0 if product.params["transpose_a"] else 1]
        for operand, flag in zip(product.args, ("transpose_a", "transpose_b"), strict=True):
            if operand.node in inside and not product.params[flag]:
                stack.append(operand.node)
    return int(total)


def _best(extents: list[int]) -> dict[tuple[int, int], Plan]:
    """For each run of a chain the fewest multiplications and where it is cut; Godbole, IEEE Trans. Comp. C-22, 1973."""
    count = len(extents) - 1
    found: dict[tuple[int, int], Plan] = {(i, i + 1): (0, i) for i in range(count)}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length
            found[i, j] = min(
                (found[i, k][0] + found[k, j][0] + extents[i] * extents[k] * extents[j], k) for k in range(i + 1, j)
            )
    return found


def _multiplied(factors: list[Factor], best: dict[tuple[int, int], Plan], builder: Any) -> Value:
    made: dict[tuple[int, int], Factor] = {(i, i + 1): factor for i, factor in enumerate(factors)}
    stack = [(0, len(factors))]
    while stack:
        i, j = stack[-1]
        if (i, j) in made:
            stack.pop()
            continue
        k = best[i, j][1]
        pending = [part for part in ((i, k), (k, j)) if part not in made]
        if pending:
            stack += pending
            continue
        (a, left), (b, right) = made[i, k], made[k, j]
        made[i, j] = builder.apply(matmul, (a, b), {"transpose_a": left, "transpose_b": right}), False
    return made[0, len(factors)][0]


def _three_factors() -> Any:
    return (Shaped("x", (4, 2)) @ Shaped("y", (2, 4))) @ Shaped("z", (4, 1))


def _four_factors() -> Any:
    inner = matmul(Shaped("y", (5, 2)), Shaped("z", (5, 3)), transpose_a=True)
    return Shaped("x", (4, 2)) @ (inner @ Shaped("w", (3, 1)))


@whole_graph(of=(matmul,), numerics=REASSOCIATION, fast_math=True, samples=(_three_factors, _four_factors))
def order_matrix_chain(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Matrix products that follow each other are done in the order that takes the fewest multiplications."""
    if not any(a.node.op is matmul for n in builder.seen(order).of(matmul) for a in n.args):
        return roots, 0
    users = users_of(roots, order)
    products = {n for n in order if _is_product(n)}
    inside: set[Node] = set()
    for n in products:
        for a, flag in zip(n.args, ("transpose_a", "transpose_b"), strict=True):
            if a.node in products and len(users[a]) == 1 and not n.params[flag]:
                inside.add(a.node)
    replaced: dict[Value, Value] = {}
    for node in order:
        if node in products and node not in inside:
            factors = _factors(node, inside)
            if 2 < len(factors) <= MOST:
                best = _best(_extents(factors))
                if best[0, len(factors)][0] < _given(node, inside):
                    builder.where = node.origin
                    replaced[node] = _multiplied(factors, best, builder)
    return replaced, len(replaced)
