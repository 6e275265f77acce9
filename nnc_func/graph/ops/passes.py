"""What a backward pass reads of a forward one: the joint body of both, in two."""

from __future__ import annotations

from attrs import frozen

from nnc_func.body import Application, Body, is_pure
from nnc_func.body_builder import BodyBuilder
from nnc_func.graph.ops.move import broadcast_to
from nnc_func.memo import cached_by_body


@frozen
class Passes:
    """A body of values and cotangents, in two.

    Attributes
    ----------
    forward
        Of the operands. Its results are the values, then what `backward` reads besides.
    backward
        Of the operands, the results of `forward`, and cotangents. Its results are cotangents of operands.
    """

    forward: Body
    backward: Body


@cached_by_body(512)
def in_passes(joint: Body, operands: int, values: int) -> Passes:
    """The two passes of a joint body.

    The first computes what the values are made of, and the second all else. What the first one has computed and the
    second one reads is a result of it, unless it is an operand, a number, or a view: these are made again.

    Parameters
    ----------
    joint
        Its parameters are operands, then cotangents of values; its results are the values, then cotangents of operands.
    operands, values
        How many there are.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> rows = (OPS["tanh"], 0), (OPS["exp"], 2), (OPS["multiply"], 1, 2), (OPS["multiply"], 4, 3)
    >>> found = in_passes(Body.of(2, *rows, results=(3, 5)), 1, 1)
    >>> found.forward
    (%0) { %1 = tanh(%0); %2 = exp(%1); return %2, %1 }
    >>> found.backward
    (%0, %1, %2, %3) { %4 = multiply(%3, %2); %5 = multiply(%4, %1); return %5 }
    """
    results, wanted = joint.results[:values], joint.results[values:]
    first, needed, read = {*results}, {*wanted}, set[int]()
    applied = _numbered(joint)
    for each, made in applied:
        if not first.isdisjoint(made):
            first.update(each.operands, made)
    for each, made in applied:
        if needed.isdisjoint(made):
            continue
        if first.isdisjoint(made) or _is_made_again(each):
            needed.update(each.operands)
        else:
            read.update(needed.intersection(made))
    saved = [*results, *sorted(read.difference(results))]
    builder = BodyBuilder()
    found = builder.include_partly(joint, dict(enumerate(builder.parameters(operands))))
    forward = builder.built([found[i] for i in saved])
    builder = BodyBuilder()
    given = dict(enumerate(builder.parameters(operands)))
    given.update(zip(saved, builder.parameters(len(saved)), strict=True))
    flowing = range(operands, joint.parameters)
    given.update(zip(flowing, builder.parameters(len(flowing)), strict=True))
    found = builder.include_partly(joint, given)
    return Passes(forward, builder.built([found[i] for i in wanted]))


def _numbered(body: Body) -> list[tuple[Application, range]]:
    """Each application and the numbers of its results, the last one first."""
    found, number = [], body.parameters
    for each in body.applications:
        found.append((each, range(number, number + each.count)))
        number += each.count
    return found[::-1]


def _is_made_again(each: Application) -> bool:
    """Whether it is a number, or a view of one other value: which takes no memory."""
    if not is_pure(each.op, each.items):
        return False
    return not each.operands or (len(each.operands) == 1 and (each.op.view is not None or each.op is broadcast_to))
