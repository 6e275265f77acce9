"""Fusion of attention: two products with a softmax between them, some rows of the scores at a time."""

from __future__ import annotations

from typing import Any

from nnc_func.facets.dims import known
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops.attention_fused import attention_blockwise
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.losses import softmax
from nnc_func.graph.ops.matmul_fused import matmul_blockwise
from nnc_func.graph.origin import merged
from nnc_func.graph.rules.pattern import Shaped
from nnc_func.graph.rules.rule import ROUNDING, whole_graph
from nnc_func.graph.rules.substituting import now

AT_ONCE = 8  # heads whose scores stay in the cache together, where nothing is gained


def _large(scores: Any, cache: int) -> bool:
    """Whether a head's scores are too many to stay in a cache of so many bytes."""
    *_, queries, keys = scores.shape
    return all(map(known, scores.shape)) and queries * keys * scores.dtype.itemsize * AT_ONCE >= cache


def _parts(node: Node, uses: dict[Node, int], builder: Any) -> tuple[Node, Node] | None:
    """The softmax and the scores that only this product leads to, if it is attention that is worth it."""
    if node.op is not matmul or node.params["transpose_a"] or node.params["transpose_b"]:
        return None
    weights = node.args[0].node
    if weights.op is not softmax or uses[weights] != 1 or weights.aval.layout is not None:
        return None
    scores = weights.args[0].node
    if scores.op not in (matmul, matmul_blockwise) or uses[scores] != 1 or scores.params["transpose_a"]:
        return None
    along = normalise_axis(weights.params["axis"], weights.aval.ndim) == weights.aval.ndim - 1
    if not along or weights.aval != scores.aval or not _large(scores.aval, builder.machine.cache):
        return None
    q, k, *others = (a.aval for a in scores.args)
    items = attention_blockwise.canonical(_params(scores))
    avals = (q, k, node.args[1].aval, *others)
    return (weights, scores) if builder.fuses(attention_blockwise, avals, items) else None


def _params(scores: Node) -> dict[str, Any]:
    return {"body": scores.params.get("body"), "transpose_k": scores.params["transpose_b"]}


def _attention() -> Any:
    scores = Shaped("q", (256, 2)) @ Shaped("k", (2, 256))
    return softmax(scores, axis=-1) @ Shaped("v", (256, 1))


@whole_graph(
    of=(softmax,), numerics=ROUNDING, samples=(_attention,)
)  # products of some rows are rounded otherwise than those of all
def fuse_attention(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Products with softmaxes of products, which nothing else uses, never have all scores in memory."""
    if not builder.may_fuse(attention_blockwise):
        return roots, 0
    uses: dict[Node, int] = {}
    for value in (*roots, *(a for n in order for a in n.args)):
        uses[value.node] = uses.get(value.node, 0) + 1
    found = {
        node: parts for node in builder.seen(order).of(matmul) if (parts := _parts(node, uses, builder)) is not None
    }
    inside = {each for parts in found.values() for each in parts}
    done: dict[Node, Node] = {}
    for node in order if found else ():
        builder.where = node.origin
        if node in found:
            done[node] = _fused(node, *found[node], done, builder)
        elif node not in inside:
            args = tuple(now(done, a) for a in node.args)
            done[node] = node if args == node.args else builder.made(node.op, args, node.items, node.avals)
    return (tuple(now(done, r) for r in roots) if found else roots), len(found)


def _fused(node: Node, weights: Node, scores: Node, done: dict[Node, Node], builder: Any) -> Node:
    builder.where = merged(each.origin for each in (scores, weights, node))
    q, k, *others = scores.args
    args = tuple(now(done, a) for a in (q, k, node.args[1], *others))
    items = attention_blockwise.canonical(_params(scores))
    made: Node = builder.made(attention_blockwise, args, items, node.avals)
    return made
