"""The batching rules of branches, and of functions with a derivative of their own within bodies.

A branch whose index is the same for all rows stays one, of batched bodies. Where it is not, each body is computed on
all rows, and each row takes what it chooses: a row that does not choose a body has another row's operands in it, one
that does choose it, so that it meets no number which the function of one example would not meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from nnc_func.aval import Aval
from nnc_func.batching.bodies import BatchedBody, along_rows, avals_of_rows, first_row, never_empty, read_by, replaced
from nnc_func.body import Body, is_pure
from nnc_func.body_builder import BodyBuilder
from nnc_func.facets import batching
from nnc_func.facets.batching import Application, Same
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.ops.bodies import dtypes_in, shapes_in
from nnc_func.graph.ops.custom import BACKWARD_ONLY
from nnc_func.graph.ops.cut_bodies import zeros
from nnc_func.graph.ops.effects import TOKEN, is_token
from nnc_func.graph.ops.reduce import sum_

ITSELF = Body(1, (), (0,))


def branch_of_batches(call: Application) -> Any:
    """The rule of `branch`."""
    if not call.bodies.makes_nodes or (known(call.size) and call.size == 0):
        return batching.loop(call)
    return _select(call) if call.is_batched[0] else _branch(call)


def _bodies(call: Application, wanted: Any = ()) -> list[BatchedBody]:
    avals = avals_of_rows(call)[1:]
    return [call.bodies.of(body, avals, call.is_batched[1:], call.size, wanted) for body in call.params["bodies"]]


def _branch(call: Application) -> tuple[Any, ...]:
    """A branch of batched bodies: all rows choose the same."""
    wanted = {r for each in _bodies(call) for r, b in enumerate(each.is_batched) if b}
    found = _bodies(call, wanted)
    given, captured = len(call.args) - 1, [x for each in found for x in each.captured]
    made, before = [], 0
    for each in found:
        after = len(captured) - before - len(each.captured)
        made.append(each.with_captured(given, before, after))
        before += len(each.captured)
    ys = call.bind(*call.args, *captured, bodies=tuple(made))
    return tuple([y if r in wanted else Same(y) for r, y in enumerate(ys)])


def _select(call: Application) -> tuple[Any, ...]:
    """All bodies on all rows, of which each row takes one."""
    o, bodies = call.o, call.params["bodies"]
    count = len(bodies[0].results)
    index = call.args[0]
    is_bool = kind_of(o.dtype(index)) == "b"
    if len(bodies) == 1 and not call.params["default"] and not is_bool:  # all rows choose it, or there is an error
        whole = (_refused(call, index), *call.args[1:])
        return _branch(evolve(call, args=whole, is_batched=(False, *call.is_batched[1:])))
    index = index if is_bool else _checked(call, index)
    tokens, ys = _tokens(call), list[Any]()
    wanted = [r for r in range(count) if r not in tokens]
    for n, (body, found) in enumerate(zip(bodies, _bodies(call, wanted), strict=True)):
        if is_bool and n > 1:
            break
        chosen = (index if n else o.logical_not(index)) if is_bool else o.equal(index, n)
        made = _where_chosen(call, chosen, body, found, tokens)
        ys = [
            new if not n or r in tokens else o.where(along_rows(call, chosen, len(new.shape) - 1), new, old)
            for r, (new, old) in enumerate(zip(made, ys or made, strict=True))
        ]
        after = [*call.args]  # the effects of the next body come after those of this one
        for r, at in tokens.items():
            if at is not None:
                after[1 + at] = made[r]
        call = evolve(call, args=tuple(after))
    return tuple([Same(y) if r in tokens else y for r, y in enumerate(ys)])


def _tokens(call: Application) -> dict[int, int | None]:
    """Results that are tokens, of no row, and the operand of the bodies that is the token before, if one is."""
    if is_pure(call.op, call.params.items()):
        return {}
    avals = avals_of_rows(call)[1:]
    shapes, dtypes = tuple([a.shape for a in avals]), tuple([a.dtype for a in avals])
    bodies, batched = call.params["bodies"], _bodies(call)
    given = [n for n, aval in enumerate(avals) if is_token(aval) and not call.is_batched[1 + n]]
    found = dict[int, int | None]()
    for r in range(len(bodies[0].results)):
        i = bodies[0].results[r]
        aval = Aval(shapes_in(bodies[0], shapes)[i], dtypes_in(bodies[0], dtypes)[i])
        if is_token(aval) and not any(each.is_batched[r] for each in batched):
            found[r] = next((n for n in given if all(body.depends(body.results[r], n) for body in bodies)), None)
    return found


def _checked(call: Application, index: Any) -> Any:
    """The index, of which each row names a body: the default, or a RunError, where one does not."""
    o, count = call.o, len(call.params["bodies"])
    if call.params["default"]:
        return o.where(_wrong(call, index), count - 1, index)
    return call.bind(_refused(call, index), index, bodies=(ITSELF,) * count)[0]


def _wrong(call: Application, index: Any) -> Any:
    """Which rows name no body."""
    o, count = call.o, len(call.params["bodies"])
    return o.logical_or(o.less(index, 0), o.less_equal(count, index))


def _refused(call: Application, index: Any) -> Any:
    """One index for all rows: the first that names no body, or 0."""
    o, wrong = call.o, _wrong(call, index)
    first = o.take(never_empty(o, index, call.size), first_row(call, wrong), axis=0)
    return o.where(o.any(wrong, axis=None, keepdims=False), first, o.zeros_like(first))


def _where_chosen(
    call: Application, chosen: Any, body: Body, found: BatchedBody, tokens: Mapping[int, int | None]
) -> Sequence[Any]:
    """A body on all rows, of operands of rows that choose it.

    One that holds bodies, such as loops that might not end, or that raises for some elements, such as an index out of
    range, is computed only if a row chooses it.
    """
    o, reads = call.o, read_by(body)
    row = first_row(call, chosen)
    some = o.any(chosen, axis=None, keepdims=False)
    avals = avals_of_rows(call)[1:]
    dtypes = dtypes_in(body, tuple([a.dtype for a in avals]))
    guarded = any(
        each.op.holds_body or not each.op.takes_all(*[dtypes[i] for i in each.operands], **each.params)
        for each in body.applications
    )
    operands = []
    for n, (x, b) in enumerate(zip(call.args[1:], call.is_batched[1:], strict=True)):
        if n not in reads:
            operands.append(x)
        elif b:
            operands.append(replaced(call, chosen, x, row))
        elif guarded or kind_of(o.dtype(x)) not in "fc":
            operands.append(x)
        else:  # no cotangent flows back where no row chooses the body
            operands.append(o.where(some, x, o.stop_gradient(x)))
    operands += found.captured
    if not guarded:
        values = found.body.values(lambda op, xs, items: o.bind(op, *xs, **dict(items)), operands)
        return [values[i] for i in found.body.results]
    builder = BodyBuilder()
    builder.parameters(len(operands))
    shapes = shapes_in(body, tuple([a.shape for a in avals]))
    passed = {r: zeros(builder, TOKEN) if at is None else at for r, at in tokens.items()}
    nothing = builder.built([
        passed[r] if r in passed else zeros(builder, Aval((call.size, *shapes[i]), dtypes[i]))
        for r, i in enumerate(body.results)
    ])  # fmt: skip
    return tuple(call.bind(some, *operands, bodies=(nothing, found.body)))


# --- functions with a derivative of their own ----------------------------------------------------------------


def custom_of_batches(call: Application) -> Any:
    """The rule of `custom`: all bodies are batched. What has no rows gets the sum of their cotangents."""
    if not call.bodies.makes_nodes or (known(call.size) and call.size == 0):
        return batching.loop(call)
    params, own = call.params, [*call.is_batched]
    avals = avals_of_rows(call)
    body: Body = params["body"]
    moved, reached = params["moved"], params["reached"]
    count = len(params["pulled"].results) - len(reached)
    shapes = shapes_in(body, tuple([a.shape for a in avals]))
    dtypes = dtypes_in(body, tuple([a.dtype for a in avals]))
    results = [Aval(shapes[i], dtypes[i]) for i in body.results]

    def of(each: Body, more: Sequence[Aval], have: Sequence[bool]) -> BatchedBody:
        return call.bodies.of(each, [*avals, *more], [*own, *have], call.size, range(len(each.results)))  # type: ignore[no-any-return]

    has_tangents = params["pushed"] != BACKWARD_ONLY
    found = [
        of(body, (), ()),
        of(params["pushed"], [avals[n] for n in reached], [own[n] for n in reached])
        if has_tangents
        else BatchedBody(BACKWARD_ONLY, (), ()),
        of(params["pulled"], [results[n] for n in moved], [True for _ in moved]),
    ]
    given = [*results, *(results[n] for n in moved)]
    found += [of(back, given, [True for _ in given]) for back in params["back"]]
    captured = [x for each in found for x in each.captured]
    made, before = [], 0
    for each in found:
        made.append(each.with_captured(len(own), before, len(captured) - before - len(each.captured)))
        before += len(each.captured)
    if not has_tangents:
        made[1] = BACKWARD_ONLY
    same = [k for k, n in enumerate(reached) if not own[n]]
    pulled, back = _summed(made[2], [count + k for k in same]), tuple([_summed(each, same) for each in made[3:]])
    return call.bind(*call.args, *captured, body=made[0], pushed=made[1], pulled=pulled, back=back)


def _summed(body: Body, results: Sequence[int]) -> Body:
    """The body, with the sum over all rows in place of some of its results."""
    builder = BodyBuilder()
    values = builder.include(body, builder.parameters(body.parameters))
    found = [values[i] for i in body.results]
    for r in results:
        found[r] = builder.apply(sum_, found[r], axis=(0,), keepdims=False)
    return builder.built(found)
