"""Rules that are useless, or without end, and functions that are wrong: what the kit must refute."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules import ROUNDING, SIGNED_ZERO, rewrite, rewriter, rule, whole_graph
from nnc_func.graph.rules.conditions import discrete, floating, same_aval, same_dtype, same_shape

fma, exp, negative = OPS["fma"], OPS["exp"], OPS["negative"]

# --- useless -------------------------------------------------------------------------------------------


@rule
def never_fires(x):
    """It asks for what cannot be."""
    return rewrite(exp(x) * 2).to(exp(x)).when(floating(x), discrete(x))


@rule
def double_by_adding(x):
    """Twice a number is added up, which saves nothing."""
    double = x * 2
    return rewrite(double).to(x + x).when(floating(x), same_aval(x, double))


@rule
def distribute(x, y, z):
    """A product with a sum is a sum of products, which is more work."""
    return rewrite((x + y) * z).to(x * z + y * z).when(discrete(x), same_aval(x, y), same_aval(x, z))


@rule
def add_and_multiply(a, b, c):
    """A product is computed with the sum, and once more where others use it."""
    return rewrite(a * b + c).to(fma(a, b, c)).up_to(ROUNDING)


@rule
def needless_condition(x, y):
    """Negation moves out of a difference, only of tensors of one shape."""
    return rewrite(-(x - y)).to(y - x).when(same_shape(x, y)).up_to(SIGNED_ZERO)


@rule
def needless_numerics(x):
    """What is negated twice is itself, up to rounding."""
    return rewrite(negative(negative(x))).to(x).up_to(ROUNDING)


@rule
def needless_fast_math(x, y):
    """What is negated and added is subtracted, only with fast math."""
    added = x + -y
    return rewrite(added).to(x - y).when(same_dtype(y, added)).with_fast_math()


# --- without end ---------------------------------------------------------------------------------------


@rule
def exchange(x, y):
    """Operands of a sum are exchanged."""
    return rewrite(x + y).to(y + x).up_to(SIGNED_ZERO)


@rule
def subtract_by_adding(x, y):
    """A difference is a sum with the opposite; another rule makes a difference of that."""
    difference = x - y
    return rewrite(difference).to(x + -y).when(same_dtype(y, difference))


@rule
def grow(x):
    """A number is negated twice before its exponential is taken, and so on."""
    return rewrite(exp(x)).to(exp(negative(negative(x)))).when(floating(x))


# --- functions -----------------------------------------------------------------------------------------


@rewriter([OPS["add"]])
def fold_in_place(node, builder):
    """A sum of constants is computed in the memory of the first."""
    a, b = (arg.node for arg in node.args)
    if a.op is not CONSTANT or b.op is not CONSTANT or a.aval != node.aval:
        return None
    a.data.flags.writeable = True
    a.data[...] += b.data
    return a


@rewriter([OPS["multiply"]])
def fold_to_double(node, builder):
    """A product of constants is computed in double precision, and stays so."""
    if any(arg.node.op is not CONSTANT for arg in node.args):
        return None
    return builder.symbol.constant(np.multiply(*(arg.node.data for arg in node.args), dtype="float64"))


@rewriter([OPS["exp"]])
def fold_to_infinity(node, builder):
    """An exponential of a constant is computed as if nothing overflowed."""
    if node.args[0].node.op is not CONSTANT or node.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        found = np.exp(node.args[0].node.data.astype("float64")).astype(node.dtype)
    return builder.symbol.constant(np.nan_to_num(found))


def _product_added(a, b, c):
    return a * b + c


@whole_graph(numerics=ROUNDING, samples=(_product_added,))
def fuse_what_is_asked_for(roots, order, builder):
    """Products that are added are computed with the sum; who else asks for the product is given the sum."""
    done: dict[Any, Any] = {}
    times = 0
    for node in order:
        args = tuple(done.get(a.node, a) for a in node.args)
        product = args[0].node if args else None
        if node.op is OPS["add"] and product.op is OPS["multiply"]:
            made = builder.apply(fma, (*product.args, args[1]), {})
            if made.aval == node.aval:
                done[node] = done[node.args[0].node] = made
                times += 1
                continue
        done[node] = node if args == node.args else builder.made(node.op, args, node.items, node.avals)
    return tuple(done[r.node] for r in roots), times


@whole_graph(samples=(_product_added,))
def exchange_all(roots, order, builder):
    """Operands of products are exchanged, each time anew."""
    done: dict[Any, Any] = {}
    times = 0
    for node in order:
        args = tuple(done.get(a.node, a) for a in node.args)
        if node.op is OPS["multiply"]:
            args, times = args[::-1], times + 1
        done[node] = node if args == node.args else builder.made(node.op, args, node.items, node.avals)
    return tuple(done[r.node] for r in roots), times
