"""A function with a derivative of its own, within a body: bodies of its value, its tangents and its cotangents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.errors import DerivativeError, OperatorError
from nnc_func.facets.derivatives import OfBodies
from nnc_func.facets.kernels import reference
from nnc_func.facets.onnx import control
from nnc_func.facets.samples import Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.binary import add, multiply
from nnc_func.graph.ops.bodies import check_computes, computed, dtypes_in, flops_of, shapes_in
from nnc_func.graph.ops.families import Nested, Tensor
from nnc_func.op import Op, operator


def _check(given: int, body: Body, pushed: Body, pulled: Body, moved: Any, reached: Any) -> None:
    count = len(body.results)
    results = [n for n in moved if type(n) is int and 0 <= n < count]
    operands = [n for n in reached if type(n) is int and 0 <= n < given]
    wanted = {
        "body": (body.parameters, given),
        "pushed": (pushed.parameters, given + len(reached)),
        "pulled": (pulled.parameters, given + len(moved)),
        "results of pushed": (len(pushed.results), count + len(moved)),
        "results of pulled": (len(pulled.results), count + len(reached)),
        "moved": (len(results), len(moved)),
        "reached": (len(operands), len(reached)),
    }
    for what, (found, needed) in wanted.items():
        if found != needed:
            raise OperatorError(f"custom: {what} has {found}, and {needed} are wanted, of {given} operands")
    for each in (body, pushed, pulled):
        check_computes(each, "a function with a derivative of its own")


def _shape(
    *given: ShapeT, body: Body, pushed: Body, pulled: Body, moved: Any, reached: Any
) -> tuple[ShapeT, ...]:  # fmt: skip
    _check(len(given), body, pushed, pulled, moved, reached)
    values = shapes_in(body, given)
    return tuple([values[i] for i in body.results])


def _dtype(*given: Any, body: Body, pushed: Body, pulled: Body, moved: Any, reached: Any) -> tuple[Any, ...]:
    _check(len(given), body, pushed, pulled, moved, reached)
    values = dtypes_in(body, given)
    return tuple([values[i] for i in body.results])


def _interpreted(xp: Any, *arrays: Any, body: Body, **_: Any) -> tuple[Any, ...]:
    return tuple(computed(body, arrays, xp))


def _of(o: Any, body: Body, xs: Sequence[Any]) -> list[Any]:
    """The results of a body on what flows through an interpretation."""
    values = body.values(lambda op, args, items: o.bind(op, *args, **dict(items)), xs)
    return [values[i] for i in body.results]


def _check_captured(body: Body, moving: Iterable[int], reached: Sequence[int]) -> None:
    """Raise DerivativeError where a body reads what moves and is no argument."""
    read = {i for each in body.applications for i in each.operands}.union(body.results)
    if read.intersection(moving).difference(reached):
        raise DerivativeError(
            "a function with a derivative of its own, which is with respect to its arguments, also uses a tensor from "
            "around it that is being differentiated; pass that as an argument"
        )


def _tangent(op: Op, derive: Any, o: Any, ts: Sequence[Any], xs: Any, params: Any) -> tuple[Any, Any]:
    _check_captured(params["pushed"], (n for n, t in enumerate(ts) if t is not None), params["reached"])
    slopes = [o.zeros_like(xs[n]) if ts[n] is None else ts[n] for n in params["reached"]]
    found = _of(o, params["pushed"], [*xs, *slopes])
    count = len(params["body"].results)
    tangents = dict(zip(params["moved"], found[count:], strict=True))
    return tuple(found[:count]), tuple([tangents.get(n) for n in range(count)])


def _linearized(op: Op, derive: Any, o: Any, moving: frozenset[int], xs: Sequence[Any], params: Any) -> Any:
    builder, pulled, count = BodyBuilder(), params["pulled"], len(params["body"].results)
    values = builder.include(pulled, builder.parameters(pulled.parameters))
    forward = builder.built([values[n] for n in pulled.results[:count]])  # of the rule, which may be differentiated
    _check_captured(forward, moving, params["reached"])
    ys = tuple(_of(o, forward, [*xs, *(None for _ in params["moved"])]))

    def pull(gs: Sequence[Any]) -> list[Any]:
        given = [o.zeros_like(ys[n]) if gs[n] is None else gs[n] for n in params["moved"]]
        found = dict(zip(params["reached"], _of(o, params["pulled"], [*xs, *given])[len(ys) :], strict=True))
        return [found.get(n) for n in range(len(xs))]

    return ys, lambda ts: _tangent(op, derive, o, ts, xs, params)[1], pull


SQUARE = Body.of(1, (multiply, 0, 0))
SLOPE = Body.of(2, (multiply, 0, 0), (add, 0, 0), (multiply, 3, 1), results=(2, 4))  # of tangents and cotangents


@operator(
    shape=_shape,
    dtype=_dtype,
    multi_result=True,
    kernels=(reference(_interpreted, name="interpreted", applies=True),),
    derivative=OfBodies(_tangent, _linearized),
    cost=lambda args, results, *, body, **_: Cost(flops_of(body, args)),
    onnx=control.custom,
    samples=Samples(
        relation="cases",
        cases=((((3,),), {"body": SQUARE, "pushed": SLOPE, "pulled": SLOPE, "moved": (0,), "reached": (0,)}),),
    ),
)
def custom(*xs: Tensor, body: Body, pushed: Body, pulled: Body, moved: Nested, reached: Nested) -> Tensor:
    """What a body gives of the operands; its derivative is that of two other bodies.

    `pushed` takes the operands, then tangents of those in `reached`, and gives the results, then tangents of those in
    `moved`; `pulled` takes the operands, then cotangents of the results in `moved`, and gives the results, then
    cotangents of the operands in `reached`. This is what a function with a rule of its own becomes within a body.
    """
