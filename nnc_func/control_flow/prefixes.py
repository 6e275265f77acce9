"""Prefixes by any function that associates: `associative_scan`, in a number of turns that grows as the logarithm.

The turns are those of G. Blelloch, "Prefix Sums and Their Applications" (CMU-CS-90-190, 1990): neighbours are combined,
the prefixes of these pairs are what stands at odd places, and each even place is the one before it and its own element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnc_func.control_flow.branches import cond
from nnc_func.control_flow.carries import Carry
from nnc_func.control_flow.messages import check_body, whose
from nnc_func.control_flow.scanning import scan
from nnc_func.control_flow.slices import Slices, back
from nnc_func.control_flow.tracing import TracedBody, aval_of, traced
from nnc_func.facets.dims import known
from nnc_func.graph.tensors.tensor import Tensor

UNORDERED = (
    "the function of associative_scan, which is applied to pairs that have no order, and to many of them at once"
)


def associative_scan(
    stack: Any, fn: Callable[[Any, Any], Any], elems: Any, *, reverse: bool = False, axis: int = 0
) -> Any:
    """What a function that associates makes of the first one, two, three … elements along an axis.

    What it gives is what ``scan(lambda c, x: (fn(c, x), fn(c, x)), elems[0], elems[1:])`` stacks after ``elems[0]``, up
    to rounding. A known extent n takes 2n applications of `fn` at most, all those of a turn at once, in 2·log₂ n turns;
    a symbolic one takes a loop, one element after the other.

    Parameters
    ----------
    fn
        ``fn(a, b)`` of two elements, which are slices without the axis, or trees of them, returns another one: of the
        same structure, shapes and dtypes. ``fn(fn(a, b), c)`` is ``fn(a, fn(b, c))``; it need not commute.
    elems
        A tensor, or a tree of them, along whose axis elements lie.
    reverse
        From the last element to the first: the first result is what is made of all.
    axis
        Of all tensors in `elems`, and of the results.

    Returns
    -------
    A tree like `elems`.

    Raises
    ------
    ShapeError
        Extents along the axis that differ.
    OperatorError
        What `fn` returns is not like an element.
    GraphError
        `fn` has an effect.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> stack.associative_scan(stack.ops.maximum, [3.0, 1.0, 4.0, 1.0, 5.0]).numpy()
    array([3., 3., 4., 4., 5.])

    The states of ``h[t] = a[t] * h[t - 1] + b[t]``, where ``h[-1]`` is zero:

    >>> a, b = stack.asarray([0.5, 0.5, 0.5]), stack.asarray([1.0, 1.0, 1.0])
    >>> stack.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (a, b))[1].numpy()
    array([1.  , 1.5 , 1.75])
    """
    check_body(fn, "associative_scan", ("a", "b"), "the function")
    told = whose("associative_scan", fn)
    slices = Slices(stack, elems, axis, "elems", told)
    xs, structure, extent = slices.tensors, slices.structure, slices.extent()
    if not xs:
        return elems
    element = Carry(stack, tuple(xs), structure, "element", told)
    avals = [a.having(shape=a.shape[1:]) for a in (aval_of(stack, stack.carrier(x)) for x in xs)]

    def combined(given: Sequence[Any]) -> list[Any]:
        found = fn(structure.build(given[: len(avals)]), structure.build(given[len(avals) :]))
        return element.held(element.after(found), avals)

    body = traced(stack, combined, [*avals, *avals], without=UNORDERED)
    element.check(avals, body.avals)
    pairs = Pairs(stack, body)
    if not known(extent):
        found = pairs.one_by_one(xs, avals, reverse)
    elif reverse:
        flip = stack.ops.flip
        found = [flip(y, axis=0) for y in pairs.prefixes([flip(x, axis=0) for x in xs], extent)]
    else:
        found = pairs.prefixes(xs, extent)
    return structure.build([back(stack, y, axis) for y in found])


class Pairs:
    """A function of two elements as a body, applied to one pair or to many.

    Parameters
    ----------
    body
        Of the leaves of one element, then of the other.
    """

    def __init__(self, stack: Any, body: TracedBody) -> None:
        self.stack, self.body = stack, body
        self.captured = [Tensor(stack, each) for each in body.captured]
        self.of_rows = stack.vmap(self.of_one)

    def of_one(self, *leaves: Tensor) -> tuple[Tensor, ...]:
        """The function of one pair."""
        body = self.body.body
        values = body.values(lambda op, xs, items: self.stack.bind(op, *xs, **dict(items)), [*leaves, *self.captured])
        return tuple([values[n] for n in body.results])

    def prefixes(self, xs: Sequence[Tensor], count: int) -> list[Tensor]:
        """Of so many elements, along axis 0."""
        if count < 2:
            return [*xs]
        odd = self.prefixes(self.of_rows(*(x[: count - 1 : 2] for x in xs), *(x[1::2] for x in xs)), count // 2)
        ops = self.stack.ops
        even = [x[:1] for x in xs]
        if count > 2:
            later = self.of_rows(*(y[: (count - 1) // 2] for y in odd), *(x[2::2] for x in xs))
            even = [ops.concat(one, rest, axis=0) for one, rest in zip(even, later, strict=True)]
        return [self._woven(a, b, count) for a, b in zip(even, odd, strict=True)]

    def _woven(self, even: Tensor, odd: Tensor, count: int) -> Tensor:
        """Rows of one and of the other by turns."""
        pairs = count // 2
        found: Tensor = self.stack.ops.stack(even[:pairs], odd, axis=1).reshape((2 * pairs, *odd.shape[1:]))
        if count > 2 * pairs:
            found = self.stack.ops.concat(found, even[pairs:], axis=0)
        return found

    def one_by_one(self, xs: Sequence[Tensor], avals: Sequence[Any], reverse: bool) -> list[Tensor]:
        """Of so many elements as there are, by a loop."""
        stack = self.stack

        def step(carry: Any, x: Any) -> Any:
            is_first, before = carry
            after = cond(stack, is_first, lambda: [*x], lambda: [*self.of_one(*before, *x)])
            return (False, after), after

        zeros = [stack.ops.full(shape=a.shape, value=0, dtype=a.dtype) for a in avals]
        return [*scan(stack, step, (True, zeros), [*xs], reverse=reverse)[1]]
