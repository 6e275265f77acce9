"""Whether each instruction applies its operator as that allows: parameters, dtypes and shapes, kernel, scratch.

Part of verification. What memory each one touches, and when, is `verify`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.bfloat16_emulation import kernel_named
from nnc_func.engine.copying import FILL
from nnc_func.engine.plan_rows import Instruction
from nnc_func.engine.verifying.references import named
from nnc_func.errors import OperatorError, PlanError
from nnc_func.facets.kernels import takes_layouts
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan


def _without(i: Instruction, filled: set[int]) -> Instruction:
    """An instruction without the gaps among its operands."""
    if not filled or not i.view or i.op.parts is None or filled.isdisjoint(i.operands):
        return i
    return evolve(i, operands=tuple([n for n in i.operands if n not in filled]))


def check_applications(plan: Plan) -> None:
    """Raise unless each instruction's results are what its operator gives of its operands, by a kernel that it has.

    Raises
    ------
    PlanError
        Names the instruction, what it is written to be, and what the operator says.
    """
    kinds = [id(s.aval) for s in plan.slots]  # equal avals are one object
    usual: set[Any] = set()  # applications that are known to be right: of two operands and a result, as most are
    others: set[Any] = set()
    filled: set[int] = set()  # gaps, which are operands of no operator
    for t, i in enumerate(plan.instructions):
        op, operands, results = i.op, i.operands, i.results
        if i.loop is not None:
            _check(plan, t, i)
            continue
        if len(operands) == 2 and len(results) == 1 and not i.scratch and not i.view:
            key = (op, id(i.items), i.kernel, kinds[operands[0]], kinds[operands[1]], kinds[results[0]])
            if key not in usual:
                _check(plan, t, i)
                usual.add(key)
            continue
        if op is FILL:
            filled.update(results)
        i = _without(i, filled)
        operands = i.operands
        shown = tuple([kinds[s] for s in (*operands, *results, *i.scratch)])
        application = (op, id(i.items), i.kernel, i.view, len(operands), len(results), shown)
        if application not in others:
            _check(plan, t, i)
            others.add(application)


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


def _check(plan: Plan, t: int, i: Instruction) -> None:
    operands, results, scratch = ([plan.slots[n].aval for n in ns] for ns in (i.operands, i.results, i.scratch))
    try:
        wanted = inferred(i.op, tuple(operands), i.items)
    except PlanError as error:
        raise PlanError(f"{named(plan, t)} is refused: {error}") from None
    if list(wanted) != [a if a.place is None else a.having(place=None) for a in results]:
        told_of = ", ".join(map(repr, results)) or "no results"
        raise PlanError(f"{named(plan, t)} gives {', '.join(map(repr, wanted))}, but {told_of} is written")
    if not i.view and i.loop is None:  # whose body `loops` checks
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
