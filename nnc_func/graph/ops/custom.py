"""A function with a derivative of its own, within a body: bodies of its value, its tangents and its cotangents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nnc_func.body import Body
from nnc_func.errors import DerivativeError, OperatorError
from nnc_func.facets.derivatives import OfBodies
from nnc_func.facets.kernels import reference
from nnc_func.facets.onnx import control
from nnc_func.facets.samples import Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.binary import add, multiply
from nnc_func.graph.ops.bodies import check_computes, computed, dtypes_in, flops_of, shapes_in
from nnc_func.graph.ops.cut_bodies import aval_of
from nnc_func.graph.ops.families import Bodies, Nested, Tensor
from nnc_func.graph.ops.passes import Passes, in_passes
from nnc_func.graph.ops.silent_bodies import only_asks, silenced
from nnc_func.op import Op, operator

Given = dict[str, Any]
BACKWARD_ONLY = Body(0, (), ())
"""Stands for `pushed` where there are no tangents."""


def _values(params: Given) -> int:
    """How many results are values, and not kept for `back`."""
    return len(params["pulled"].results) - len(params["reached"])


def _check(given: int, params: Given) -> None:
    body, pushed, pulled, back = (params[name] for name in ("body", "pushed", "pulled", "back"))
    moved, reached, count = params["moved"], params["reached"], _values(params)
    results = [n for n in moved if type(n) is int and 0 <= n < count]
    operands = [n for n in reached if type(n) is int and 0 <= n < given]
    wanted = {
        "body": (body.parameters, given),
        "pushed": (pushed.parameters, given + len(reached) if pushed != BACKWARD_ONLY else 0),
        "pulled": (pulled.parameters, given + len(moved)),
        "results of pushed": (len(pushed.results), count + len(moved) if pushed != BACKWARD_ONLY else 0),
        "results of body": (len(body.results), max(count, len(body.results)) if back else count),
        "back": (len(back), min(len(back), 1)),
        "moved": (len(results), len(moved)),
        "reached": (len(operands), len(reached)),
    }
    for each in back:
        wanted["parameters of back"] = (each.parameters, given + len(body.results) + len(moved))
        wanted["results of back"] = (len(each.results), len(reached))
    for what, (found, needed) in wanted.items():
        if found != needed:
            raise OperatorError(f"custom: {what} has {found}, and {needed} are wanted, of {given} operands")
    for each in () if back else (body, pushed, pulled):
        if not only_asks(each):
            check_computes(each, "a function with a derivative of its own")


def _shape(*given: ShapeT, body: Body, **params: Any) -> tuple[ShapeT, ...]:
    _check(len(given), {"body": body, **params})
    values = shapes_in(body, given)
    return tuple([values[i] for i in body.results])


def _dtype(*given: Any, body: Body, **params: Any) -> tuple[Any, ...]:
    _check(len(given), {"body": body, **params})
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
    if params["pushed"] == BACKWARD_ONLY:
        raise DerivativeError(
            "a program of values (a jitted function, a loop or a branch with effects) has no tangents, since something "
            "in it has a derivative in reverse mode alone, as nnc.HostFunction(f, vjp=...) has: give it a jvp= too"
        )
    moving, count = [n for n, t in enumerate(ts) if t is not None], _values(params)
    _check_captured(params["pushed"], moving, params["reached"])
    slopes = [o.zeros_like(xs[n]) if ts[n] is None else ts[n] for n in params["reached"]]
    found = _of(o, params["pushed"], [*xs, *slopes])
    values, tangents = found[:count], dict(zip(params["moved"], found[count:], strict=True))
    body = params["body"]
    if len(body.results) > count:  # what is kept is made of the operands as any body is
        derived = derive.tangent(body, [aval_of(o, x) for x in xs], frozenset(moving))
        more = _of(o, derived.body, [*xs, *(ts[n] for n in moving), *derived.captured])
        values += more[count : len(body.results)]
        moved = [n for n, moves in enumerate(derived.moved) if moves]
        tangents.update((n, t) for n, t in zip(moved, more[len(body.results) :], strict=True) if n >= count)
    return tuple(values), tuple([tangents.get(n) for n in range(len(values))])


def _passes(xs: Sequence[Any], params: Given) -> Passes:
    """That of values, which is differentiated as the rule says, and that of cotangents."""
    if params["back"]:
        return Passes(params["body"], *params["back"])
    return in_passes(params["pulled"], len(xs), _values(params))


def _linearized(op: Op, derive: Any, o: Any, moving: frozenset[int], xs: Sequence[Any], params: Any) -> Any:
    forward = _passes(xs, params).forward
    _check_captured(forward, moving, params["reached"])
    ys = tuple(_of(o, forward, xs))
    push, pull = _both_ways(op, derive, o, moving, ys, xs, params)
    return ys if params["back"] else ys[: _values(params)], push, pull


def _known(op: Op, derive: Any, o: Any, moving: frozenset[int], ys: Any, xs: Sequence[Any], params: Any) -> Any:
    if not params["back"]:
        return _linearized(op, derive, o, moving, xs, params)[1:]
    _check_captured(params["body"], moving, params["reached"])
    return _both_ways(op, derive, o, moving, ys, xs, params)


def _again(body: Body) -> Body:
    """A body that is computed a second time, without effects."""
    found = silenced((("body", body),))
    if found is None:
        raise DerivativeError(
            "a derivative of second order of a loop or a branch of values computes it again without its effects, but "
            "these give what it is made of (ops.callback): say that it is pure=True, or use grad of grad"
        )
    return dict(found)["body"]  # type: ignore[no-any-return]


def _both_ways(op: Op, derive: Any, o: Any, moving: frozenset[int], ys: Any, xs: Sequence[Any], params: Any) -> Any:
    """The derivative, where the results of the forward pass are known."""
    count, back = _values(params), _passes(xs, params).backward

    def pull(gs: Sequence[Any]) -> list[Any]:
        found: dict[int, Any] = {}
        if any(gs[n] is not None for n in params["moved"]):
            given = [o.zeros_like(ys[n]) if gs[n] is None else gs[n] for n in params["moved"]]
            found = dict(zip(params["reached"], _of(o, back, [*xs, *ys, *given]), strict=True))
        if any(g is not None for g in gs[count:]):  # of higher order: what is kept is made of the operands as well
            body = _again(params["body"])
            _, pulled = derive.linearize(lambda *given: _of(o, body, given)[count:], xs, moving)
            for n, g in enumerate(pulled(gs[count:])):
                if g is not None:
                    found[n] = g if found.get(n) is None else o.add(found[n], g)
        return [found.get(n) for n in range(len(xs))]

    return lambda ts: _tangent(op, derive, o, ts, xs, params)[1], pull


SQUARE = Body.of(1, (multiply, 0, 0))
SLOPE = Body.of(2, (multiply, 0, 0), (add, 0, 0), (multiply, 3, 1), results=(2, 4))  # of tangents and cotangents


@operator(
    shape=_shape,
    dtype=_dtype,
    multi_result=True,
    kernels=(reference(_interpreted, name="interpreted", applies=True),),
    derivative=OfBodies(_tangent, _linearized, _known),
    cost=lambda args, results, *, body, **_: Cost(flops_of(body, args)),
    onnx=control.custom,
    samples=Samples(
        relation="cases",
        cases=((((3,),), {"body": SQUARE, "pushed": SLOPE, "pulled": SLOPE, "moved": (0,), "reached": (0,)}),),
    ),
)
def custom(
    *xs: Tensor, body: Body, pushed: Body, pulled: Body, moved: Nested, reached: Nested, back: Bodies = ()
) -> Tensor:
    """What a body gives of the operands; its derivative is that of two other bodies.

    `pushed` takes the operands, then tangents of those in `reached`, and gives the results, then tangents of those in
    `moved`; `pulled` takes the operands, then cotangents of the results in `moved`, and gives the results, then
    cotangents of the operands in `reached`. This is what a function with a rule of its own becomes within a body.
    Where `pushed` is `BACKWARD_ONLY` there are no tangents.

    With `back`, one body, the results of `body` are the values, then what `back` reads: that takes the operands, these
    results, and cotangents of values, and gives cotangents of operands. So nothing is computed again, and bodies may
    have effects. This is what a dynamic stack records of a function whose derivative is a program.
    """
