"""Loops to test with: drawn by chance and written by hand, and what they compute, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve, frozen
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.body import Application, Body
from nnc_func.engine.loop_instruction import Loop
from nnc_func.graph.ops import CATALOGUE as OPS

EAGER, LAZY = nnc.eager(), nnc.lazy()
EXACT = LAZY.swap(optimiser=LAZY.optimiser.with_numerics("exact"))
SHAPE = (3, 3)
LOOP = OPS["loop"]
SCALAR = {"shape": (), "value": 0.75, "dtype": "float64"}
STEPS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("add", 2, {}),
    ("multiply", 2, {}),
    ("matmul", 2, {}),
    ("subtract", 2, {}),
    ("tanh", 1, {}),
    ("sort", 1, {"axis": 0}),
    ("permute_dims", 1, {"axes": (1, 0)}),
    ("flip", 1, {"axis": 1}),
)


@frozen
class Drawn:
    """A loop, as drawn."""

    body: Body
    constants: int
    carries: int
    count: int
    sliced: bool
    reverse: bool = False
    times: int | None = None  # what the operand says that counts them
    conditional: bool = False

    @property
    def params(self) -> dict[str, Any]:
        """Of the operator."""
        length = None if self.sliced else self.count
        found = {"body": self.body, "constants": self.constants, "carries": self.carries, "length": length}
        more = {"reverse": self.reverse, "counted": self.times is not None, "conditional": self.conditional}
        return found | {name: True for name, each in more.items() if each}

    def shapes(self) -> list[tuple[int, ...]]:
        """Of its operands."""
        whole = self.constants + self.carries
        found = [SHAPE] * whole + [(self.count, *SHAPE)] * (self.body.parameters - whole)
        if self.conditional:
            found[self.constants] = ()
        return found + [()] * (self.times is not None)

    def dtypes(self) -> list[str]:
        """Of its operands."""
        found = ["float64"] * self.body.parameters
        if self.conditional:
            found[self.constants] = "bool"
        return found + ["int64"] * (self.times is not None)

    def arrays(self, seed: int = 0) -> list[Any]:
        """Operands."""
        draw = np.random.default_rng(seed)
        found = [draw.uniform(-1, 1, shape) for shape in self.shapes()]
        if self.conditional:
            found[self.constants] = np.asarray(seed % 5 != 4)
        if self.times is not None:
            found[-1] = np.asarray(self.times)
        return found


@st.composite
def loops(draw: Any) -> Drawn:
    """Loops that carry, slice, stack, pass on and drop whatever there is; some backwards, some that end early."""
    constants, carries = draw(st.integers(0, 2)), draw(st.integers(0, 4))
    sliced = draw(st.integers(0, 2))
    count = draw(st.integers(0, 9))
    conditional = bool(carries) and draw(st.integers(0, 3)) == 0
    reverse = not conditional and draw(st.integers(0, 3)) == 0
    times = draw(st.integers(-1, count + 2)) if draw(st.integers(0, 3)) == 0 else None
    parameters = constants + carries + sliced
    applications = []
    whole = [n for n in range(parameters) if not (conditional and n == constants)]  # values of SHAPE: no scalars
    if not whole or draw(st.booleans()):
        applications.append(Application(OPS["full"], (), {"shape": SHAPE, "value": 0.5, "dtype": "float64"}))
        whole.append(parameters)
    for _ in range(draw(st.integers(0, 6))):
        name, arity, params = draw(st.sampled_from(STEPS))
        operands = [draw(st.sampled_from(whole)) for _ in range(arity)]
        if arity == 2 and name != "matmul" and draw(st.integers(0, 4)) == 0:
            applications.append(Application(OPS["full"], (), SCALAR))
            operands[1] = parameters + len(applications) - 1
        applications.append(Application(OPS[name], tuple(operands), params))
        whole.append(parameters + len(applications) - 1)
    # results are often parameters, or values that others are as well
    results = [draw(st.sampled_from(whole)) for _ in range(carries + draw(st.integers(not carries, 3)))]
    if conditional:
        at, limit = parameters + len(applications), draw(st.sampled_from((-1.0, 0.5, 3.0)))
        applications += [
            Application(OPS["sum"], (draw(st.sampled_from(whole)),), {"axis": None, "keepdims": False}),
            Application(OPS["full"], (), {"shape": (), "value": limit, "dtype": "float64"}),
            Application(OPS["less"], (at, at + 1), {}),
        ]
        results[0] = at + 2 if draw(st.integers(0, 3)) else constants  # or what it was
    return Drawn(
        Body(parameters, applications, results), constants, carries, count, bool(sliced), reverse, times, conditional
    )


def step_by_step(drawn: Drawn, arrays: list[Any]) -> list[Any]:
    """The results, of operators applied one after the other on the eager stack."""
    first, last = drawn.constants + drawn.carries, drawn.body.parameters
    values = [EAGER.asarray(a) for a in arrays]
    count = drawn.count if drawn.times is None else max(0, min(drawn.count, drawn.times))
    carry, rows = values[drawn.constants : first], list[list[Any]]()
    for i in range(count):
        if drawn.conditional and not bool(carry[0].numpy()):
            break
        at = count - 1 - i if drawn.reverse else i
        given = [*values[: drawn.constants], *carry, *(EAGER.asarray(a[at]) for a in arrays[first:last])]
        found = drawn.body.values(lambda op, xs, items: getattr(EAGER.ops, op.name)(*xs, **dict(items)), given)
        after = [found[n] for n in drawn.body.results]
        carry = after[: drawn.carries]
        rows.append([each.numpy() for each in after[drawn.carries :]])
    if drawn.reverse:
        rows.reverse()
    rows += [[np.zeros(SHAPE)] * (len(drawn.body.results) - drawn.carries)] * (drawn.count - len(rows))
    stacked = [np.stack(column) for column in zip(*rows, strict=True)]
    empty = [np.empty((0, *SHAPE))] * (len(drawn.body.results) - drawn.carries)
    return [*[each.numpy() for each in carry], *(stacked if rows else empty)]


def compiled(drawn: Drawn, stack: Any = EXACT) -> Any:
    pairs = zip(drawn.shapes(), drawn.dtypes(), strict=True)
    inputs = [stack.input(f"x{n}", shape, dtype) for n, (shape, dtype) in enumerate(pairs)]
    return stack.compile(inputs, list(stack.ops.loop(*inputs, **drawn.params)))


def planned(program: Any) -> Loop:
    """The one loop of a program."""
    (found,) = (loop for i in program.plan.instructions for loop in i.loops)
    assert isinstance(found, Loop)
    return found


def agree(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def over(parameters: int, *rows: Any, results: tuple[int, ...] | None = None, **facts: Any) -> Drawn:
    """A loop written by hand."""
    body = Body.of(parameters, *rows, results=results)
    return Drawn(body, facts.pop("constants", 0), facts.pop("carries", 0), facts.pop("count", 5), **facts)


def nested(body: Body, depth: int) -> Body:
    """A body within so many loops."""
    for _ in range(depth):
        body = Body(1, [Application(LOOP, (0,), {"body": body, "carries": 1, "length": 1})], (1,))
    return body


ADD, MULTIPLY, TANH, MATMUL = (OPS[name] for name in ("add", "multiply", "tanh", "matmul"))
CELL = over(
    4, (MATMUL, 2, 0), (MATMUL, 3, 1), (ADD, 4, 5), (TANH, 6), results=(7, 7), constants=2, carries=1, sliced=True
)
DECAY = over(2, (MULTIPLY, 1, 0), (TANH, 2), constants=1, carries=1, sliced=False)
POWERS = over(2, (MATMUL, 1, 0), constants=1, carries=1, sliced=False)
DELAYED = over(3, (ADD, 0, 1), results=(1, 2, 3), carries=3, sliced=False)
TURNED = over(3, (MULTIPLY, 0, 2), results=(1, 0, 3), carries=2, sliced=True)
BEFORE = over(2, (MULTIPLY, 0, 1), results=(1, 2), carries=1, sliced=True)
INTO_A_CIRCLE = over(4, (TANH, 0), results=(1, 2, 1, 0, 4), carries=4, sliced=False)
BACKWARDS = evolve(CELL, reverse=True)
COUNTED = evolve(DELAYED, times=3)
COUNTED_BACKWARDS = evolve(TURNED, times=3, reverse=True)
UNTIL = over(
    3, (ADD, 1, 2), (OPS["sum"], 3, {"axis": None, "keepdims": False}), (OPS["full"], {**SCALAR, "value": 9.0}),
    (OPS["less"], 4, 5), (TANH, 3), results=(6, 3, 2, 7, 1), carries=3, sliced=False, conditional=True,
)  # fmt: skip
ENDING_EARLY = (BACKWARDS, COUNTED, COUNTED_BACKWARDS, UNTIL)
ALL = (CELL, DECAY, POWERS, DELAYED, TURNED, BEFORE, INTO_A_CIRCLE, *ENDING_EARLY)
