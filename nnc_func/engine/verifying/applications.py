"""Whether each instruction applies its operator as that allows: parameters, dtypes and shapes, kernel, scratch.

Part of verification. What memory each one touches, and when, is `verify`'s.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from attrs import evolve

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.shared.narrow_emulation import kernel_named
from nnc_func.engine.copying import FILL
from nnc_func.engine.plan_rows import Instruction
from nnc_func.engine.verifying.columns import Columns, alike
from nnc_func.engine.verifying.references import named
from nnc_func.errors import OperatorError, PlanError
from nnc_func.facets.kernels import takes_layouts
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan


def check_applications(plan: Plan, columns: Columns, is_whole: bool) -> None:
    """Raise unless each instruction's results are what its operator gives of its operands, by a kernel that it has.

    `is_whole`: of a program, which has variables, not of a loop's body.

    Raises
    ------
    PlanError
        Names the instruction, what it is written to be, and what the operator says.
    """
    rows = plan.instructions
    without = _without_gaps(plan)
    every, size = columns.avals[columns.used].tobytes(), columns.avals.itemsize  # equal avals are one object
    avals: list[Any] = [every[start:end] for start, end in pairwise([0, *(columns.ends * size).tolist()])]
    counts = columns.operands.tolist()
    for t, i in without.items():
        counts[t] = len(i.operands)
        avals[t] = columns.avals[[*i.operands, *i.results, *i.scratch]].tobytes()
    for t in [t for t, i in enumerate(rows) if i.loops]:
        avals[t] = t  # which is no other's
    facts = zip(rows, counts, columns.results.tolist(), avals, strict=True)
    for t in alike([(i.op, id(i.items), i.kernel, i.view, n, m, shown) for i, n, m, shown in facts]):
        _check(plan, t, without.get(t, rows[t]))
    _check_lasting(plan, is_whole)


def _check_lasting(plan: Plan, is_whole: bool) -> None:
    """Raise unless operands that a kernel puts into order once are constants, or variables that the plan only reads."""
    lasting: dict[tuple[Op, str], tuple[int, ...]] = {}
    updated = {at for at, _ in plan.updates}
    read = {slot for at, slot in enumerate(plan.variables) if at not in updated} if is_whole else set()
    stays = read.union(plan.constants)
    for t, i in enumerate(plan.instructions):
        positions = lasting.get((i.op, i.kernel))
        if positions is None:
            kernel = None if i.view else kernel_named(i.op, i.kernel)
            positions = lasting[i.op, i.kernel] = () if kernel is None else kernel.lasting
        for n in positions:
            if i.operands[n] not in stays:
                raise PlanError(
                    f"{named(plan, t)}: the kernel {i.kernel!r} puts operand {n} into order once, which must be a "
                    f"constant or a variable that is not written, not slot {i.operands[n]}"
                )


def _without_gaps(plan: Plan) -> dict[int, Instruction]:
    """Instructions that have gaps among their operands, which are operands of no operator: as they are without."""
    if FILL not in {i.op for i in plan.instructions}:
        return {}
    found: dict[int, Instruction] = {}
    filled: set[int] = set()
    for t, i in enumerate(plan.instructions):
        if i.op is FILL:
            filled.update(i.results)
        elif i.view and i.op.parts is not None and not filled.isdisjoint(i.operands):
            found[t] = evolve(i, operands=tuple([n for n in i.operands if n not in filled]))
    return found


def inferred(op: Op, avals: tuple[Aval, ...], items: Items) -> tuple[Aval, ...]:
    """What the operator gives of such operands.

    Raises
    ------
    PlanError
        It does not take them.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> inferred(CATALOGUE["add"], (Aval((2, 1), "float32"), Aval((3,), "float32")), ())
    (float32[2, 3],)
    """
    params = dict(items)
    try:
        op.check_arity(len(avals))
        if op.canonical(params) != items:
            raise OperatorError("the parameters are not in the operator's own order and form")
        dtype = op.dtype(*(a.dtype for a in avals), **params)
        shape = op.shape(*(a.shape for a in avals), **params)
        pairs = zip(shape, dtype, strict=True) if op.multi_result else ((shape, dtype),)
        return tuple([Aval(s, d, op.layout(avals, s, **params)) for s, d in pairs])
    except Exception as error:  # rules see parameters that nobody has checked
        said = ", ".join([*map(repr, avals), *(f"{k}={v!r}" for k, v in items)])
        raise PlanError(f"{op.name}({said}): {error}") from None


def check_results(plan: Plan, i: Instruction, name: str) -> None:
    """Raise unless an instruction's results are what its operator gives of its operands; messages say that name.

    Raises
    ------
    PlanError
        The operator does not take such operands, or gives others.
    """
    try:
        wanted = inferred(i.op, tuple([plan.slots[n].aval for n in i.operands]), i.items)
    except PlanError as error:
        raise PlanError(f"{name} is refused: {error}") from None
    results = [plan.slots[n].aval for n in i.results]
    if list(wanted) != [a if a.place is None else a.having(place=None) for a in results]:
        told_of = ", ".join(map(repr, results)) or "no results"
        raise PlanError(f"{name} gives {', '.join(map(repr, wanted))}, but {told_of} is written")


def _check(plan: Plan, t: int, i: Instruction) -> None:
    check_results(plan, i, named(plan, t))
    if not i.view and not i.loops:  # whose bodies `loops` checks
        operands, scratch = ([plan.slots[n].aval for n in ns] for ns in (i.operands, i.scratch))
        _check_kernel(plan, t, i, tuple(operands), scratch)


def _check_kernel(plan: Plan, t: int, i: Instruction, operands: tuple[Aval, ...], scratch: list[Aval]) -> None:
    params = dict(i.items)
    kernel = kernel_named(i.op, i.kernel)
    if kernel is None:
        there = ", ".join(k.name for k in i.op.kernels)
        raise PlanError(f"{named(plan, t)} has no kernel {i.kernel!r}; there are: {there}")
    try:
        accepted = takes_layouts(kernel, i.op, operands, params) and kernel.accepts(operands, **params)
        wanted = [Aval(*s) for s in kernel.scratch(operands, **params)] if kernel.scratch is not None else []
        given = [Aval(a.shape, a.dtype) for a in scratch]
    except Exception as error:  # kernels see parameters that nobody has checked
        raise PlanError(f"{named(plan, t)}: {error}") from None
    if not accepted:
        raise PlanError(f"{named(plan, t)}: the kernel {i.kernel!r} does not take {', '.join(map(repr, operands))}")
    if wanted != given:
        raise PlanError(f"{named(plan, t)}: the kernel {i.kernel!r} wants scratch {wanted}, given {given}")
