"""The branch: one of several bodies is computed, which an index chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.errors import DTypeError, OperatorError, RunError, ShapeError
from nnc_func.facets.derivatives import OfBodies
from nnc_func.facets.kernels import reference
from nnc_func.facets.onnx import control
from nnc_func.facets.samples import Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.binary import multiply
from nnc_func.graph.ops.bodies import check_computes, computed, dtypes_in, flops_of, shapes_in
from nnc_func.graph.ops.cut_bodies import CutBody, aval_of, is_smooth, zeros
from nnc_func.graph.ops.families import Bodies, Tensor
from nnc_func.graph.ops.silent_bodies import without_effects
from nnc_func.graph.ops.transcendental import tanh
from nnc_func.op import Op, operator

NOTHING = -(2**62)
"""The index of a branch of one body, which gives a value, where there is none."""


def _check(given: int, bodies: tuple[Body, ...]) -> None:
    if not bodies:
        raise OperatorError("branch chooses among bodies, given none")
    for n, body in enumerate(bodies):
        if body.parameters != given - 1:
            raise OperatorError(f"branch has {given - 1} operands for body {n} of {body.parameters} parameters: {body}")
        if len(body.results) != len(bodies[0].results):
            first, here = len(bodies[0].results), len(body.results)
            raise OperatorError(f"the bodies of a branch give alike: body 0 has {first} results, body {n} has {here}")
        check_computes(body, "a branch", effects=True)


def _shape(index: ShapeT, *given: ShapeT, bodies: tuple[Body, ...], default: bool) -> tuple[ShapeT, ...]:
    _check(1 + len(given), bodies)
    if index != ():
        raise ShapeError(f"the index of a branch has no axes, given shape {index}")
    found = []
    for body in bodies:
        values = shapes_in(body, given)
        found.append([values[i] for i in body.results])
    for n, shapes in enumerate(found):
        for r, (was, now) in enumerate(zip(found[0], shapes, strict=True)):
            if was != now:  # unknown extents are not taken to be equal: one body is computed, and the other is not
                raise ShapeError(f"result {r} of a branch has one shape: {was} in body 0, {now} in body {n}")
    return tuple(found[0])


def _dtype(index: Any, *given: Any, bodies: tuple[Body, ...], default: bool) -> tuple[Any, ...]:
    _check(1 + len(given), bodies)
    if index.kind not in "biu":
        raise DTypeError(f"the index of a branch is an integer, or a truth value, given {index}")
    found = []
    for body in bodies:
        values = dtypes_in(body, given)
        found.append(tuple([values[i] for i in body.results]))
    for n, dtypes in enumerate(found):
        for r, (was, now) in enumerate(zip(found[0], dtypes, strict=True)):
            if was != now:
                raise DTypeError(f"result {r} of a branch has one dtype: {was} in body 0, {now} in body {n}; cast one")
    return found[0]


def chosen(index: Any, count: int, default: bool = False) -> int:
    """Which body an index chooses, of so many; the last one is that of all other indices where it is a default.

    Raises
    ------
    RunError
        None.
    """
    found = int(index)
    if default:
        return found if 0 <= found < count else count - 1
    if found == NOTHING:
        raise RunError(
            "a variable is read that has no value, or is None: the loop that was to assign it has gone no "
            "time, or no branch that was taken has assigned it; assign it before"
        )
    if not 0 <= found < count:
        raise RunError(
            f"index {found} chooses none of {count} branches, 0 to {count - 1}, and there is no default; give case_of "
            "a default=, such as nnc.bypass"
        )
    return found


def _interpreted(
    xp: Any, index: Any, *arrays: Any, bodies: tuple[Body, ...], default: bool
) -> tuple[Any, ...]:  # fmt: skip
    """The operators of one body one after another, by the kernels that the namespace runs alone."""
    body = bodies[chosen(index, len(bodies), default)]
    return tuple(computed(body, arrays, xp))


def _cost(args: tuple[Any, ...], results: tuple[Any, ...], *, bodies: tuple[Body, ...], default: bool) -> Cost:
    flops = [flops_of(body, args[1:]) for body in bodies]  # an estimate: the mean
    return Cost(sum(flops[1:], flops[0]) // len(flops), is_estimate=True)


# --- derivative ----------------------------------------------------------------------------------------------


def _tangent(op: Op, derive: Any, o: Any, ts: Sequence[Any], xs: Any, params: Any) -> tuple[Any, Any]:
    """The results of a branch, and their tangents: a branch that gives both."""
    bodies: tuple[Body, ...] = params["bodies"]
    avals = [aval_of(o, x) for x in xs[1:]]
    moving = frozenset(n for n, t in enumerate(ts[1:]) if t is not None and is_smooth(avals[n]))
    derived = [derive.tangent(body, avals, moving) for body in bodies]
    count = len(bodies[0].results)
    moved = [r for r in range(count) if any(each.moved[r] for each in derived)]
    captured = [x for each in derived for x in each.captured]
    made, before = [], 0
    for body, each in zip(bodies, derived, strict=True):
        builder = BodyBuilder()
        given = builder.parameters(len(avals) + len(moving))
        its = builder.parameters(len(captured))[before : before + len(each.captured)]
        before += len(each.captured)
        values = builder.include(each.body, [*given, *its])
        results = [values[i] for i in each.body.results]
        slopes = dict(zip([r for r in range(count) if each.moved[r]], results[count:], strict=True))
        avals_of_results = _results_of(body, avals)
        more = [slopes[r] if r in slopes else zeros(builder, avals_of_results[r]) for r in moved]
        made.append(builder.built([*results[:count], *more]))
    found = o.bind(
        op, *xs, *(ts[1 + n] for n in sorted(moving)), *captured, bodies=tuple(made), default=params["default"]
    )
    tangents: list[Any] = [None] * count
    for r, t in zip(moved, found[count:], strict=True):
        tangents[r] = t
    return tuple(found[:count]), tuple(tangents)


def _results_of(body: Body, avals: Sequence[Aval]) -> list[Aval]:
    shapes = shapes_in(body, tuple([a.shape for a in avals]))
    dtypes = dtypes_in(body, tuple([a.dtype for a in avals]))
    return [Aval(shapes[i], dtypes[i]) for i in body.results]


def _linearized(op: Op, derive: Any, o: Any, moving: frozenset[int], xs: Sequence[Any], params: Any) -> Any:
    """The results of a branch that keeps what its derivative reads, and the derivative both ways.

    What the bodies keep shares results of the branch, by avals; one that is not computed has zeros there.
    """
    avals = [aval_of(o, x) for x in xs[1:]]
    moving = frozenset(n - 1 for n in moving if n and is_smooth(avals[n - 1]))
    derived = [derive.cotangent(body, avals, moving) for body in params["bodies"]]
    captured = tuple([x for each in derived for x in each.captured])
    cuts = [
        CutBody(body, avals, each, [aval_of(o, x) for x in each.captured])
        for body, each in zip(params["bodies"], derived, strict=True)
    ]
    parts = _Parts(cuts, avals, len(captured))
    found = o.bind(op, *xs, *captured, bodies=parts.forwards(), default=params["default"])
    saved = found[parts.results :]

    def pull(gs: Sequence[Any]) -> list[Any]:
        given = [r for r in range(parts.results) if gs[r] is not None and any(r in cut.flowing for cut in cuts)]
        result: list[Any] = [None] * len(xs)
        if parts.reached and given:
            operands = [*xs[1:], *captured, *saved, *(gs[r] for r in given)]
            reached, bodies = parts.backwards(given)
            read, bodies = _of_what_is_read(bodies)  # a loop around it keeps nothing else
            taken = [operands[n] for n in read]
            pulled = o.bind(op, xs[0], *taken, bodies=bodies, default=params["default"]) if reached else ()
            for n, g in zip(reached, pulled, strict=True):
                result[1 + n] = g
        return result

    def push(ts: Sequence[Any]) -> Any:
        return _tangent(op, derive, o, ts, xs, without_effects(params))[1]

    return tuple(found[: parts.results]), push, pull


class _Parts:
    """The bodies of a branch and their derivatives backwards, each cut in two.

    Parameters
    ----------
    cuts
        One for each body.
    avals
        Of the operands.
    captured
        How many values their derivatives capture, all together.
    """

    def __init__(self, cuts: Sequence[CutBody], avals: Sequence[Aval], captured: int) -> None:
        self.cuts, self.avals, self.captured = cuts, avals, captured
        self.results = cuts[0].results
        self.reached = sorted({n for cut in cuts for n in cut.cotangents})  # operands
        wanted = [cut.kept([*cut.cotangents.values()]) for cut in cuts]
        self.kept = [
            [i for i in each if cut.own <= i and not cut.after <= i < cut.joint.parameters]
            for each, cut in zip(wanted, cuts, strict=True)
        ]
        self.slots, self.where = _shared(
            [[cut.avals[i] for i in each] for each, cut in zip(self.kept, cuts, strict=True)]
        )

    def _given(self, builder: BodyBuilder, number: int) -> dict[int, int]:
        """The operands, and what the derivative of a body captures, within a body."""
        values = dict(enumerate(builder.parameters(len(self.avals))))
        before = sum(cut.joint.parameters - cut.after for cut in self.cuts[:number])
        cut, all_captured = self.cuts[number], builder.parameters(self.captured)
        its = all_captured[before : before + cut.joint.parameters - cut.after]
        return values | dict(enumerate(its, cut.after))

    def forwards(self) -> tuple[Body, ...]:
        """The bodies, which give what the second parts read besides their own results."""
        made = []
        for number, cut in enumerate(self.cuts):
            builder = BodyBuilder()
            values = cut.first_part(builder, self._given(builder, number))
            held = dict(zip(self.where[number], self.kept[number], strict=True))
            rows = [values[held[s]] if s in held else zeros(builder, aval) for s, aval in enumerate(self.slots)]
            made.append(builder.built([*(values[i] for i in cut.joint.results[: self.results]), *rows]))
        return tuple(made)

    def backwards(self, given: Sequence[int]) -> tuple[list[int], tuple[Body, ...]]:
        """The second parts, of operands, what was kept, and cotangents of these results; and what they reach."""
        absent, made = [cut.absent(given) for cut in self.cuts], []
        reached = [
            n for n in self.reached
            if any(n in cut.cotangents and cut.cotangents[n] not in zero
                   for cut, zero in zip(self.cuts, absent, strict=True))
        ]  # fmt: skip
        for number, cut in enumerate(self.cuts):
            builder = BodyBuilder()
            values = self._given(builder, number)
            held = builder.parameters(len(self.slots))
            values.update(zip(self.kept[number], (held[s] for s in self.where[number]), strict=True))
            flowing = dict(zip(given, builder.parameters(len(given)), strict=True))
            values.update((value, flowing[r]) for r, value in cut.flowing.items() if r in flowing)
            values = cut.second_part(builder, values, absent[number])
            found = [cut.cotangents.get(n) for n in reached]
            results = [
                zeros(builder, self.avals[n]) if value is None or value in absent[number] else values[value]
                for n, value in zip(reached, found, strict=True)
            ]
            made.append(builder.built(results))
        return reached, tuple(made)


def _of_what_is_read(bodies: Sequence[Body]) -> tuple[list[int], tuple[Body, ...]]:
    """The parameters that any of these bodies reads, and the bodies of those alone."""
    read = sorted({n for body in bodies for n in body.read_by(body.results)})
    made = []
    for body in bodies:
        builder = BodyBuilder()
        values = builder.include_partly(body, dict(zip(read, builder.parameters(len(read)), strict=True)))
        made.append(builder.built([values[n] for n in body.results]))
    return read, tuple(made)


def _shared(kept: Sequence[Sequence[Aval]]) -> tuple[list[Aval], list[list[int]]]:
    """Places for values of several bodies, of which one is computed: their avals, and where those of each body are."""
    slots: list[Aval] = []
    where = []
    for avals in kept:
        free, at = [*range(len(slots))], []
        for aval in avals:
            slot = next((s for s in free if slots[s] == aval), None)
            if slot is None:
                slot = len(slots)
                slots.append(aval)
            else:
                free.remove(slot)
            at.append(slot)
        where.append(at)
    return slots, where


# --- the operator --------------------------------------------------------------------------------------------

PRODUCT = Body.of(2, (multiply, 0, 1), results=(2, 0))
CURVE = Body.of(2, (tanh, 1), results=(2, 1))


@operator(
    shape=_shape,
    dtype=_dtype,
    multi_result=True,
    kernels=(reference(_interpreted, name="interpreted", applies=True),),
    derivative=OfBodies(_tangent, _linearized),
    cost=_cost,
    onnx=control.branch,
    samples=Samples(
        relation="cases",
        cases=tuple(
            (
                (((), index, (0, 1)), ((3,), dtype, (-1.0, 1.0)), ((3,), dtype, (-1.0, 1.0))),
                {"bodies": (PRODUCT, CURVE)},
            )
            for dtype in ("float32", "float64")
            for index in ("bool", "int64")
        ),
    ),
)
def branch(index: Tensor, *xs: Tensor, bodies: Bodies, default: bool = False) -> Tensor:
    """What one of several bodies computes of the operands: that of number `index`, an integer or a truth value.

    Each body has a parameter for each operand but the index, and all give results of the same shapes and dtypes. The
    others are not computed. With `default` the last body is that of every other index, too; without, an index that is
    none of them is a `RunError`.
    """
