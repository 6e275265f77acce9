"""Bodies without their effects: what computes a loop or a branch a second time prints nothing, and checks nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nnc_func.body import Application, Body, bodies_of
from nnc_func.body_builder import BodyBuilder
from nnc_func.declaration import Items
from nnc_func.errors import DerivativeError
from nnc_func.memo import cached_by_body
from nnc_func.op import Op


def silenced(items: Items) -> Items | None:
    """Parameters of a loop or a branch whose bodies give the same without effects; None where these give something.

    A token passes through where an effect was. A callback that is declared pure stays where its results are read.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> said = Body.of(2, (OPS["print"], 0, 1, {"text": "now"}), (OPS["tanh"], 1), results=(2, 3))
    >>> silenced((("body", said), ("carries", 2)))
    (('body', (%0, %1) { %2 = tanh(%1); return %0, %2 }), ('carries', 2))
    """
    return _with_bodies(items, {body: _silent(body, False) for body in bodies_of(items)})


def without_effects(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a loop or a branch that is computed a second time, for its derivative.

    Raises
    ------
    DerivativeError
        It is made of what effects give.
    """
    found = silenced(tuple(params.items()))
    if found is None:
        raise DerivativeError(
            "a derivative of forward mode, or of a loop that nothing bounds, computes a loop or a branch again without "
            "its effects, but these give what it is made of (ops.callback); compute that outside, or say "
            "max_iterations=, or that it is pure=True"
        )
    return dict(found)


def unasked(body: Body) -> Body:
    """The body without pure callbacks whose results nobody reads; all other effects stay.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> asked = {"function": bool, "shapes": ((),), "dtypes": ("bool",), "pure": True}
    >>> body = Body(2, [Application(OPS["callback"], (0, 1), asked, 2), Application(OPS["tanh"], (1,))], (2, 4))
    >>> unasked(body)
    (%0, %1) { %2 = tanh(%1); return %0, %2 }
    """
    found = _silent(body, True)
    assert found is not None
    return found


def of_results(body: Body, results: Sequence[int]) -> Body:
    """The body with other results, and without what these do not need."""
    builder = BodyBuilder()
    values = builder.include(body, builder.parameters(body.parameters))
    return builder.built([values[i] for i in results])


def unconditional(body: Body, constants: int) -> Body:
    """The body of a conditional loop where the number of times is known: its condition is carried, and not computed."""
    return unasked(of_results(body, (constants, *body.results[1:])))


def asks(body: Body) -> bool:
    """Whether it is made of what pure callbacks give, at some depth: computing it again calls these again."""
    found = _silent(body, False)
    return found is not None and not found.is_pure


@cached_by_body(1024)
def only_asks(body: Body) -> bool:
    """Whether its effects, at any depth, are pure callbacks: nothing is lost where nobody wants what it gives."""
    return all(
        all(map(only_asks, bodies_of(each.items))) if each.op.holds_body else not each.op.effect or _is_question(each)
        for each in body.applications
    )


def asked(op: Op, items: Items) -> Iterator[Any]:
    """The functions that pure callbacks call in an application, itself one or at some depth."""
    params = dict(items)
    if op.effect and params.get("pure"):
        yield params["function"]
    for body in bodies_of(items):
        for each in () if body.is_pure else body.applications:
            yield from asked(each.op, each.items)


def _is_question(each: Application) -> bool:
    return bool(each.op.effect and each.count > 1 and each.params.get("pure"))


def _with_bodies(items: Items, found: Mapping[Body, Body | None]) -> Items | None:
    if not found:
        return items
    if None in found.values():
        return None

    def of(value: Any) -> Any:
        return tuple(map(of, value)) if type(value) is tuple else found.get(value, value)

    return tuple([(name, of(value)) for name, value in items])


@cached_by_body(1024)
def _silent(body: Body, speaks: bool) -> Body | None:
    """It without effects; or, where it `speaks`, without pure callbacks whose results nobody reads."""
    if body.is_pure:
        return body
    read, number = {*body.results}, body.parameters + sum([each.count for each in body.applications])
    wanted: list[bool] = []  # from the last one on: whether what an effect gives is read
    for each in reversed(body.applications):
        number -= each.count
        wanted.append(not read.isdisjoint(range(number + each.op.effect, number + each.count)))
        read.update(each.operands if wanted[-1] else each.operands[: int(each.op.effect)])
    builder = BodyBuilder()
    values = builder.parameters(body.parameters)
    for each, is_wanted in zip(body.applications, reversed(wanted), strict=True):
        operands, items = [values[i] for i in each.operands], each.items
        if not each.op.effect:
            inside = {body: _silent(body, speaks) for body in bodies_of(items)}
            made = _with_bodies(items, inside)
            if made is None:
                return None
            items = made
        elif not is_wanted and (_is_question(each) or not speaks):
            values += operands[:1] * each.count  # nobody reads the others
            continue
        elif not (speaks or _is_question(each)):
            return None
        values += builder.applied(each.op, operands, items, each.count)
    return builder.built([values[i] for i in body.results])
