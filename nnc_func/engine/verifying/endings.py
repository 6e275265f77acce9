"""What outlives a run: outputs, updates, and the memory that outputs lend before they are written; for the verifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnc_func.device.shared.narrow_emulation import kernel_named
from nnc_func.engine.plan_rows import ARENA, CONSTANT, DONATED, INPUT, LENT, NEXT, OUTPUT, VARIABLE
from nnc_func.engine.verifying.arena_overlap import meeting
from nnc_func.engine.verifying.references import named
from nnc_func.errors import PlanError

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

LEAF = -1  # where a slot is made that no instruction makes


def ends(replay: Any) -> None:
    """Each output is a fresh buffer, each update that or the variable's own, and nothing else is written."""
    plan = replay.plan
    taken = {_final(replay, slot, f"output {at}", at, (OUTPUT,)) for at, slot in enumerate(plan.outputs)}
    targets: set[int] = set()
    for variable, slot in plan.updates:
        if not 0 <= variable < len(plan.variables) or variable in targets:
            raise PlanError(f"an update of variable {variable}: not one of {len(plan.variables)}, or updated twice")
        targets.add(variable)
        taken.add(_final(replay, slot, f"the update of variable {variable}", variable, (NEXT, VARIABLE)))
        wanted, found = plan.slots[plan.variables[variable]].aval, plan.slots[slot].aval
        if wanted != found:
            raise PlanError(f"variable {variable} is {wanted!r}, its update, slot {slot}, is {found!r}")
    for number, writer in enumerate(replay.writer):
        if writer != LEAF and plan.buffers[number].kind not in (ARENA, LENT, DONATED) and number not in taken:
            raise PlanError(
                f"{replay.named(writer)} writes to {replay.describe(number)}, "
                "which is not where that output or update is"
            )
    if plan.commit < len(plan.instructions) and not plan.updates:  # what commits nothing is not run
        raise PlanError(f"{named(plan, plan.commit)} is in a commit section, but no variable has an update")


def check_commit(plan: Plan) -> None:
    """In the commit section no kernel can fail: some variables might have been written, and others not.

    Raises
    ------
    PlanError
        The first instruction there whose kernel is not declared infallible, or needs memory of its own.
    """
    for t in range(plan.commit, len(plan.instructions)):
        kernel = _kernel(plan.instructions[t])
        if plan.instructions[t].loops or (kernel is not None and not kernel.certain):
            raise _uncertain(plan, t, "")


def commits(replay: Any) -> None:
    """What is read and written in the commit section lies as its kernels want it; others would need memory.

    Raises
    ------
    PlanError
        The first instruction there that would.
    """
    plan = replay.plan
    for t in range(plan.commit, len(plan.instructions)):
        i = plan.instructions[t]
        kernel = _kernel(i)
        if kernel is not None and kernel.copies_strided:
            strided = [s for s in (*i.operands, *i.results) if not _is_contiguous(replay, s)]
            if strided:
                raise _uncertain(plan, t, f", for slot {strided[0]} is not contiguous")


def _kernel(i: Any) -> Any:
    """None where there is none of that name, which is refused where applications are checked."""
    return None if i.view else kernel_named(i.op, i.kernel)


def _uncertain(plan: Plan, t: int, why: str) -> PlanError:
    return PlanError(
        f"{named(plan, t)} is in the commit section, which starts at {plan.commit}, but its kernel "
        f"{plan.instructions[t].kernel!r} may fail{why}: variables might be written by then"
    )


def _is_contiguous(replay: Any, slot: int) -> bool:
    return replay.plain[slot] and replay.region[slot].is_compact and replay.plan.slots[slot].aval.layout is None


def outlives(replay: Any) -> None:
    """Outputs and updates are leaves, or in buffers that hold one value for ever; nothing but the arena is written.

    Raises
    ------
    PlanError
        The first contradiction.
    """
    plan = replay.plan
    retained = set(plan.retained)
    values = [0] * len(plan.buffers)
    for slot, made in enumerate(replay.made):
        values[plan.slots[slot].buffer] += made >= 0 and not plan.slots[slot].is_view
    for number in sorted(retained):
        buffer = plan.buffers[number] if 0 <= number < len(plan.buffers) else None
        if buffer is None or buffer.kind != ARENA:
            raise PlanError(f"buffer {number} is to outlive the run, but is none of the arena")
        if buffer.lower > 0 or buffer.upper <= len(plan.instructions):
            raise PlanError(f"buffer {number} is to outlive the run, but is alive in [{buffer.lower}, {buffer.upper})")
        if values[number] != 1:
            raise PlanError(f"buffer {number} is to outlive the run, so it holds one value, not {values[number]}")
    shown = [(f"output {at}", slot) for at, slot in enumerate(plan.outputs)]
    for what, slot in (*shown, *((f"the update of variable {at}", slot) for at, slot in plan.updates)):
        number = replay.read(what, slot)
        if number not in retained and plan.buffers[number].kind not in (INPUT, VARIABLE, CONSTANT):
            raise PlanError(f"{what} is slot {slot}, in {replay.describe(number)}, which does not outlive the run")
    for number, writer in enumerate(replay.writer):
        if writer >= 0 and plan.buffers[number].kind != ARENA:
            raise PlanError(f"{replay.named(writer)} writes to {replay.describe(number)}, but the run may not")


def loans(replay: Any) -> None:
    """Memory of an output is lent to what fits, each byte to one at a time, and given back before it is written."""
    plan = replay.plan
    for output, numbers in _housed(plan, LENT).items():
        if not 0 <= output < len(plan.outputs):
            raise PlanError(f"buffer {numbers[0]} is lent by output {output}, of {len(plan.outputs)}")
        home = plan.slots[plan.outputs[output]].buffer
        _apart(plan, f"output {output}", "which lends it", home, numbers)
        last = max(numbers, key=lambda number: plan.buffers[number].upper)
        if plan.buffers[last].upper > replay.first[home]:
            raise PlanError(
                f"buffer {last} lives in the memory of output {output} until {plan.buffers[last].upper}, "
                f"but {replay.named(replay.first[home])} writes that output before"
            )


def donations(replay: Any) -> None:
    """Memory of an input that was given up houses what fits after its last use, each byte one at a time."""
    plan = replay.plan
    for source, numbers in _housed(plan, DONATED).items():
        home = plan.slots[plan.inputs[source]].buffer if 0 <= source < len(plan.inputs) else -1
        if home < 0 or plan.buffers[home].kind != DONATED or plan.buffers[home].lower or plan.buffers[home].offset:
            raise PlanError(f"buffer {numbers[0]} lives in the memory of input {source}, which is not given up")
        others = [number for number in numbers if number != home]
        for number in others:
            if plan.buffers[number].lower < plan.buffers[home].upper:
                at = plan.buffers[number].lower
                raise PlanError(f"input {source} is memory of buffers {home} and {number} at the same time, {at}")
        _apart(plan, f"input {source}", "which is given up", home, others)


def _housed(plan: Plan, kind: str) -> dict[int, list[int]]:
    """The buffers that live in each output, or each input."""
    found: dict[int, list[int]] = {}
    for number, buffer in enumerate(plan.buffers):
        if buffer.kind == kind:
            found.setdefault(buffer.source, []).append(number)
    return found


def _apart(plan: Plan, memory: str, why: str, home: int, numbers: Sequence[int]) -> None:
    """Raise PlanError unless buffers fit in the memory that houses them, and are apart there while they are alive."""
    room, buffers = plan.buffers[home].nbytes, plan.buffers
    for number in numbers:
        b = buffers[number]
        if b.offset < 0 or b.offset % plan.alignment or b.offset + b.nbytes > room:
            raise PlanError(
                f"buffer {number}, bytes [{b.offset}, {b.offset + b.nbytes}), does not fit in the memory of {memory}, "
                f"{room} bytes, {why}: offsets are multiples of {plan.alignment}"
            )
    some = [number for number in numbers if buffers[number].nbytes and buffers[number].lower < buffers[number].upper]
    lodgers = [buffers[number] for number in some]
    lows, highs = [b.offset for b in lodgers], [b.offset + b.nbytes for b in lodgers]
    hurt = meeting(lows, highs, [b.lower for b in lodgers], [b.upper for b in lodgers])
    if hurt is not None:
        one, other = sorted(some[at] for at in hurt)
        at = max(buffers[one].lower, buffers[other].lower)
        raise PlanError(f"{memory} houses buffers {one} and {other} at the same time, {at}, and in the same bytes")


def _final(replay: Any, slot: int, what: str, position: int, kinds: tuple[str, ...]) -> int:
    """The buffer of a slot that outlives the run: written by an instruction, and the place of just that."""
    number: int = replay.read(what, slot)
    buffer = replay.plan.buffers[number]
    if buffer.kind not in kinds or buffer.source != position:
        raise PlanError(
            f"{what} is slot {slot}, which lives in {replay.describe(number)}; it must be copied to a buffer of its own"
        )
    if replay.plan.slots[slot].is_view or replay.made[slot] == LEAF:
        raise PlanError(f"{what} is slot {slot}, which is a view or a leaf; it must be copied to its own buffer")
    replay.whole(slot, what)
    return number
