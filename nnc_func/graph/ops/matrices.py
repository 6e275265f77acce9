"""What the operators of linear algebra share: shape and dtype rules, samples, and the algebra of their derivatives.

Cotangents are paired with tangents without conjugation: what flows back is g with ``Re(sum(g * t))``. So the formulas
for reverse mode, which are published for the pairing ``Re(sum(conj(g) * t))``, are used on the conjugate.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets import dtypes
from nnc_func.facets.dims import same_extent
from nnc_func.facets.samples import Refused, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost, CostRule

FACTORED = Tolerance(64.0)  # rounding of O(n) additions, in matrices that are well conditioned
NOT_IN_ONNX = Refused("ONNX has no decompositions, inverses or solvers")


# --- rules -------------------------------------------------------------------------------------------------


def matrix(x: ShapeT, **_: Any) -> ShapeT:
    """That of a matrix, or a stack of them.

    Raises
    ------
    ShapeError
        A rank below 2.
    """
    if len(x) < 2:
        raise ShapeError(f"wanted matrices (rank 2 or more), given shape {x}; expand_dims makes a vector a matrix")
    return x


def square(x: ShapeT, **_: Any) -> ShapeT:
    """That of a square matrix, or a stack of them.

    Raises
    ------
    ShapeError
        As many rows as columns are wanted.
    """
    if not same_extent(*matrix(x)[-2:]):
        raise ShapeError(f"wanted square matrices, given shape {x}, {x[-2]} rows and {x[-1]} columns")
    return x


def batch(x: ShapeT, **_: Any) -> ShapeT:
    """Of a number for each square matrix."""
    return square(x)[:-2]


def shorter(x: ShapeT) -> Any:
    """The smaller one of the last two extents.

    Raises
    ------
    ShapeError
        It is not known which one is.
    """
    rows, columns = matrix(x)[-2:]
    if rows == columns:
        return rows
    if isinstance(rows, int) and isinstance(columns, int):
        return min(rows, columns)
    raise ShapeError(f"it is not known whether matrices of shape {x} have more rows or more columns; give numbers")


def solvable(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    """Promotion to what linear algebra is done in: integers become float64, half precision is refused.

    Raises
    ------
    DTypeError
        The common dtype is narrower than float32.
    """
    found = dtypes.floating(*given)
    if found.itemsize < 4:
        raise DTypeError(f"linear algebra is done in float32 or wider, given {found.name}; cast it first")
    return found


def magnitudes(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    """The real dtype of what `solvable` gives."""
    found = solvable(*given)
    return np.dtype(f"float{found.itemsize * 4}") if found.kind == "c" else found


def cubic(factor: float) -> CostRule:
    """So many operations for each of m·n·min(m, n), by a library that has threads of its own."""

    def cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
        rows, columns = args[0].shape[-2:]
        return Cost(int(factor * math.prod((*args[0].shape, min(rows, columns)))), threaded=True)

    return cost


# --- samples -----------------------------------------------------------------------------------------------


def dominant(x: Any, *others: Any) -> list[Any]:
    """With ten, twenty, … added to the diagonal: of full rank, singular values and eigenvalues far from each other.

    It is so for elements between -1 and 1 and up to four rows; the Hermitian part is positive definite.
    """
    diagonal = 10 * (1 + np.arange(min(x.shape[-2:])))
    at = np.arange(len(diagonal))
    found = x.copy()
    found[..., at, at] += diagonal.astype(x.dtype)
    return [found, *others]


# --- algebra -----------------------------------------------------------------------------------------------


def transpose(o: Any, x: Any) -> Any:
    """The last two axes swapped."""
    rank = len(x.shape)
    return o.permute_dims(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def conjugate(o: Any, x: Any) -> Any:
    """Itself where it is real."""
    return o.conj(x) if o.dtype(x).kind == "c" else x


def adjoint(o: Any, x: Any) -> Any:
    """Conjugated and transposed."""
    return conjugate(o, transpose(o, x))


def real(o: Any, x: Any) -> Any:
    """The real part."""
    return o.real(x) if o.dtype(x).kind == "c" else x


def hermitian(o: Any, x: Any) -> Any:
    """The Hermitian part."""
    return o.multiply(o.add(x, adjoint(o, x)), 0.5)


def columns_by(o: Any, x: Any, factors: Any) -> Any:
    """Each column times its factor."""
    return o.multiply(x, o.expand_dims(factors, axis=-2))


def imaginary(o: Any, x: Any) -> Any:
    """``i x``, of a real x."""
    return o.multiply(x, 1j)


def within(o: Any, x: Any, relation: str) -> Any:
    """`x` where the row is ``"greater"`` than the column, ``"equal"`` to it …, and zero elsewhere."""
    return o.where(positions(o, x, relation), x, 0)


def positions(o: Any, x: Any, relation: str) -> Any:
    """Where the row stands in that relation to the column: a matrix of booleans."""
    rows, columns = (o.arange(start=0, stop=n) for n in x.shape[-2:])
    found = getattr(o, relation)(o.expand_dims(rows, axis=1), o.expand_dims(columns, axis=0))
    place = o.place(x)
    return found if place is None else o.transfer(found, place=place)


def on_diagonal(o: Any, x: Any, diagonal: Any) -> Any:
    """`x` with these elements on its diagonal, a row of them for each matrix."""
    return o.where(positions(o, x, "equal"), o.expand_dims(diagonal, axis=-2), x)


def off_diagonal(o: Any, x: Any) -> Any:
    """`x` with zeros on its diagonal."""
    return o.where(positions(o, x, "equal"), 0, x)


def diagonal_of(o: Any, x: Any) -> Any:
    """The diagonal of a square matrix."""
    return o.diagonal(x)


def quotient(o: Any, a: Any, b: Any) -> Any:
    """``a / b``, and zero where both are zero.

    Where eigenvalues coincide, so that b is zero, their vectors have no derivative: nothing flows if nothing is asked
    of them, and what does flow is not finite.
    """
    nothing = o.logical_and(o.equal(a, 0), o.equal(b, 0))
    return o.divide(a, o.where(nothing, 1, b))
