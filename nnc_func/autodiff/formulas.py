"""What the derivatives of operators mean: the tangent of a result, and the cotangents of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.facets.derivatives import ONE, Bilinear, Custom, Linear, OfParameters, Partials
from nnc_func.op import Op

SCALARS = (bool, int, float, complex)


@frozen(eq=False)
class Joint:
    """The derivative of one call of a function with a rule of its own, of all its arguments and results together.

    Attributes
    ----------
    push
        From tangents of the arguments to those of the results; None is zero, on both sides.
    pull
        From cotangents of the results to those of the arguments.
    """

    push: Callable[[Any], Any]
    pull: Callable[[Any], Any]


@frozen(eq=False)
class Called:
    """What stands for the operator where a function with a rule of its own was called."""

    name: str
    derivative: Joint
    multi_result: bool = True


def tangent(o: Any, op: Op | Called, derivative: Any, y: Any, xs: Any, ts: Any, params: Any) -> Any:
    """The tangent of the result; None where it is zero."""
    if isinstance(derivative, Partials):
        total, times = None, o.multiply_no_nan if derivative.singular else o.multiply
        for formula, t in zip(derivative.of, ts, strict=True):
            if t is None or formula is None:
                continue
            term = cast_like(o, t, y) if formula is ONE else times(formula(o, y, *xs, **params), t)
            total = term if total is None else o.add(total, term)
        return None if total is None else o.broadcast_like(cast_like(o, total, y), y)
    if isinstance(derivative, Linear):
        linear = range(len(xs)) if derivative.arguments is None else derivative.arguments
        if all(ts[i] is None for i in linear):
            return (None,) * len(y) if op.multi_result else None
        moved = [(_zero(o, x) if ts[i] is None else ts[i]) if i in linear else x for i, x in enumerate(xs)]
        return o.bind(op, *moved, **(params if derivative.homogeneous is None else derivative.homogeneous(**params)))
    if isinstance(derivative, Bilinear):
        left = None if ts[0] is None else o.bind(op, ts[0], xs[1], **params)
        right = None if ts[1] is None else o.bind(op, xs[0], ts[1], **params)
        return right if left is None else left if right is None else o.add(left, right)
    if isinstance(derivative, Joint):
        return derivative.push(ts)
    if isinstance(derivative, OfParameters):
        return derivative.push(o, ts, y, *xs, **params)
    assert isinstance(derivative, Custom)
    return derivative.jvp(o, ts, y, *xs, **params)


def _times(o: Any, derivative: Partials, slope: Any, g: Any) -> Any:
    return o.multiply_no_nan(slope, g) if derivative.singular else o.multiply(g, slope)


def _zero(o: Any, x: Any) -> Any:
    return type(x)(0) if type(x) in SCALARS else o.zeros_like(x)


def cast_like(o: Any, t: Any, y: Any) -> Any:
    """`t` in the dtype of `y`; of a complex one only the real part acts where `y` is real."""
    return t if t.dtype is y.dtype else o.projected(t, o.dtype(y))


Choices = tuple[tuple[Any, bool], ...]  # conditions, and for which of their values nothing is left out


def left_out(entry: Any, position: int, choices: Choices) -> Choices:
    """Outside of which elements an argument's cotangent is zero: what `where` says, and elementwise operators keep.

    Arguments that broadcast to the result are not told of: their cotangents are sums.
    """
    derivative = entry.op.derivative
    if isinstance(derivative, Linear) and derivative.chooses:
        choices = (*choices, (entry.args[0], position == 1))
    elif not choices or not (isinstance(derivative, Partials) or getattr(derivative, "by_element", False)):
        return ()
    return choices if tuple(entry.args[position].shape) == tuple(entry.y.shape) else ()


def both(a: Choices, b: Choices) -> Choices:
    """What is left out of two cotangents is left out of their sum."""
    return tuple(each for each in a if any(each[0] is other[0] and each[1] == other[1] for other in b))


def _chosen(o: Any, choices: Choices, slope: Any, through: Any) -> Any:
    """A product with a slope, which may be infinite or NaN where the other factor is left out by a choice."""
    if choices and getattr(slope, "shape", ()):
        for condition, kept in choices:
            through = o.where(condition, through, 0) if kept else o.where(condition, 0, through)
    return through


def cotangent(o: Any, entry: Any, gs: list[Any], needed: list[int], choices: Choices = ()) -> Iterator[tuple[int, Any]]:
    """(position, cotangent) of each needed argument of one application, an entry of the tape.

    The cotangent of the result is zero outside of `choices`; see `left_out`.
    """
    op, xs, params, y = entry.op, entry.args, entry.params, entry.y
    derivative = op.derivative
    g = tuple(gs) if op.multi_result else gs[0]
    if isinstance(derivative, Partials):
        for i in needed:
            formula = derivative.of[i]
            if formula is not None:
                through = g
                if formula is not ONE:
                    slope = formula(o, y, *xs, **params)
                    through = _chosen(o, choices, slope, _times(o, derivative, slope, g))
                yield i, o.sum_to(cast_like(o, through, xs[i]), xs[i].shape)
    elif isinstance(derivative, Linear):
        linear = range(len(xs)) if derivative.arguments is None else derivative.arguments
        asked = set(needed)
        if op.multi_result:
            g = tuple(o.zeros_like(v) if one is None else one for one, v in zip(g, y, strict=True))
        # of these only shape and dtype are read; a Python number has neither
        like = [np.asarray(x) if i in linear and type(x) in SCALARS else x for i, x in enumerate(xs)]
        found = derivative.transpose(o, g, *like, **params)
        parts = found if isinstance(found, tuple) else (found,)
        for position, part in zip(linear, parts, strict=True):
            if position in asked:
                part = part() if callable(part) else part
                yield position, None if part is None else cast_like(o, part, xs[position])
    elif isinstance(derivative, Bilinear):
        for i in needed:
            part = (derivative.left if i == 0 else derivative.right)(o, g, *xs, **params)
            yield i, cast_like(o, part, xs[i])
    elif isinstance(derivative, Joint):
        found = derivative.pull(gs)
        yield from ((i, found[i]) for i in needed)
    elif isinstance(derivative, OfParameters):
        found = derivative.pull(o, gs, y, *xs, **params)
        yield from ((i, None if found[i] is None else cast_like(o, found[i], xs[i])) for i in needed)
    else:
        for i in needed:
            if derivative.vjp[i] is not None:
                part = derivative.vjp[i](o, g, y, *xs, **params)
                if part is not None and choices:
                    part = _chosen(o, left_out(entry, i, choices), part, part)
                yield i, None if part is None else cast_like(o, part, xs[i])
