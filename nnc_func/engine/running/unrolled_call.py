"""A program's call as one function written out: inputs are looked at, kernels called, fresh results returned.

What a frame's argument lists hold for other programs, and have to be given before a run and to forget after it, are
variables of the function here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from nnc_func.device.shared import views
from nnc_func.device.shared.unrolled import Text
from nnc_func.engine.linkers.base import failure
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import LENT
from nnc_func.engine.running import array_views
from nnc_func.engine.running.inputs import converted, refuse_count
from nnc_func.engine.running.lasting import Lasting, lasting_slots
from nnc_func.engine.running.results import ALONE, Recycled, lodgers
from nnc_func.graph.leaves import Variable

if TYPE_CHECKING:
    from nnc_func.engine.linkers.kernel_calls import Frame

MOST = 64  # kernels, and slots that are other arrays at each call, beyond which a call costs little beside them


def is_unrolled(plan: Plan) -> bool:
    """Whether a call of the plan's is worth being written out."""
    moving = sum(len(i.operands) + len(i.results) for i in plan.instructions[: MOST + 1])
    return len(plan.instructions) <= MOST and moving <= 4 * MOST and plan.streams == 1


def written(
    frame: Frame,
    inputs: Sequence[tuple[int, Any, Any]],
    results: Sequence[tuple[int, Recycled]],
    variables: Sequence[tuple[int, Variable]],
) -> Callable[[Any, bool], list[Any]]:
    """The function that runs a frame's kernels; see `Executable.as_function`. Its plan `is_unrolled`."""
    plan, device = frame.plan, frame.device
    text = Text("inputs", "known")
    value = text.value
    names: dict[int, str] = {}  # slot -> variable
    count = len(inputs)
    text.line(f"if len(inputs) != {count}: {value(refuse_count)}({value(plan)}, inputs)")
    if count:
        text.line(f"{', '.join([names.setdefault(slot, text.name()) for slot, *_ in inputs])}, = inputs")
    own = value(device.array_type)
    for slot, shape, dtype in inputs:
        x, other = names[slot], value(partial(converted, device, plan, slot))
        is_it = f"known or type({x}) is {own} and {x}.dtype is {value(dtype)} and {x}.shape == {value(shape)}"
        text.line(f"if not ({is_it}): {x} = {other}({x})")
        _show(text, frame, slot, names, checked=True)
    told = lasting_slots(plan)
    for slot, variable in variables:
        if slot in told:
            seen = value(Lasting(device, variable))
            text.line(f"if {seen}.version != {value(variable)}.version: {seen}.tell()")
        text.line(f"{names.setdefault(slot, text.name())} = {value(variable)}.array")
        _show(text, frame, slot, names, checked=True)
    for slot, buffers in results:
        r, there = names.setdefault(slot, text.name()), value(buffers.buffers)
        is_held = f"{value(getrefcount)}({r}) > {ALONE}"  # as `Recycled.take` looks
        text.line(f"{r} = {there}[0]")
        text.line(f"if {is_held}:")
        text.line(f"  {r} = {there}[-1]")
        text.line(f"  if {is_held}: {r} = {value(buffers.take)}()")
        _show(text, frame, slot, names)
    for output, slots in lodgers(plan, LENT).items():
        for slot in slots:
            made = value(partial(array_views.housed, device, plan, slot))
            names[slot] = text.name()
            text.line(f"{names[slot]} = {made}({names[results[output][0]]})")
            _show(text, frame, slot, names)
    _call(text, plan, frame, names)
    text.line(f"return [{', '.join([names[slot] for slot, _ in results])}]")
    return text.function()


def _call(text: Text, plan: Plan, frame: Frame, names: dict[int, str]) -> None:
    """The kernels, one a line: so that the line tells which one failed."""
    if not frame.calls:
        return
    shown: dict[int, dict[int, str]] = {}
    for slot, patches in frame.patches.items():
        for args, position in patches:
            shown.setdefault(id(args), {})[position] = names[slot]
    first = text.line("try:") + 1
    for call, args in frame.calls:
        its = shown.get(id(args), {})
        given = [its[i] if i in its else text.value(a) for i, a in enumerate(args)]
        text.line(f"  {text.value(call)}({', '.join(given)})")
    t = f"{text.value(frame.order)}[error.__traceback__.tb_lineno - {first}]"
    text.line("except Exception as error:")
    text.line(f"  raise {text.value(failure)}({text.value(plan)}, {t}, error) from error")


def _show(text: Text, frame: Frame, root: int, names: dict[int, str], checked: bool = False) -> None:
    """Views of what a slot is; of an input only where it lies as the views suppose, else they are asked for."""
    x, places = names[root], frame.located.get(root)
    shown = frame.views.get(root, [])
    made = [slot for *_, result in shown for slot in views.slots(result)]
    names.update({slot: text.name() for slot in made})
    indent = ""
    if places is not None:
        if checked and places[1]:
            text.line(f"if {x}.flags.c_contiguous:")
            indent = "  "
        for slot, shape, dtype, offset, strides in places[1]:
            facts = ", ".join(map(text.value, (shape, dtype)))
            lies = ", ".join(map(text.value, (offset, strides)))
            text.line(f"{indent}{names[slot]} = {text.value(frame.device.views.at)}({facts}, {x}, {lies})")
        if not indent:
            return
        text.line("else:")
    for call, operand, result in shown:
        targets = ", ".join([names[slot] for slot in views.slots(result)])
        text.line(f"{indent}{targets}{',' * (type(result) is tuple)} = {text.value(call)}({names[operand]})")
