"""Batching rules: how an operator is applied to many rows at once, from the vocabulary of its shape rule.

A batched operand has its rows along axis 0, before the axes that the operator knows of. A rule gives the result in
the same form, by few applications; for what has no rule, `loop` applies the operator to each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from nnc_func.errors import ShapeError
from nnc_func.facets import boxes, movement, shapes
from nnc_func.facets.dims import known, product
from nnc_func.facets.dtypes import INT64
from nnc_func.facets.shapes import ShapeT, normalise_axes, normalise_axis

Rule = Callable[["Application"], Any]


@frozen
class Application:
    """One operator, and what it is applied to.

    Attributes
    ----------
    o
        The operators as functions of carriers.
    op, params
        The operator, and all its parameters.
    args
        Operands; of batched ones all rows, along axis 0.
    is_batched
        For each operand, whether it has rows.
    rows
        For each operand the shape of a row; of one that is not batched, its shape.
    size
        How many rows there are.
    bodies
        What batches bodies that are parameters, see `batching.bodies`.
    """

    o: Any
    op: Any
    params: Mapping[str, Any]
    args: tuple[Any, ...]
    is_batched: tuple[bool, ...]
    rows: tuple[ShapeT, ...]
    size: Any
    bodies: Any = None

    def bind(self, *args: Any, **changed: Any) -> Any:
        """The operator on other operands, with some parameters changed."""
        return self.o.bind(self.op, *args, **{**self.params, **changed})

    def axes(self, name: str = "axis", more: int = 0) -> tuple[int, ...]:
        """A parameter that names axes of a row, as axes of the whole; None is all of a row's."""
        rank = len(self.rows[0]) + more
        return tuple(a + 1 for a in normalise_axes(self.params[name], rank))

    def axis(self, name: str = "axis", more: int = 0) -> int:
        """A parameter that names one axis of a row, as an axis of the whole."""
        return normalise_axis(self.params[name], len(self.rows[0]) + more) + 1

    def aligned(self, at: int, rank: int) -> Any:
        """An operand whose rows have that rank: axes of extent 1 are put in front of their own."""
        x, row = self.args[at], self.rows[at]
        if not self.is_batched[at] or len(row) == rank:
            return x
        return self.o.reshape(x, shape=(self.size, *(1,) * (rank - len(row)), *row))

    def spread(self, at: int) -> Any:
        """An operand that has rows: all equal ones, where it had none."""
        x, row = self.args[at], self.rows[at]
        if self.is_batched[at]:
            return x
        if not hasattr(x, "shape"):
            dtype = next(self.o.dtype(a) for a, b in zip(self.args, self.is_batched, strict=True) if b)
            return self.o.full(shape=(self.size,), value=x, dtype=dtype)
        return self.o.broadcast_to(self.o.reshape(x, shape=(1, *row)), shape=(self.size, *row))

    def all_spread(self) -> list[Any]:
        """All operands, with rows."""
        return [self.spread(at) for at in range(len(self.args))]

    def first(self, x: Any, axis: int) -> Any:
        """`x` with one axis moved to the front."""
        rest = [a for a in range(len(x.shape)) if a != axis]
        return x if axis == 0 else self.o.permute_dims(x, axes=(axis, *rest))


@frozen(eq=False)
class Same:
    """A result of a rule that has no rows, since it is the same for each of them.

    Attributes
    ----------
    value
        For one example, and for all.
    """

    value: Any


# --- rules ------------------------------------------------------------------------------------------------


def elementwise(call: Application) -> Any:
    """Operands broadcast against each other as rows do."""
    rank = max(map(len, call.rows))
    return call.bind(*[call.aligned(at, rank) for at in range(len(call.args))])


def along_axes(call: Application) -> Any:
    """One operand, and a parameter ``axis`` that names some of its axes, or all."""
    return call.bind(call.args[0], axis=call.axes())


def along_axis(call: Application) -> Any:
    """Operands of one rank, and a parameter ``axis``."""
    return call.bind(*call.all_spread(), axis=call.axis())


def along_new_axis(call: Application) -> Any:
    """As `along_axis`, where the axis is one of the result's."""
    return call.bind(*call.all_spread(), axis=call.axis(more=1))


def positions(call: Application) -> Any:
    """Positions along an axis; without one, in the row's elements one after the other."""
    if call.params["axis"] is not None:
        return call.bind(call.args[0], axis=call.axis())
    flat = call.o.reshape(call.args[0], shape=(call.size, product(call.rows[0])))
    found = call.bind(flat, axis=1, keepdims=False)
    ones = (1,) * len(call.rows[0])
    return call.o.reshape(found, shape=(call.size, *ones)) if call.params["keepdims"] else found


def _reshaped(call: Application) -> Any:
    return call.bind(call.args[0], shape=(call.size, *call.op.shape(call.rows[0], **call.params)))


def _permuted(call: Application) -> Any:
    rank = len(call.rows[0])
    axes = call.params["axes"]
    order = range(rank)[::-1] if axes is None else [normalise_axis(a, rank) for a in axes]
    return call.bind(call.args[0], axes=(0, *(a + 1 for a in order)))


def _broadcast_to(call: Application) -> Any:
    shape = call.params["shape"]
    return call.bind(call.aligned(0, len(shape)), shape=(call.size, *shape))


def _expanded(call: Application) -> Any:
    axis = call.params["axis"]
    return call.bind(call.args[0], axis=call.axes(more=len(axis) if isinstance(axis, tuple) else 1))


def _tiled(call: Application) -> Any:
    repetitions, row = movement.aligned_left(call.params["repetitions"], call.rows[0])
    return call.bind(call.aligned(0, len(row)), repetitions=(1, *repetitions))


def _padded(call: Application) -> Any:
    return call.bind(call.args[0], widths=((0, 0), *call.params["widths"]))


def _bounds(call: Application) -> dict[str, Any]:
    p = call.params
    return {"starts": (0, *p["starts"]), "stops": (call.size, *p["stops"]), "steps": (1, *p["steps"])}


def _sliced(call: Application) -> Any:
    return call.bind(call.args[0], **_bounds(call))


def _updated(call: Application) -> Any:
    value = call.aligned(1, len(call.rows[0]))
    return call.bind(call.spread(0), value, **_bounds(call))


def _assembled(call: Application) -> Any:
    p = call.params
    offsets = tuple((0, *each) for each in p["offsets"])
    strides = None if p["strides"] is None else tuple((1, *each) for each in p["strides"])
    return call.bind(*call.all_spread(), shape=(call.size, *p["shape"]), offsets=offsets, strides=strides)


def _taken(call: Application) -> Any:
    if not call.is_batched[1]:
        return call.bind(*call.args, axis=call.axis())
    if call.is_batched[0]:
        return _taken_from_rows(call)
    at = call.axis() - 1
    return call.first(call.bind(*call.args, axis=at), at)


def _taken_from_rows(call: Application) -> Any:
    """Each row's elements by each row's indices: of flattened indices, by `take_along_axis`."""
    o, (row, indices), at = call.o, call.rows, call.axis() - 1
    before, behind, count = row[:at], row[at + 1 :], product(indices)
    flat = o.reshape(call.args[1], shape=(call.size, *(1,) * at, count, *(1,) * len(behind)))
    flat = o.broadcast_to(flat, shape=(call.size, *before, count, *behind))
    found = o.take_along_axis(call.args[0], flat, axis=at + 1)
    return o.reshape(found, shape=(call.size, *before, *indices, *behind))


def _scattered(call: Application) -> Any:
    if call.is_batched[1]:
        return _scattered_in_rows(call)
    return call.bind(call.spread(0), call.args[1], call.spread(2), axis=call.axis())


def _scattered_in_rows(call: Application) -> Any:
    """Each row's updates at each row's indices: rows one behind the other are one axis, of which each has its part.

    An index outside of its row is one outside of that axis, and refused as such.
    """
    o, size, (row, inner, _), at = call.o, call.size, call.rows, call.axis() - 1
    before, extent, behind, count = row[:at], row[at], row[at + 1 :], product(inner)
    own = tuple(range(2, 2 + at))  # axes before the one that is written along, behind that one
    x = o.permute_dims(call.spread(0), axes=(0, at + 1, *range(1, at + 1), *range(at + 2, len(row) + 1)))
    x = o.reshape(x, shape=(size * extent, *before, *behind))
    new = o.reshape(call.spread(2), shape=(size, *before, count, *behind))
    new = o.permute_dims(new, axes=(0, at + 1, *range(1, at + 1), *range(at + 2, len(row) + 1)))
    new = o.reshape(new, shape=(size * count, *before, *behind))
    long = o.full(shape=(), value=extent, dtype=INT64)
    indices = o.cast(o.reshape(call.args[1], shape=(size, count)), dtype=INT64)
    indices = o.where(o.less(indices, 0), o.add(indices, long), indices)
    ones = o.full(shape=(size, 1), value=1, dtype=INT64)
    starts = o.multiply(o.subtract(o.cumulative_sum(ones, axis=0), ones), long)
    outside = o.logical_or(o.less(indices, 0), o.less_equal(long, indices))
    indices = o.where(outside, o.full(shape=(), value=size * extent, dtype=INT64), o.add(indices, starts))
    found = call.bind(x, o.reshape(indices, shape=(size * count,)), new, axis=0)
    found = o.reshape(found, shape=(size, extent, *before, *behind))
    return o.permute_dims(found, axes=(0, *own, 1, *range(2 + at, len(row) + 1)))


def after(call: Application) -> Any:
    """Rows of the first tensor, after whatever the second one is: all of it, or its rows."""
    return call.bind(call.spread(0), call.args[1])


def as_is(call: Application) -> Any:
    """Axes are added after those that are there."""
    return call.bind(*call.args)


def folded(*shapes_of: str, leading: int = 0) -> Rule:
    """Of an operator whose operands have examples along axis 0: rows times examples are more examples.

    Parameters
    ----------
    shapes_of
        Parameters that are shapes with the number of examples in front.
    leading
        The operands from this one on have no examples: where one of them is batched, there is one row after another.
        0: all have.
    """

    def rule(call: Application) -> Any:
        count = leading or len(call.args)
        if any(call.is_batched[count:]):
            return loop(call)
        size, examples = call.size, call.rows[0][0]
        args = [call.o.reshape(call.spread(at), shape=(size * examples, *call.rows[at][1:])) for at in range(count)]
        changed = {name: (size * examples, *call.params[name][1:]) for name in shapes_of}
        found = call.bind(*args, *call.args[count:], **changed)
        return call.o.reshape(found, shape=(size, examples, *found.shape[1:]))

    return rule


def as_rows(call: Application) -> Any:
    """Of an operator whose first operand has any axes in front, and rows too: row by row where others have rows."""
    return loop(call) if any(call.is_batched[1:]) else call.bind(*call.args)


def product_of_matrices(call: Application) -> Any:
    """Matrix products broadcast over leading axes; rows of matrices times one matrix are one product."""
    a, b = call.rows
    if not call.is_batched[1] and len(a) == len(b) == 2 and not call.params["transpose_a"]:
        found = call.bind(call.o.reshape(call.args[0], shape=(call.size * a[0], a[1])), call.args[1])
        return call.o.reshape(found, shape=(call.size, a[0], found.shape[-1]))
    rank = max(len(a), len(b))
    return call.bind(call.aligned(0, rank), call.aligned(1, rank))


def contraction(call: Application) -> Any:
    """A product over pairs of axes: of rows with one tensor it is one, of rows with rows a product of matrices."""
    o, (a, b) = call.o, call.rows
    left, right = _pairs(call.params["axes"], len(a), len(b))
    if not call.is_batched[1]:
        return call.bind(*call.args, axes=(tuple(i + 1 for i in left), right))
    if not call.is_batched[0]:
        found = call.bind(*call.args, axes=(left, tuple(i + 1 for i in right)))
        return call.first(found, len(a) - len(left))
    free_a = [i for i in range(len(a)) if i not in left]
    free_b = [i for i in range(len(b)) if i not in right]
    x = o.permute_dims(call.args[0], axes=(0, *(i + 1 for i in (*free_a, *left))))
    y = o.permute_dims(call.args[1], axes=(0, *(i + 1 for i in (*right, *free_b))))
    outer_a, outer_b = tuple(a[i] for i in free_a), tuple(b[i] for i in free_b)
    inner = product(tuple(a[i] for i in left))
    x = o.reshape(x, shape=(call.size, product(outer_a), inner))
    y = o.reshape(y, shape=(call.size, inner, product(outer_b)))
    return o.reshape(o.matmul(x, y), shape=(call.size, *outer_a, *outer_b))


def _pairs(axes: Any, rank_a: int, rank_b: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, int):
        return tuple(range(rank_a - axes, rank_a)), tuple(range(axes))
    left, right = ((n,) if isinstance(n, int) else n for n in axes)
    return tuple(normalise_axis(i, rank_a) for i in left), tuple(normalise_axis(i, rank_b) for i in right)


def equations(call: Application) -> Any:
    """Equations with a matrix, for a vector or the columns of a matrix."""
    o, (a, b) = call.o, call.rows
    if len(b) > 1:
        rank = max(len(a), len(b))
        return call.bind(call.aligned(0, rank), call.aligned(1, rank))
    column = o.reshape(call.args[1], shape=(*call.args[1].shape, 1))
    column = o.reshape(column, shape=(call.size, *(1,) * (len(a) - 2), *b, 1)) if call.is_batched[1] else column
    found = call.bind(call.args[0], column)
    return o.reshape(found, shape=tuple(found.shape)[:-1])


def loop(call: Application) -> Any:
    """The operator on one row after the other.

    Raises
    ------
    ShapeError
        The number of rows is not known.
    """
    o = call.o
    if not known(call.size):
        raise ShapeError(
            f"{call.op.name} is applied row by row under vmap, but the number of rows, {call.size}, is not known; "
            "compile for a known one"
        )
    dtypes = [o.dtype(a) if hasattr(a, "shape") else a for a in call.args]
    if call.size == 0:
        shape, dtype = call.op.shape(*call.rows, **call.params), call.op.dtype(*dtypes, **call.params)
        pairs = zip(shape, dtype, strict=True) if call.op.multi_result else [(shape, dtype)]
        empty = tuple(o.full(shape=(0, *s), value=0, dtype=d) for s, d in pairs)
        return empty if call.op.multi_result else empty[0]
    found = [call.bind(*[_row(call, at, n) for at in range(len(call.args))]) for n in range(call.size)]
    if not call.op.multi_result:
        return o.stack(*found, axis=0)
    return tuple(o.stack(*each, axis=0) for each in zip(*found, strict=True))


def _row(call: Application, at: int, n: int) -> Any:
    x, row = call.args[at], call.rows[at]
    if not call.is_batched[at]:
        return x
    one = call.o.slice(x, starts=(n, *(0,) * len(row)), stops=(n + 1, *row), steps=(1,) * (len(row) + 1))
    return call.o.reshape(one, shape=row)


BY_SHAPE: Mapping[Callable[..., Any], Rule] = {
    shapes.broadcast: elementwise,
    shapes.same: elementwise,
    shapes.reduced: along_axes,
    shapes.reshaped: _reshaped,
    shapes.permuted: _permuted,
    movement.reduced_some: along_axes,
    movement.along: along_axis,
    movement.first_along: along_axis,
    movement.ranked: along_axis,
    movement.broadcast_to: _broadcast_to,
    movement.expanded: _expanded,
    movement.squeezed: along_axes,
    movement.flipped: along_axes,
    movement.tiled: _tiled,
    movement.concatenated: along_axis,
    movement.stacked: along_new_axis,
    movement.parts: along_axis,
    movement.padded: _padded,
    movement.sliced: _sliced,
    movement.updated: _updated,
    movement.taken: _taken,
    movement.taken_along: along_axis,
    movement.scattered: _scattered,
    movement.scattered_along: along_axis,
    movement.with_depth: as_is,
    boxes.assembled: _assembled,
}  # the rule of an operator, by the shape rule that it is declared with
