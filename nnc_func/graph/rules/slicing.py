"""Rules of slices that go towards inputs, past borders and matrix products: what nobody looks at is not computed."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.facets.dims import known
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import PROFIT, that, used_once
from nnc_func.graph.rules.pattern import Param, computed
from nnc_func.graph.rules.rule import ROUNDING, rewrite, rule

pad, slice_, matmul = OPS["pad"], OPS["slice"], OPS["matmul"]
Bounds = tuple[tuple[Any, ...], ...]  # starts, stops, steps


def _smaller(x: Any, than: Any) -> bool:
    return known(x.aval.size) and known(than.aval.size) and bool(x.aval.size < than.aval.size)


# --- of what has borders -------------------------------------------------------------------------------


def _within(a: Any, b: Any, c: Any, w: Any, x: Any) -> list[tuple[int, int, int, int]] | None:
    """Of each axis the elements of x that a slice shows, and the widths of its borders; None where it shows none."""
    found = []
    for start, stop, step, (before, after), n in zip(a, b, c, w, x.shape, strict=True):
        if not all(map(known, (start, stop, step, before, after, n))) or step != 1:
            return None
        low, high = max(start - before, 0), min(stop - before, n)
        if low >= high:
            return None
        found.append((low, high, low + before - start, stop - before - high))
    return found


def _shows_elements(a: Any, b: Any, c: Any, w: Any, x: Any) -> bool:
    return _within(a, b, c, w, x) is not None


@computed
def _shown(a, b, c, w, x, which):
    """Starts or stops of the elements of a tensor with borders that a slice shows."""
    return tuple(each[which] for each in _within(a, b, c, w, x) or ())


@computed
def _around(a, b, c, w, x):
    """The widths of the borders that a slice shows."""
    return tuple(each[2:] for each in _within(a, b, c, w, x) or ())


@rule
def slice_before_pad(x, w: Param, v: Param, a: Param, b: Param, c: Param):
    """Of a tensor that is sliced after borders were put around it, only what is shown gets borders."""
    padded = pad(x, widths=w, value=v)
    shown = slice_(padded, starts=a, stops=b, steps=c)
    inner = slice_(x, starts=_shown(a, b, c, w, x, 0), stops=_shown(a, b, c, w, x, 1), steps=c)
    return (
        rewrite(shown)
        .to(pad(inner, widths=_around(a, b, c, w, x), value=v))
        .when(
            that(_shows_elements, a, b, c, w, x, says=f"{shown} shows elements of {x}, in their order"),
            that(_smaller, shown, padded, says=f"{shown} has fewer elements", kind=PROFIT),
            used_once(padded),
        )
    )


# --- of matrix products --------------------------------------------------------------------------------


def _bounds(a: Any, b: Any, c: Any, own: Any, flag: bool, product: Any, left: bool) -> Bounds:
    """The slice of an operand that a slice of the product is made of: of the axes that the product has from it."""
    lead = len(product.shape) - len(own.shape)
    free = -1 if left == flag else -2  # the operand's axis that the product has
    found = []
    for i, n in enumerate(own.shape[:-2], lead):
        found.append((a[i], b[i], c[i]) if n == product.shape[i] else (0, n, 1))
    for axis in (-2, -1):
        at = -2 if left else -1
        found.append((a[at], b[at], c[at]) if axis == free else (0, own.shape[axis], 1))
    return tuple(zip(*found, strict=True))


@computed
def _of_left(a, b, c, x, flag, product, which):
    """Starts, stops or steps of the slice of a left operand that a slice of the product is made of."""
    return _bounds(a, b, c, x, flag, product, True)[which]


@computed
def _of_right(a, b, c, y, flag, product, which):
    """Starts, stops or steps of the slice of a right operand that a slice of the product is made of."""
    return _bounds(a, b, c, y, flag, product, False)[which]


def _sliced(bounds: Any, a: Any, b: Any, c: Any, own: Any, flag: Any, product: Any) -> Any:
    starts, stops, steps = (bounds(a, b, c, own, flag, product, which) for which in range(3))
    return slice_(own, starts=starts, stops=stops, steps=steps)


@rule
def slice_before_product(x, y, f: Param, g: Param, a: Param, b: Param, c: Param):
    """Of a matrix product of which only a slice is used, only the slice is computed."""
    product = matmul(x, y, transpose_a=f, transpose_b=g)
    shown = slice_(product, starts=a, stops=b, steps=c)
    left, right = _sliced(_of_left, a, b, c, x, f, product), _sliced(_of_right, a, b, c, y, g, product)
    return (
        rewrite(shown)
        .to(matmul(left, right, transpose_a=f, transpose_b=g))
        .when(that(_smaller, shown, product, says=f"{shown} has fewer elements", kind=PROFIT), used_once(product))
        .up_to(ROUNDING)
    )
