"""Random loops with looks at random places, replayed: as without replay (`engine/dynamic/replay`)."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from tests.engine.dynamic_stacks import fresh
from tests.profiles import examples

SLOTS, SHAPES = 6, ((3, 3), (3, 3), (3, 3), (2, 3))


@pytest.fixture(autouse=True)
def collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


class Machine:
    """Names for values, and what a line of a program does with them; it notes what it sees."""

    def __init__(self, stack: nnc.Stack) -> None:
        self.stack, self.seen, self.asked = stack, list[Any](), 0
        rng = np.random.default_rng(0)
        self.variables = [stack.variable(f"v{n}", 0.5 * rng.normal(size=shape)) for n, shape in enumerate(SHAPES)]
        self.names = [+self.variables[n % 4] for n in range(SLOTS)]

    def run(self, line: tuple[Any, ...]) -> None:
        kind, n, m, k, c = line
        ops, names = self.stack.ops, self.names
        x, y = names[n], names[m]
        if kind == "unary":
            names[k] = (ops.tanh, ops.sin, ops.square, ops.negative)[c % 4](x) * 1
        elif kind == "binary":
            names[k] = ops.tanh(x * y if x.shape == y.shape else x.sum() - y)
        elif kind == "number":
            names[k] = (x * (c / 4) + c, x - 0.0, c * x / 3, x * -0.0)[c % 4]
        elif kind == "product":
            names[k] = ops.tanh(x @ y if x.ndim == y.ndim == 2 and y.shape == (3, 3) else x)
        elif kind == "parts" and x.shape == (3, 3):
            a, b = ops.split(x, sections=(c % 2 + 1, 2 - c % 2), axis=0)
            names[k] = (a.sum() * b, b * 2, a)[c % 3]
        elif kind == "index" and x.ndim == 2:
            names[k] = x[c % x.shape[0]] + y.sum()
        elif kind == "array":
            names[k] = x * np.full(x.shape, 0.5 + c / 8)
        elif kind == "constant":
            names[k] = self.stack.asarray(np.full(SHAPES[c % 4], c / 4))
        elif kind == "detach":
            names[k] = x.detach()
        elif kind == "paused":
            with self.stack.no_grad():
                names[k] = ops.sin(x) * 0.5
        elif kind == "variable":
            names[k] = self.variables[c % 4] * 1.0
        elif kind == "leaf":
            names[k] = +self.variables[c % 4]
        elif kind == "assign":
            self.variables[c % 4].value.assign(np.full(SHAPES[c % 4], 0.1 * c))
        elif kind in ("slopes", "slopes of slopes", "paused slopes"):
            self.slopes(kind, x, m, k, c)
        elif kind == "look":
            self.seen.append(x.numpy())
        elif kind == "live":
            live = self.stack.live
            self.seen.append((live.symbols, live.nodes))
        elif kind == "choose":
            if x.sum() > 0:
                names[k] = y
        elif kind == "fail":
            with pytest.raises(nnc.errors.ShapeError):
                x * np.ones(7)

    def slopes(self, kind: str, x: Any, m: int, k: int, c: int) -> None:
        self.asked += 1
        if self.asked % 3 == 0:  # gradients through gradients take as long again, each time
            self.names[:] = [+self.variables[n % 4] for n in range(SLOTS)]
            x = self.names[0]
        xs = [self.names[m], self.names[c % SLOTS]]
        y = self.stack.ops.sin(x).sum()
        try:
            if kind == "paused slopes":
                with self.stack.no_grad():
                    found = self.stack.gradients([y], xs)
            else:
                found = self.stack.gradients([y], xs)
            if kind == "slopes of slopes":
                found = self.stack.gradients([(found[0] * found[0]).sum()], xs)
        except nnc.errors.DerivativeError:
            return  # a constant
        finally:
            del y
        self.names[k] = found[0] * 0.5
        self.names[m] = xs[0] - 0.1 * found[0]


KINDS = (
    "unary", "binary", "number", "product", "parts", "index", "array", "constant", "detach", "paused", "variable",
    "leaf", "assign", "slopes", "slopes", "slopes of slopes", "paused slopes", "look", "live", "choose", "fail",
)  # fmt: skip
LINES = st.tuples(
    st.sampled_from(KINDS), st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1),
    st.integers(0, 7),
)  # fmt: skip


def agree(one: Machine, other: Machine) -> None:
    assert len(one.seen) == len(other.seen)
    for a, b in zip(one.seen, other.seen, strict=True):
        if isinstance(a, tuple):
            assert a == b
        else:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@examples(few=60, nightly=4000)
@given(st.lists(LINES, min_size=1, max_size=14), st.integers(1, 3), st.lists(LINES, max_size=3), st.data())
def test_a_loop_that_is_replayed_is_as_one_that_is_not(lines: Any, after: int, others: Any, data: Any) -> None:
    machines = [Machine(fresh(replay_after=after)), Machine(fresh())]
    at = [data.draw(st.integers(0, len(lines) - 1)) for _ in others]
    with np.errstate(all="ignore"):
        for turn in range(4 * after + 4):
            now = list(lines)
            if turn % 5 == 4:  # it diverges
                for where, line in zip(at, others, strict=True):
                    now[where] = line
            for machine in machines:
                for line in now:
                    machine.run(line)
        for machine in machines:
            machine.run(("live", 0, 0, 0, 0))
            for n in range(SLOTS):
                machine.run(("look", n, 0, 0, 0))
    agree(*machines)
