"""Branches rewritten as wholes: what nobody wants is not computed, and what all bodies pass on goes past them.

Where an index may be that of no body, the branch stays, which refuses it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.declaration import Items
from nnc_func.graph.node import Value
from nnc_func.graph.ops.branch import branch
from nnc_func.graph.rewriting.loops import Apply


def simplified_branch(
    args: Sequence[Value], items: Items, used: Collection[int], apply: Apply
) -> list[Value | None] | None:
    """The results of a branch, from a simpler one and what is around it; None where it is as simple as it may be.

    Parameters
    ----------
    args, items
        Its operands, and its parameters in canonical form.
    used
        Results that are wanted; the others may be None.
    apply
        Makes nodes.
    """
    params = dict(items)
    bodies: tuple[Body, ...] = params["bodies"]
    index, operands = args[0], args[1:]
    sure = params["default"] or index.dtype.kind == "b"  # an index of no body is to be refused
    found: list[Value | None] = [None] * len(bodies[0].results)
    wanted: dict[tuple[int, ...], list[int]] = {}  # by what it is in each body: results that are alike
    for r in sorted(used):
        each = tuple([body.results[r] for body in bodies])
        if sure and len({*each}) == 1 and each[0] < len(operands):
            found[r] = operands[each[0]]
        else:
            wanted.setdefault(each, []).append(r)
    read = {n for body, its in zip(bodies, zip(*wanted, strict=True), strict=True) for n in body.read_by(its)} \
        if wanted else set()  # fmt: skip
    kept = list(dict.fromkeys(operands[n] for n in sorted(read)))
    if len(wanted) == len(found) and len(kept) == len(operands):
        return None
    if wanted:
        made = [_of(body, operands, kept, its) for body, its in zip(bodies, zip(*wanted, strict=True), strict=True)]
        results = apply(branch, (index, *kept), branch.canonical({**params, "bodies": tuple(made)}))
        for value, alike in zip(results, wanted.values(), strict=True):
            for r in alike:
                found[r] = value
    return found


def _of(body: Body, operands: Sequence[Value], kept: Sequence[Value], results: Sequence[int]) -> Body:
    """A body with those results, of those operands alone that are kept."""
    builder = BodyBuilder()
    at = dict(zip(kept, builder.parameters(len(kept)), strict=True))
    known = {n: at[value] for n, value in enumerate(operands) if value in at}
    values = builder.include_partly(body, known)
    return builder.built([values[n] for n in results])
