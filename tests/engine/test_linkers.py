"""Linkers of a user's own: every kind of program runs by them, and sees what they do (`engine/linkers/base`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.device.shared.narrow_emulation import kernel_named
from nnc_func.engine.linkers.base import Executable, failure
from nnc_func.engine.linkers.kernel_calls import link
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import ARENA, Instruction
from nnc_func.engine.running import array_views, loops
from nnc_func.engine.running.observers import Application, Observer, observed
from nnc_func.errors import CommitError, NncError, PlanError
from nnc_func.graph.ops.branch import chosen
from nnc_func.testing.programs import Program, programs

LAZY = nnc.lazy()
X = np.linspace(0.1, 1, 4, dtype="float32")


class Slow:
    """An executable of nothing but the plan: nothing is bound before a run, each view is taken when it is read."""

    def __init__(self, plan: Plan, device: Any, constants: Sequence[Any], memory: Mapping[Any, Any]) -> None:
        self.plan, self.device, self.memory = plan, device, memory
        self.given: dict[int, Any] = dict(zip(plan.constants, constants, strict=True))
        self.passing: set[int] = set()
        self.shown = {s: i for i in plan.instructions if i.view for s in i.results}
        self.whole = {plan.slots[s].buffer: s for s in (*plan.outputs, *(s for _, s in plan.updates))}

    def put(self, slot: int, array: Any) -> None:
        self.given[slot] = array
        self.passing.add(slot)

    def keep(self, slot: int, array: Any) -> None:
        self.given[slot] = array
        self.passing.discard(slot)

    def forget(self) -> None:
        for slot in self.passing:
            del self.given[slot]
        self.passing.clear()

    def array(self, slot: int) -> Any:
        if slot in self.given:
            return self.given[slot]
        s, plan = self.plan.slots[slot], self.plan
        if slot in self.shown and self.shown[slot].op.view is not None:
            i = self.shown[slot]
            made = self.device.viewing(i.op, i.items)(self.array(i.operands[i.op.view.argument]))
            return made[i.results.index(slot)] if i.op.multi_result else made
        buffer = plan.buffers[s.buffer]
        if buffer.kind == ARENA:
            return array_views.part(self.device, s, self.memory[buffer.place], buffer.offset)
        return array_views.part(self.device, s, self.array(self.whole[s.buffer]))

    def section(self, instructions: Sequence[int]) -> SlowSection:
        return SlowSection(self, [t for t in instructions if not self.plan.instructions[t].view])

    def as_function(self, *_: Any, **__: Any) -> None:
        """None: it is as slow each time."""

    def call(self, t: int) -> tuple[Callable[..., None], list[Any]]:
        i = self.plan.instructions[t]
        arrays = [self.array(s) for s in (*i.operands, *i.results)]
        scratch = tuple([self.array(s) for s in i.scratch])
        if i.loops:
            return partial(self.repeat, i, scratch), arrays
        kernel = kernel_named(i.op, i.kernel)
        return self.device.writing(i.op, kernel, i.items, len(i.results), scratch), arrays

    def repeat(self, i: Instruction, scratch: tuple[Any, ...], *given: Any) -> None:
        """A loop, or the body of a branch that is chosen: its plan is linked anew each time, by this linker."""
        params = dict(i.items)
        device, arrays, is_branch = self.device, (*given, *scratch), i.op.name == "branch"
        loop = i.loops[chosen(device.decision(given[0]), len(i.loops), params["default"]) if is_branch else 0]
        own = [place for place, nbytes in loop.plan.arenas.items() if nbytes]
        arenas = dict.fromkeys(loop.plan.arenas, device.arena(0)) | dict(zip(own, scratch, strict=False))

        def at(number: int, row: int | None) -> Any:
            return arrays[number] if row is None else device.row(arrays[number], row)

        most = loop.count if loop.limit is None else max(0, min(loop.count, device.decision(arrays[loop.limit])))
        late, n = loop.count - most, 0
        while n < most and (loop.condition is None or device.decision(at(*loop.reads[loop.condition].at(n, late)))):
            body = Slow(loop.plan, device, loops.constants_of(loop, device), arenas)
            for slots, address in loops.places_of(loop):
                for slot in slots:
                    body.put(slot, at(*address.at(n, late)))
            body.section(range(len(loop.plan.instructions))).run()
            n += 1
        ends = [(result, *loop.reads[parameter].at(n, late)) for result, parameter in enumerate(loop.ends)]
        for result, *where in (*loop.copies, *ends):
            arrays[len(i.operands) + result][...] = at(*where)
        for address in loop.writes if loop.is_open else ():
            for row in range(n, loop.count) if address.step else ():
                at(address.cycle[0], row)[...] = 0


class SlowSection:
    """Some instructions of one."""

    def __init__(self, executable: Slow, instructions: Sequence[int]) -> None:
        self.of, self.instructions, self.started = executable, instructions, 0

    def run(self) -> None:
        for _ in self.walk(()):
            pass

    def walk(self, watching: Sequence[Observer], wait: Any = None, first: int = 0) -> Iterator[Application]:
        for number, t in enumerate(self.instructions, first):
            i = self.of.plan.instructions[t]
            self.started = number - first + 1
            call, arrays = self.of.call(t)
            found = Application(self.of.device, number, t, i.op, i.items, i.origin, i.kernel)
            found.arguments, found.outs = arrays[: len(i.operands)], arrays[len(i.operands) :]
            observed(found, partial(call, *arrays), watching, wait, partial(failure, self.of.plan, t))
            yield found


def linked(linker: Any = Slow, stack: Any = LAZY) -> Any:
    return stack.swap(engine=stack.engine.with_linker(linker))


SLOW = linked()


# --- every kind of program ---------------------------------------------------------------------------------


@given(programs() | programs(control_flow=True), st.sampled_from(["none", "frontier", "all"]))
def test_programs_run_as_well_by_a_linker_that_is_nothing_like_ours(drawn: Program, retain: str) -> None:
    ours, theirs = (drawn.build(stack, retain) for stack in (LAZY, SLOW))
    for number in (0, 1, 0):
        feeds = drawn.feeds(number)
        for a, b in zip(ours(*feeds), theirs(*feeds), strict=True):
            np.testing.assert_array_equal(a, b)
        for a, b in zip(ours.state(), theirs.state(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_each_kind_of_program_is_linked_by_the_engines(tmp_path: Path) -> None:
    """Compiled, with unknown extents, incremental, jitted, forced, tuned, over other variables, loaded, of a text."""
    seen: list[str] = []

    def told(plan: Plan, device: Any, constants: Sequence[Any], memory: Mapping[Any, Any]) -> Executable:
        seen.append(plan.name)
        return link(plan, device, constants, memory)

    def counted(act: Callable[[], Any]) -> Any:
        seen.clear()
        found = act()
        assert seen
        return found

    stack = linked(told)
    x, n = stack.input("x", (4,), "float32"), stack.input("n", ("n",), "float32")
    w = stack.variable("w", X)
    program = stack.compile([x], [x * w], updates=[(w, w + x)])
    np.testing.assert_array_equal(counted(lambda: program(X))[0], X * X)
    np.testing.assert_array_equal(counted(lambda: stack.compile([n], n + 1)(X)), X + 1)
    kept = counted(lambda: stack.compile([x], stack.ops.exp(x) * 2, retain="all"))
    np.testing.assert_array_equal(kept(X), np.exp(X) * np.float32(2))
    np.testing.assert_array_equal(counted(lambda: stack.jit(lambda x: x * 3)(X)).numpy(), X * 3)
    np.testing.assert_array_equal(counted(lambda: (stack.asarray(X) * 5).numpy()), X * 5)
    other = program.over([stack.carrier(stack.variable("w", X))])
    np.testing.assert_array_equal(counted(lambda: other(X))[0], X * X)
    square = stack.compile([x], stack.ops.outer(x, x) @ x)
    counted(lambda: square.autotune(X, budget=0.02).program(X))
    square.save(tmp_path / "square.program")
    read = counted(lambda: nnc.load_program(tmp_path / "square.program", stack))
    np.testing.assert_array_equal(read(X), square(X))
    counted(lambda: stack.program(Plan.parse(square.plan.text(), stack)))


def test_what_a_linker_does_is_seen() -> None:
    """One that runs the kernels on twice the inputs."""

    class Doubling(Slow):
        def put(self, slot: int, array: Any) -> None:
            super().put(slot, array * 2 if slot in self.plan.inputs else array)

    stack = linked(Doubling)
    x = stack.input("x", (4,), "float32")
    program = stack.compile([x], x + 1)
    for _ in range(3):
        np.testing.assert_array_equal(program(X), X * 2 + 1)


def test_a_linker_is_a_function_and_a_part_of_the_engine() -> None:
    with pytest.raises(PlanError, match="linker is a function"):
        LAZY.engine.with_linker("c")
    assert linked() == SLOW
    assert linked() != LAZY
    assert linked(link) == LAZY


@pytest.mark.parametrize("retain", ["none", "all"])
@pytest.mark.parametrize("made", [None, 3, Slow])
def test_a_linker_that_returns_no_executable_is_refused_by_name(made: Any, retain: str) -> None:
    def mistaken(*of: Any) -> Any:
        return made

    stack = linked(mistaken)
    x = stack.input("x", (4,), "float32")
    with pytest.raises(PlanError, match=r"mistaken made .* put, keep, array"):
        stack.compile([x], stack.ops.exp(x) + 1, retain=retain)(X)


# --- the sessions' part ------------------------------------------------------------------------------------


def test_a_failure_leaves_variables_and_names_the_line() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("no")

    for stack in (SLOW, LAZY):
        x, w = stack.input("x", (4,), "float32"), stack.variable("w", X)
        token, y = stack.ops.callback(x, function=fails, shapes=((4,),), dtypes=("float32",), after=stack.token())
        program = stack.compile([x], [y], updates=[(w, w + y)], effects=[token])
        with pytest.raises(NncError, match=r"test_linkers\.py.*no"):
            program(X)
        np.testing.assert_array_equal(w.numpy(), X)


def test_a_commit_section_that_is_torn_says_so() -> None:
    class Torn(SlowSection):
        def run(self) -> None:
            raise KeyboardInterrupt

    class Tearing(Slow):
        def section(self, instructions: Sequence[int]) -> SlowSection:
            late = isinstance(instructions, range) and 0 < instructions.start < instructions.stop
            return (Torn if late else SlowSection)(self, super().section(instructions).instructions)

    stack = linked(Tearing)
    x, w = stack.input("x", (4,), "float32"), stack.variable("w", X)
    program = stack.compile([x], [stack.ops.cumulative_sum(x, axis=0)], updates=[(w, w + x)])
    assert 0 < program.plan.commit < len(program.plan.instructions)
    with pytest.raises(CommitError, match="'w'"):
        program(X)


def test_subsets_are_sections_of_one_executable() -> None:
    """An incremental program links its plan once, and runs parts of it."""
    made: list[Slow] = []
    ran: list[Sequence[int]] = []

    class Counting(Slow):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

        def section(self, instructions: Sequence[int]) -> SlowSection:
            ran.append(instructions)
            return super().section(instructions)

    stack = linked(Counting)
    x, y = stack.input("x", (4,), "float32"), stack.input("y", (4,), "float32")
    slow = stack.ops.cumulative_sum(x, axis=0)
    program = stack.compile([x, y], [stack.ops.cumulative_sum(slow[1:] * y[1:], axis=0)], retain="frontier")
    for a, b in ((X, X), (X, X * 2), (X * 3, X * 2), (X * 3, X), (X, X)):
        wanted = np.cumsum(np.cumsum(a)[1:] * b[1:])
        np.testing.assert_allclose(program(a, b)[0], wanted, rtol=1e-5)
    assert len(made) == 1
    assert len({len(each) for each in ran}) > 1
    assert len(ran) < 5  # the same leaves changed: the same section


@pytest.mark.parametrize("level", [0, 3])
def test_observers_and_poison_need_nothing_but_the_contract(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "spec", level)
    stack = linked()
    x, w = stack.input("x", (4,), "float32"), stack.variable("w", X)
    o = stack.ops
    program = stack.compile([x], [o.cumulative_sum(o.sort(x) * w, axis=0)], updates=[(w, w * 2)])
    names = [step.op.name for step in program.steps(X)]
    assert "sort" in names
    np.testing.assert_array_equal(w.numpy(), X * 2)
    assert program.profile(X, repeat=2).instructions
    np.testing.assert_allclose(program(X)[0], np.cumsum(X * X * 2), rtol=1e-6)


# --- this library's own ------------------------------------------------------------------------------------


def test_what_is_kept_outlasts_forget_and_what_is_put_does_not() -> None:
    x, y = LAZY.input("x", (4,), "float32"), LAZY.input("y", (4,), "float32")
    plan = LAZY.compile([x, y], [LAZY.ops.cumulative_sum(x[1:] * y[1:], axis=0)]).plan
    executable: Any = link(plan, LAZY.device, [], {None: LAZY.device.arena(plan.arena_bytes)})
    whole = executable.section(range(len(plan.instructions)))
    found = np.empty(3, "float32")
    executable.keep(plan.inputs[0], X)
    for factor in (1, 2):
        executable.put(plan.inputs[1], X * factor)
        executable.put(plan.outputs[0], found)
        whole.run()
        np.testing.assert_allclose(found, np.cumsum(X[1:] * X[1:] * factor), rtol=1e-6)
        assert executable.array(plan.inputs[0]) is X
        executable.forget()
        assert not any(a is found for _, args in executable.calls for a in args)
        assert executable.arrays[plan.inputs[1]] is None
        assert executable.arrays[plan.inputs[0]] is X
    assert whole.started == plan.kernels


@given(st.data())
def test_sections_run_what_they_are_of(data: st.DataObject) -> None:
    """Cut anywhere, the parts one after the other are the whole."""
    x = LAZY.input("x", (4,), "float64")
    y = x
    for _ in range(5):
        y = LAZY.ops.cumulative_sum(LAZY.ops.flip(y, axis=0), axis=0)
    plan = LAZY.compile([x], [y]).plan
    executable: Any = link(plan, LAZY.device, [], {None: LAZY.device.arena(plan.arena_bytes)})
    count = len(plan.instructions)
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    found = np.empty(4)
    executable.put(plan.inputs[0], np.arange(4.0))
    executable.put(plan.outputs[0], found)
    parts = [range(a, b) for a, b in zip([0, *cuts], [*cuts, count], strict=True)]
    listed = data.draw(st.booleans())
    for part in parts:
        executable.section([*part] if listed else part).run()
    wanted = np.arange(4.0)
    for _ in range(5):
        wanted = np.cumsum(wanted[::-1])
    np.testing.assert_array_equal(found, wanted)
