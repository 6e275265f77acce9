"""Engines set up at random give what NumPy gives: settings tested one by one meet here (`engine`)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import frozen
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.allocators import ALLOCATORS
from nnc_func.engine.orders import DEFAULT
from nnc_func.engine.planning.schedule import ListScheduler
from nnc_func.errors import NumericsError
from nnc_func.graph.rules.fuse import fuse_elementwise
from nnc_func.testing.programs import CONSTANT, INPUT, LARGEST, VARIABLE, Program, programs
from nnc_func.testing.schedules import RandomOrder, RandomScheduler

EAGER, LAZY = nnc.eager(), nnc.lazy()
ORDERS = (("depth_first",), ("as_written",), DEFAULT, *((RandomOrder(seed),) for seed in range(5)))
ULPS = 256


@frozen
class Configuration:
    """How a program is compiled and called."""

    eager: bool
    streams: int
    scheduler: Any
    allocator: str
    orders: tuple[Any, ...]
    checked: bool
    spec: int
    fused: str
    saved: bool
    retain: Any
    donated: tuple[int, ...]
    out: str | None
    strided: bool

    def stack(self) -> Any:
        """The stack with such an engine."""
        if self.eager:
            return EAGER.swap(engine=EAGER.engine.checking_numerics(self.checked))
        engine = LAZY.engine.with_streams(self.streams, self.scheduler).with_allocator(ALLOCATORS[self.allocator])
        engine = engine.with_orders(*self.orders).checking_numerics(self.checked)
        stack = LAZY.swap(engine=engine)
        if self.fused == "large":
            return stack
        rest = stack.optimiser.without_rules("fuse_elementwise")
        return stack.swap(
            optimiser=rest.with_rules(fuse_elementwise.from_size(0), phase="fuse") if self.fused == "all" else rest
        )


@st.composite
def configurations(draw: Any, program: Program) -> Configuration:
    """Settings that may be combined."""
    count = len(program.avals())
    number = st.integers(0, count - 1)
    retain = draw(st.one_of(st.sampled_from(["none", "frontier", "all"]), st.lists(number, max_size=2).map(tuple)))
    places = range(len(program.inputs))
    donated = draw(st.lists(st.sampled_from(places), unique=True)) if places and retain == "none" else []
    scheduler = draw(st.one_of(st.just(ListScheduler()), st.integers(0, 9).map(RandomScheduler)))
    return Configuration(
        eager=draw(st.integers(0, 7)) == 7,
        streams=draw(st.integers(1, 3)),
        scheduler=scheduler,
        allocator=draw(st.sampled_from(sorted(ALLOCATORS))),
        orders=draw(st.sampled_from(ORDERS)),
        checked=draw(st.booleans()),
        spec=draw(st.sampled_from([0, 1, 2, 3])),
        fused=draw(st.sampled_from(["none", "large", "all"])),
        saved=retain == "none" and draw(st.booleans()),
        retain=retain,
        donated=tuple(donated),
        out=draw(st.sampled_from([None, "C", "F"])),
        strided=draw(st.booleans()),
    )


@contextmanager
def spec(level: int) -> Iterator[None]:
    before, config.spec = config.spec, level
    try:
        yield
    finally:
        config.spec = before


def built(program: Program, stack: Any, with_: Configuration) -> tuple[Any, list[Any]]:
    made = {INPUT: lambda n: stack.input(n.name, n.shape, n.dtype), CONSTANT: lambda n: stack.asarray(n.value())}
    made[VARIABLE] = lambda n: stack.variable(n.name, n.value())
    leaves = [made[n.kind](n) for n in program.leaves]
    values = program.applied(stack, leaves)
    inputs = [v for v, n in zip(leaves, program.leaves, strict=True) if n.kind == INPUT]
    compiled = stack.compile(
        inputs,
        [values[o] for o in program.outputs],
        [(values[v], values[u]) for v, u in program.updates],
        retain=with_.retain if isinstance(with_.retain, str) else [values[n] for n in with_.retain],
        donate=[inputs[i] for i in with_.donated],
    )
    variables = [v.value for v, n in zip(leaves, program.leaves, strict=True) if n.kind == VARIABLE]
    return reread(compiled, stack, variables) if with_.saved else (compiled, variables)


def reread(compiled: Any, stack: Any, variables: list[Any]) -> tuple[Any, list[Any]]:
    """The program by way of a file, and the variables with those that it has instead of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/program"
        compiled.save(path)
        again = nnc.load_program(path, stack)
    its = {n.data.name: n.data for n in again.graph.variables}
    return again, [its.get(v.name, v) for v in variables]


def agree(found: Any, wanted: Any, allowed: float) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (one.shape, one.dtype, type(one)) == (other.shape, other.dtype, np.ndarray)
        assert one.flags.writeable
        if one.dtype.kind not in "fc":
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=0, atol=allowed)


def apart(arrays: list[Any], others: list[Any]) -> None:
    for i, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in (*arrays[:i], *others))


def followed(program: Program, with_: Configuration) -> None:
    """Calls with other inputs in between, whose results are held to the end; one that is refused changes nothing."""
    try:
        compiled, variables = built(program, with_.stack(), with_)
    except NumericsError:  # of constants alone, at once
        assert with_.checked
        assert with_.eager
        return
    if compiled.plan is not None:
        compiled.plan.verify()
    state = [v.value() for v in program.variables]
    kept = []
    for seed in (0, 1, 0, 0):
        feeds = program.feeds(seed)
        if with_.strided:  # the same elements, backwards in memory and apart
            feeds = [np.repeat(f[..., ::-1].T.copy().T, 2, axis=-1)[..., ::-2] if f.ndim else f for f in feeds]
        before = [f.copy() for f in feeds]
        outputs, following, largest = program.run_numpy(before, state)
        assume(largest < LARGEST)
        allowed = ULPS * program.epsilon() * max(largest, 1.0)
        out = [np.full(o.shape, 1, o.dtype, order=with_.out) for o in outputs] if with_.out else None
        try:
            with np.errstate(all="ignore"):
                found = compiled(*feeds, out=out)
        except NumericsError:
            assert with_.checked
            agree([v.copied() for v in variables], state, 0.0)
            continue
        state = following
        kept.append((found, outputs, allowed))
        agree([v.copied() for v in variables], state, allowed)
        state = [v.copied() for v in variables]
        given_up = [feeds[i] for i in with_.donated]
        apart(found, [*feeds, *(v.array for v in variables)])
        for f, b in zip(feeds, before, strict=True):
            assert any(f is g for g in given_up) or f.tobytes() == b.tobytes()
    for found, wanted, allowed in kept:
        agree(found, wanted, allowed)


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_any_configuration_gives_numpys_values(data: Any) -> None:
    program = data.draw(programs())
    with_ = data.draw(configurations(program))
    with spec(with_.spec):
        followed(program, with_)
