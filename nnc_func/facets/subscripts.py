"""Einstein's summation as data: what an expression says of each axis, and the order in which its products are taken."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import Extent, known, same_extent
from nnc_func.facets.shapes import ShapeT

Term = tuple[str, ...]  # a label for each axis: a letter, or "0", "1" … for the axes of an ellipsis
UNKNOWN = 64  # what an unknown extent counts when the order is chosen
EXACT = 5  # as many tensors whose best order is searched for; of more it is chosen step by step


@frozen
class Subscripts:
    """An expression for tensors of given ranks.

    Attributes
    ----------
    terms
        The labels of each tensor's axes.
    result
        Those of the result.

    Examples
    --------
    >>> parsed("...i, ij", (3, 2))
    Subscripts(terms=(('0', '1', 'i'), ('i', 'j')), result=('0', '1', 'j'))
    """

    terms: tuple[Term, ...]
    result: Term


def parsed(text: str, ranks: tuple[int, ...]) -> Subscripts:
    """The meaning of an expression such as ``"ij,jk->ik"``; without an arrow, labels that occur once are kept, sorted.

    Raises
    ------
    OperatorError
        It is no such expression, or for another number of tensors, or of another rank.
    """
    words = text.replace(" ", "")
    left, arrow, right = words.partition("->")
    listed = left.split(",")
    if len(listed) != len(ranks):
        raise OperatorError(f"the expression {text!r} is for {len(listed)} tensors, given {len(ranks)}")
    spans = [_span(term, rank, text) for term, rank in zip(listed, ranks, strict=True)]
    widest = max((n for n in spans if n is not None), default=None)
    terms = tuple(_labels(term, n, widest or 0) for term, n in zip(listed, spans, strict=True))
    if arrow:
        _span(right, 0, text, result=True)
        result = _labels(right, widest or 0 if "..." in right else None, widest or 0)
    else:
        every = [label for term in terms for label in term]
        once = sorted(label for label in set(every) if label.isalpha() and every.count(label) == 1)
        result = (*(str(i) for i in range(widest or 0)), *once)
    return Subscripts(terms, _checked(terms, result, text))


def _span(term: str, rank: int, text: str, result: bool = False) -> int | None:
    """How many axes the ellipsis of a term stands for; None if it has none."""
    letters = term.replace("...", "", 1)
    if not all(c.isascii() and c.isalpha() for c in letters):
        raise OperatorError(
            f"{text!r} is no expression for einsum: wanted letters, one for each axis, at most one '...' a tensor, "
            "commas between tensors and '->' before the result, as in 'bij,jk->bik'"
        )
    if result:
        return None
    span = rank - len(letters)
    if span < 0 or (span and "..." not in term):
        raise OperatorError(f"{text!r}: the term {term!r} is for a tensor of rank {len(letters)}, given one of {rank}")
    return span if "..." in term else None


def _labels(term: str, span: int | None, widest: int) -> Term:
    before, _, behind = term.partition("...")
    return (*before, *(str(i) for i in range(widest - (span or 0), widest)), *behind)


def _checked(terms: tuple[Term, ...], result: Term, text: str) -> Term:
    every = {label for term in terms for label in term}
    for label in result:
        if label not in every or result.count(label) > 1:
            why = "is in no term" if label not in every else "is there twice"
            raise OperatorError(f"{text!r}: the label {label!r} of the result {why}")
    missing = sorted(label for label in every if label.isdigit() and label not in result)
    if missing:
        raise OperatorError(f"{text!r}: axes of '...' are kept; put '...' into the result, or name them to sum them")
    return result


def extents(found: Subscripts, shapes: tuple[ShapeT, ...], text: str) -> dict[str, Extent]:
    """Of each label; an axis of extent 1 broadcasts.

    Raises
    ------
    ShapeError
        Two axes of one label have other extents.
    """
    sizes: dict[str, Extent] = {}
    for term, shape in zip(found.terms, shapes, strict=True):
        for label, n in zip(term, shape, strict=True):
            before = sizes.setdefault(label, n)
            if known(before) and before == 1:
                sizes[label] = n
            elif not (known(n) and n == 1) and not same_extent(before, n):
                raise ShapeError(f"{text!r}: the label {label!r} has extents {before} and {n}, of shapes {shapes}")
            elif known(n) and n != 1:
                sizes[label] = n
    return sizes


def order(terms: list[Term], result: Term, sizes: dict[str, Extent]) -> list[tuple[int, ...]]:
    """Which tensors are multiplied with each other, step by step, by NumPy's search, which counts multiplications.

    A step is places in a list from which tensors are taken, and at whose end their product is put.
    """
    if len(terms) < 3:
        return [tuple(range(len(terms)))] if len(terms) > 1 else []
    number = {label: i for i, label in enumerate(sizes)}
    arguments: list[Any] = []
    for term in terms:
        shape = tuple(max(n, 1) if known(n := sizes[label]) else UNKNOWN for label in term)
        arguments += [np.broadcast_to(np.float32(0), shape), [number[label] for label in term]]
    how = "optimal" if len(terms) <= EXACT else "greedy"
    path, _ = np.einsum_path(*arguments, [number[label] for label in result], optimize=(how, 2**62))
    return [tuple(step) for step in path[1:]]
