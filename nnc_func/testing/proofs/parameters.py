"""What the parameters of operators may be, in a proof: a few are listed, of extents and bounds there are unknowns.

A `Domain` gives options, each a function of the source of unknowns and of the operands: on each path one is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from nnc_func.errors import ShapeError
from nnc_func.testing.proofs.paths import Untranslatable
from nnc_func.testing.proofs.tensors import Symbol

Domain = Callable[["Unknowns", Sequence[Any]], Any]
STEPS = (1, -1, 2, -2, 3)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DISCRETE = ("bool", *INTEGERS)


class Unknowns(Protocol):
    """Where a scenario takes unknown numbers and choices from.

    Attributes
    ----------
    ranks
        Those of leaves and of shapes that are parameters.
    coupled
        What of a rule asks of dtypes and of shapes at once.
    """

    ranks: Sequence[int]
    coupled: list[str]

    def dtype(self) -> Any:
        """A dtype."""
        ...

    def symbol(self, name: str, dtype: Any) -> Any:
        """A number of that dtype."""
        ...

    def choose(self, options: Sequence[Any]) -> Any:
        """One of them."""
        ...

    def fresh(self, name: str, least: int | None = 0) -> Any:
        """A whole number."""
        ...


def parameter(op: Any, name: str, unknowns: Unknowns, args: Sequence[Any]) -> Any:
    """A value of a parameter, beside these operands.

    Raises
    ------
    Untranslatable
        Nobody has said what it may be.
    """
    domain = DOMAINS.get((op.name, name)) or DOMAINS.get(("", name))
    if domain is None:
        raise Untranslatable(f"nothing says what the parameter {name} of {op.name} may be")
    return domain(unknowns, args)


def _rank(args: Sequence[Any]) -> int:
    return len(args[0].shape) if args else 0


def _orders(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    rank = _rank(args)
    back = [tuple(a - rank for a in range(rank)[::-1])] if rank else []
    return unknowns.choose([None, *itertools.permutations(range(rank)), *back])


def _subsets(rank: int) -> list[tuple[int, ...]]:
    return [s for count in range(rank + 1) for s in itertools.combinations(range(rank), count)]


def _axes(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    rank = _rank(args)
    return unknowns.choose([None, *_subsets(rank), *range(-rank, 0)])


def _axis(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    rank = _rank(args)
    if not rank:
        raise ShapeError("a tensor of rank 0 has no axis")
    return unknowns.choose(range(-rank, rank))


def _unit_axes(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    return unknowns.choose([*_subsets(_rank(args)), *range(-_rank(args), 0)])


def _new_axes(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    rank = _rank(args)
    room = max(unknowns.ranks) - rank
    many = [s for count in range(room + 1) for s in itertools.combinations(range(rank + count), count)]
    return unknowns.choose([*many, *(range(-rank - 1, 0) if room else ())])


def _extents(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    return tuple(unknowns.fresh("s") for _ in range(unknowns.choose(unknowns.ranks)))


def _extents_or_rest(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    """Extents, of which of up to two the last may be -1: whatever is left."""
    found = _extents(unknowns, args)
    rest = 1 <= len(found) <= 2 and unknowns.choose([False, True])
    return (*found[:-1], -1) if rest else found


def _wider(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    ranks = [r for r in unknowns.ranks if r >= _rank(args)]
    return tuple(unknowns.fresh("s") for _ in range(unknowns.choose(ranks)))


def _bounds(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    return tuple(unknowns.fresh("b", None) for _ in range(_rank(args)))


def _steps(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    """Each combination along up to two axes, beyond them one step for all."""
    rank = _rank(args)
    options: Iterable[Any] = itertools.product(STEPS, repeat=rank) if rank <= 2 else ((s,) * rank for s in STEPS)
    return unknowns.choose(list(options))


def _widths(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    return tuple((unknowns.fresh("w"), unknowns.fresh("w")) for _ in range(_rank(args)))


def _dtype(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    return unknowns.dtype()


def _number(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    """A number of the operand's dtype, or, of what is made of nothing, of one dtype."""
    dtype = args[0].dtype if args else _dtype(unknowns, args)
    return unknowns.symbol("v", dtype)


def _bound(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    return unknowns.choose([None, _number(unknowns, args)])


def _flag(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    return unknowns.choose([False, True])


def _layout(unknowns: Unknowns, args: Sequence[Any]) -> Any:
    return unknowns.choose([*itertools.permutations(range(_rank(args))), "row-major"])


SEVERAL_AXES = ("flip", "sum", "mean", "prod", "any", "all", "max", "min", "logsumexp")
DOMAINS: dict[tuple[str, str], Domain] = {
    ("permute_dims", "axes"): _orders,
    ("expand_dims", "axis"): _new_axes,
    ("squeeze", "axis"): _unit_axes,
    ("concat", "axis"): _axis,
    ("softmax", "axis"): _axis,
    ("log_softmax", "axis"): _axis,
    **{(name, "axis"): _axes for name in SEVERAL_AXES},
    ("", "axis"): _axis,
    ("", "keepdims"): _flag,
    ("reshape", "shape"): _extents_or_rest,
    ("full", "shape"): _extents,
    ("broadcast_to", "shape"): _wider,
    ("tile", "repetitions"): _extents,
    ("slice", "starts"): _bounds,
    ("slice", "stops"): _bounds,
    ("slice", "steps"): _steps,
    ("pad", "widths"): _widths,
    ("pad", "value"): _number,
    ("full", "value"): _number,
    ("clip", "min"): _bound,
    ("clip", "max"): _bound,
    ("", "dtype"): _dtype,
    ("", "transpose_a"): _flag,
    ("", "transpose_b"): _flag,
    ("relayout", "layout"): _layout,
    ("relayout", "data_format"): lambda unknowns, args: unknowns.choose(["NHWC", "NCHW"]),
    ("transfer", "place"): lambda unknowns, args: unknowns.choose([None, "one", "two"]),
}


__all__ = ["DISCRETE", "DOMAINS", "INTEGERS", "STEPS", "Domain", "Symbol", "Unknowns", "parameter"]
