"""Rules of chains: constants gather at their ends, where they are computed."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from nnc_func.facets.laws import Law
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import alike, no_larger, real, used_once
from nnc_func.graph.rules.digits import keeps_digits
from nnc_func.graph.rules.pattern import Apply, Constant, Tensor, folded, parts
from nnc_func.graph.rules.rule import (
    EXACT,
    OWN,
    REASSOCIATION,
    ROUNDING,
    SIGNED_ZERO,
    Each,
    Numerics,
    for_each,
    rewrite,
    rule,
)
from nnc_func.op import Op

add, subtract, multiply = OPS["add"], OPS["subtract"], OPS["multiply"]
EXTREMA = frozenset((OPS["maximum"], OPS["minimum"]))


@rule
def add_to_itself(x):
    """What is added to itself is doubled, which the next constant factor takes in."""
    return rewrite(x + x).to(x * 2).when(real(x))


# --- two constants -------------------------------------------------------------------------------------

Side = Callable[..., Any]
Chain = tuple[Side, Side, Law]

SHIFTS: tuple[tuple[Side, Side], ...] = (
    (lambda x, c, d: (x + c) - d, lambda x, c, d: x + folded(c - d)),
    (lambda x, c, d: (x - c) + d, lambda x, c, d: x + folded(d - c)),
    (lambda x, c, d: (x - c) - d, lambda x, c, d: x - folded(c + d)),
    (lambda x, c, d: (c - x) + d, lambda x, c, d: folded(c + d) - x),
    (lambda x, c, d: (c - x) - d, lambda x, c, d: folded(c - d) - x),
    (lambda x, c, d: d - (x + c), lambda x, c, d: folded(d - c) - x),
    (lambda x, c, d: d - (x - c), lambda x, c, d: folded(d + c) - x),
    (lambda x, c, d: d - (c - x), lambda x, c, d: x + folded(d - c)),
)


DISTANT_SHIFTS: tuple[tuple[Side, Side], ...] = (
    (lambda x, y, c, d: (x + c) + (y - d), lambda x, y, c, d: (x + y) + folded(c - d)),
    (lambda x, y, c, d: (x - c) + (y - d), lambda x, y, c, d: (x + y) - folded(c + d)),
    (lambda x, y, c, d: (x + c) - (y + d), lambda x, y, c, d: (x - y) + folded(c - d)),
    (lambda x, y, c, d: (x - c) - (y - d), lambda x, y, c, d: (x - y) + folded(d - c)),
    (lambda x, y, c, d: (x + c) - (y - d), lambda x, y, c, d: (x - y) + folded(c + d)),
    (lambda x, y, c, d: (x - c) - (y + d), lambda x, y, c, d: (x - y) - folded(c + d)),
)


def _chains(op: Op) -> Iterator[tuple[Each, Chain]]:
    """Chains of one associative operator."""
    law = op.has("associative")
    if law is not None:
        yield Each(op), (lambda x, c, d: op(op(x, c), d), lambda x, c, d: op(x, folded(op(c, d))), law)


def _rounded_chains(op: Op) -> Iterator[tuple[Each, Chain]]:
    return ((each, chain) for each, chain in _chains(op) if chain[2].nearly)


@cache
def _by_operator(shifts: tuple[tuple[Side, Side], ...], names: str) -> dict[Op, list[tuple[Side, Side]]]:
    """Both sides of shifts of variables of these names, by the operator that the left one applies last."""
    found: dict[Op, list[tuple[Side, Side]]] = {}
    for before, after in shifts:
        found.setdefault(before(*map(Tensor, names)).op, []).append((before, after))
    return found


def _shifts(op: Op) -> Iterator[tuple[Each, Chain]]:
    """Chains of additions and subtractions."""
    law = add.has("associative")
    for before, after in _by_operator(SHIFTS, "xcd").get(op, ()):
        if law is not None:
            yield Each(op), (before, after, law)


def _gathered(chain: Chain, kinds: str, *of: Any) -> rewrite:
    before, after, _ = chain
    applied = before(*of)
    inner = [part for part in parts(applied) if isinstance(part, Apply) and part is not applied]
    branches = [no_larger(applied, part) for part in inner] if all(p in inner for p in applied.args) else []
    return rewrite(applied).to(after(*of)).when(alike(*of, kinds=kinds), *map(used_once, inner), *branches)


def _ordered(op: Op) -> Numerics:
    return SIGNED_ZERO if op in EXTREMA else EXACT  # of 0.0 and -0.0 either may be the larger


def _regrouped(op: Op) -> Numerics:
    return ROUNDING if op is multiply else REASSOCIATION


@for_each(_chains, "makes chains", at=OWN)
def gather_constants(f, chain, x, c: Constant, d: Constant):
    """Two constants in a chain are one, of integers that wrap around and of what rounds nothing."""
    return _gathered(chain, chain[2].kinds, x, c, d).up_to(_ordered(f.op))


@for_each(_rounded_chains, "makes chains, and rounds", at=OWN)
def gather_constants_finite(f, chain, x, c: Constant, d: Constant):
    """Two constants in a chain are one, which rounds otherwise."""
    digits = [keeps_digits(f.op, (c,), d, c)] if f.op is multiply else []
    made = _gathered(chain, chain[2].nearly, x, c, d).when(*digits)
    return made.up_to(_regrouped(f.op)).with_fast_math()


@for_each(_shifts, "adds or subtracts", at=OWN)
def gather_shifts(f, chain, x, c: Constant, d: Constant):
    """Two constants that are added and subtracted one after the other are one, of integers that wrap around."""
    return _gathered(chain, chain[2].kinds, x, c, d)


@for_each(_shifts, "adds or subtracts", at=OWN)
def gather_shifts_finite(f, chain, x, c: Constant, d: Constant):
    """Two constants that are added and subtracted one after the other are one, which rounds otherwise."""
    return _gathered(chain, chain[2].nearly, x, c, d).up_to(REASSOCIATION)


# --- two constants among variables ---------------------------------------------------------------------


def _branches(op: Op) -> Iterator[tuple[Each, Chain]]:
    """Two constants on two branches, or with a variable between them."""
    law = op.has("associative")
    if law is None:
        return

    def after(x: Any, y: Any, c: Any, d: Any) -> Any:
        return op(op(x, y), folded(op(c, d)))

    yield Each(op), (lambda x, y, c, d: op(op(x, c), op(y, d)), after, law)
    yield Each(op), (lambda x, y, c, d: op(op(op(x, c), y), d), after, law)


def _rounded_branches(op: Op) -> Iterator[tuple[Each, Chain]]:
    """Not of products: what two constants scale apart may vanish, or overflow, without them."""
    return ((each, chain) for each, chain in _branches(op) if chain[2].nearly and op is not multiply)


@for_each(_branches, "is associative", at=OWN)
def gather_distant_constants(f, chain, x, y, c: Constant, d: Constant):
    """Two constants on two branches, or apart in one, are one, of integers and of what rounds nothing."""
    return _gathered(chain, chain[2].kinds, x, y, c, d).up_to(_ordered(f.op))


@for_each(_rounded_branches, "is associative, and rounds", at=OWN)
def gather_distant_constants_finite(f, chain, x, y, c: Constant, d: Constant):
    """Two constants on two branches, or apart in one, are one, which rounds otherwise."""
    return _gathered(chain, chain[2].nearly, x, y, c, d).up_to(REASSOCIATION)


def _shifted_branches(op: Op) -> Iterator[tuple[Each, Chain]]:
    """Constants added to, and taken from, two branches of a sum or a difference."""
    law = add.has("associative")
    for before, after in _by_operator(DISTANT_SHIFTS, "xycd").get(op, ()):
        if law is not None:
            yield Each(op), (before, after, law)


@for_each(_shifted_branches, "adds or subtracts", at=OWN)
def gather_distant_shifts_finite(f, chain, x, y, c: Constant, d: Constant):
    """Two constants added to, and taken from, the branches of a sum or a difference are one, which rounds otherwise."""
    return _gathered(chain, chain[2].nearly, x, y, c, d).up_to(REASSOCIATION)
