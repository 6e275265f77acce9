"""Einstein's summation, by transpositions, matrix products and sums; and the product over last axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets import dtypes
from nnc_func.facets.dims import known, product, same_extent
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.subscripts import Term, extents, order, parsed
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

SUMMED = Tolerance(64.0)  # the order of additions is the device's
EXPRESSIONS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk->ki", ((2, 3), (3, 1))),
    ("bij,bjk->bik", ((2, 2, 3), (2, 3, 2))),
    ("...ij,jk", ((2, 1, 3), (3, 2))),
    ("...i,...i->...", ((2, 1, 3), (4, 3))),
    ("ii->i", ((3, 3),)),
    ("ii", ((3, 3),)),
    ("iji->j", ((2, 3, 2),)),
    ("ij->ji", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("i,j->ij", ((2,), (3,))),
    ("i,i->", ((3,), (3,))),
    ("ij,ij->ij", ((2, 3), (1, 3))),
    ("ij,jk,kl->il", ((2, 3), (3, 2), (2, 4))),
    ("a,ab,abc->abc", ((2,), (2, 3), (2, 3, 2))),
    ("ab,cd,ef,ac,be->df", ((2, 2), (2, 3), (2, 2), (2, 2), (2, 2))),
    (",i->i", ((), (3,))),
    ("ij,jk->ik", ((2, 0), (0, 3))),
)


@composite(
    tolerance=SUMMED,
    samples=Samples(
        relation="cases",
        dtypes=(*FLOATS, "int32", "int64"),
        cases=tuple((shapes, {"subscripts": text}) for text, shapes in EXPRESSIONS),
    ),
)
def einsum(o: Ops[Any], /, *operands: Tensor, subscripts: str) -> Tensor:
    """Einstein's summation: ``einsum(a, b, subscripts="ij,jk->ik")`` is the matrix product.

    A letter names an axis; axes of one name go together, within a tensor too, and are summed unless the result has
    them. ``...`` stands for axes that are kept and broadcast, and an axis of extent 1 broadcasts as well. Without
    ``->`` the result has the letters that occur once, sorted. It is lowered to transpositions, sums and matrix
    products, in the order that NumPy's search finds to take the fewest multiplications; of two tensors it is one.
    """
    if not operands:
        raise OperatorError("einsum wants at least one tensor, given none")
    found = parsed(subscripts, tuple(len(x.shape) for x in operands))
    sizes = extents(found, tuple(tuple(x.shape) for x in operands), subscripts)
    dtype = dtypes.numeric(*map(o.dtype, operands))
    pairs = [_single(o, x, term, sizes) for x, term in zip(operands, found.terms, strict=True)]
    for step in order([term for _, term in pairs], found.result, sizes):
        taken = [pairs[i] for i in step]
        pairs = [pair for i, pair in enumerate(pairs) if i not in step]
        while len(taken) > 1:
            needed = {*found.result, *(label for _, term in (*pairs, *taken[2:]) for label in term)}
            taken[:2] = [_product(o, taken[0], taken[1], needed)]
        pairs.append(taken[0])
    return _arranged(o, *pairs[0], found.result, dtype)


def _single(o: Ops[Any], x: Any, term: Term, sizes: Any) -> tuple[Any, Term]:
    """A tensor whose axes have one label each, without those that broadcast."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            first = term.index(label)
            second = term.index(label, first + 1)
            rest = [i for i in range(len(term)) if i not in (first, second)]
            if not same_extent(x.shape[first], x.shape[second]):
                raise ShapeError(
                    f"the label {label!r} is of axes of one tensor that differ: {x.shape[first]} and {x.shape[second]}"
                )
            x = o.diagonal(o.permute_dims(x, axes=(*rest, first, second)), offset=0)
            term = (*(term[i] for i in rest), label)
    alone = [i for i, label in enumerate(term) if known(n := x.shape[i]) and n == 1 and sizes[label] != 1]
    if alone:
        x = o.squeeze(x, axis=tuple(alone))
        term = tuple(label for i, label in enumerate(term) if i not in alone)
    return x, term


def _summed(o: Ops[Any], x: Any, term: Term, kept: Any) -> tuple[Any, Term]:
    """Summed over axes whose labels nobody else needs."""
    gone = tuple(i for i, label in enumerate(term) if label not in kept)
    if not gone:
        return x, term
    return o.sum(x, axis=gone, keepdims=False), tuple(label for label in term if label in kept)


def _turned(o: Ops[Any], x: Any, term: Term, wanted: Term) -> Any:
    axes = tuple(term.index(label) for label in wanted)
    return x if axes == tuple(range(len(axes))) else o.permute_dims(x, axes=axes)


def _shaped(o: Ops[Any], x: Any, shape: Any) -> Any:
    return x if tuple(x.shape) == tuple(shape) else o.reshape(x, shape=shape)


def _product(o: Ops[Any], one: tuple[Any, Term], other: tuple[Any, Term], needed: set[str]) -> tuple[Any, Term]:
    """Two tensors multiplied, and summed over labels that both have and nobody else needs: a matrix product."""
    a, left_term = _summed(o, *one, {*needed, *other[1]})
    b, right_term = _summed(o, *other, {*needed, *left_term})
    shared = [label for label in left_term if label in right_term]
    batch = tuple(label for label in shared if label in needed)
    inner = tuple(label for label in shared if label not in needed)
    rows = tuple(label for label in left_term if label not in shared)
    columns = tuple(label for label in right_term if label not in shared)
    a = _turned(o, a, left_term, (*batch, *rows, *inner))
    b = _turned(o, b, right_term, (*batch, *inner, *columns))
    n, m = len(batch), len(batch) + len(rows)
    front, high, wide = tuple(a.shape[:n]), tuple(a.shape[n:m]), tuple(b.shape[n + len(inner) :])
    result = (*batch, *rows, *columns)
    if not inner:
        return o.multiply(_shaped(o, a, (*front, *high, *(1,) * len(wide))),
                          _shaped(o, b, (*front, *(1,) * len(high), *wide))), result  # fmt: skip
    depth = product(tuple(a.shape[m:]))
    found = o.matmul(_shaped(o, a, (*front, product(high), depth)), _shaped(o, b, (*front, depth, product(wide))))
    return _shaped(o, found, (*front, *high, *wide)), result


def _arranged(o: Ops[Any], x: Any, term: Term, result: Term, dtype: Any) -> Any:
    x, term = _summed(o, x, term, result)
    x = _turned(o, x, term, result)
    return x if o.dtype(x) == dtype else o.cast(x, dtype=dtype)


@composite(
    tolerance=SUMMED,
    samples=Samples(
        relation="cases",
        dtypes=(*FLOATS, "int32", "int64"),
        cases=((((2, 3), (4, 3)), {}), (((3,), (2, 2, 3)), {}), (((3,), (3,)), {}), (((), (2, 3)), {})),
    ),
)
def inner(o: Ops[Any], a: Tensor, b: Tensor, /) -> Tensor:
    """Sum of products over the last axes of both; with a tensor of rank 0 the product of each element."""
    if not a.shape or not b.shape:
        return o.multiply(a, b)
    rows = tuple(f"row {i}" for i in range(len(a.shape) - 1))
    columns = tuple(f"column {i}" for i in range(len(b.shape) - 1))
    return _product(o, (a, (*rows, "inner")), (b, (*columns, "inner")), {*rows, *columns})[0]
