"""Plans of bodies: whether they fit the instruction that they are in, and compute the body. Part of verification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.engine.loop_instruction import Loop
from nnc_func.engine.plan_rows import DONATED, LENT
from nnc_func.engine.verifying.graphs import Numbers
from nnc_func.errors import PlanError
from nnc_func.graph.ops.create import full

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan


def integers(numbers: Iterable[Any], most: int, what: str) -> None:
    """Raise PlanError unless each is an integer from 0 on below `most`."""
    for n in numbers:
        if type(n) is not int or not 0 <= n < most:
            raise PlanError(f"{n!r} is none of the {most} {what}")


def check_inner(plan: Plan, planned: Loop, body: Body, avals: Sequence[Aval]) -> None:
    """Raise PlanError unless the plan of a body has what this has, whose parameters are of these avals."""
    inner = planned.plan
    if [*planned.carried] != sorted({*planned.carried}):
        raise PlanError(f"{planned.carried} are not parameters, each once")
    integers(planned.gives, len(body.results), "results of the body")
    wanted = {
        "inputs": (len(inner.inputs), body.parameters - len(planned.carried)),
        "variables": (len(inner.variables), len(planned.carried)),
        "outputs": (len(inner.outputs), len(planned.gives)),
        "updates": (len({at for at, _ in inner.updates}), len(planned.carried)),
        "constants": (len(inner.constants), len(planned.literals)),
        "addresses": (len(planned.reads), body.parameters),
        "addresses of what it gives": (len(planned.writes), len(inner.outputs) + len(inner.updates)),
    }
    for what, (given, most) in wanted.items():
        if given != most:
            raise PlanError(f"the plan of its body has {given} {what}, and {most} are wanted")
    integers((at for at, _ in inner.updates), len(inner.variables), "variables of the body's plan")
    if inner.alignment > plan.alignment:
        raise PlanError(
            f"its body's offsets are aligned to {inner.alignment} bytes, in memory aligned to {plan.alignment}"
        )
    if inner.retained is not None or inner.streams > 1 or any(b.kind in (LENT, DONATED) for b in inner.buffers):
        raise PlanError("the plan of its body keeps values, has streams, or lends memory")
    integers((*planned.slots, *planned.targets, *inner.constants), len(inner.slots), "slots of the body's plan")
    for slot, aval in zip(planned.slots, avals, strict=True):
        if inner.slots[slot].aval != aval:
            raise PlanError(f"slot {slot} of its body is {inner.slots[slot].aval!r}; the operand there is {aval!r}")


def check_values(planned: Loop, body: Body, updates: Iterable[int]) -> None:
    """Raise PlanError unless the plan of a body gives the results of the body; `updates` are those of its updates."""
    inner, numbers = planned.plan, Numbers()
    known = {slot: numbers.of("parameter", n) for n, slot in enumerate(planned.slots)}
    for slot, items in zip(inner.constants, planned.literals, strict=True):
        number, aval = dict(items), inner.slots[slot].aval
        if full.key(full.canonical(number)) != full.key(items) or number["shape"] != () or aval.shape != ():
            raise PlanError(f"constant slot {slot} of its body is full({number}), which is no number")
        if number["dtype"] != aval.dtype:
            raise PlanError(f"constant slot {slot} of its body is {aval!r}, and is to be {number}")
        known[slot] = numbers.applied(full, items, (), 1)[0]
    numbers.replayed(inner, known)
    values = [numbers.of("parameter", n) for n in range(body.parameters)]
    for each in body.applications:
        values += numbers.applied(each.op, each.items, [values[n] for n in each.operands], each.count)
    results = [values[n] for n in body.results]
    given = [*zip(inner.outputs, planned.gives, strict=True)]
    given += [(slot, n) for (_, slot), n in zip(inner.updates, updates, strict=True)]
    for slot, n in given:
        if known[slot] != results[n]:
            raise PlanError(f"slot {slot} of its body's plan is not result {n} of the body, which it is to give")
