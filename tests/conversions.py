"""Programs with conversions put in: relayouts at some edges, or values in several places with transfers where needed.

Neither changes a value, so that what such a program gives is compared with what it was made from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.graph.ops.memory import relayout, transfer
from nnc_func.op import Op
from nnc_func.testing.program import PLACES, Leaf, Program, Step, inferred
from nnc_func.testing.programs import programs

Conversion = tuple[Op, dict[str, Any]] | None  # what is applied at an edge


def edited(
    program: Program,
    leaves: tuple[Leaf, ...],
    at_operand: Callable[[int, Aval], Conversion],
    at_update: Callable[[Aval, Aval], Conversion],
) -> Program:
    """The program on other leaves, with conversions at its edges.

    Parameters
    ----------
    at_operand
        Of the number of a step and an operand's aval there, what is applied to the operand.
    at_update
        Of the avals of a variable and of its next value, what is applied to that.
    """
    avals: list[Aval] = [leaf.aval for leaf in leaves]
    now = list(range(len(leaves)))  # value of the program -> value of the new one
    steps: list[Step] = []

    def applied(op: Op, args: tuple[int, ...], params: dict[str, Any]) -> range:
        first = len(avals)
        avals.extend(inferred(op, [avals[a] for a in args], params))
        steps.append(Step(op, args, params))
        return range(first, len(avals))

    def converted(value: int, conversion: Conversion) -> int:
        return value if conversion is None else applied(conversion[0], (value,), conversion[1])[0]

    for number, step in enumerate(program.steps):
        args = tuple(converted(now[a], at_operand(number, avals[now[a]])) for a in step.args)
        now.extend(applied(step.op, args, step.params))
    updates = tuple((v, converted(now[u], at_update(avals[v], avals[now[u]]))) for v, u in program.updates)
    return Program(leaves, tuple(steps), tuple(now[o] for o in program.outputs), updates)


@st.composite
def relaid(draw: Any, of: Any = None) -> tuple[Program, Program]:
    """A program, and the same with relayouts at some of its edges.

    Examples
    --------
    >>> from hypothesis import find
    >>> plain, laid = find(relaid(), lambda both: len(both[1].steps) > len(both[0].steps))
    """
    program: Program = draw(programs() if of is None else of)

    def at_operand(_: int, aval: Aval) -> Conversion:
        if aval.ndim < 2 or draw(st.integers(0, 2)) == 0:
            return None
        return relayout, {"layout": tuple(draw(st.permutations(range(aval.ndim)))), "data_format": "NHWC"}

    def at_update(variable: Aval, value: Aval) -> Conversion:
        return None if value == variable else (relayout, {"layout": "row-major", "data_format": "NHWC"})

    return program, edited(program, program.leaves, at_operand, at_update)


@st.composite
def spread(draw: Any, of: Any = None) -> tuple[Program, Program]:
    """A program, and the same with its leaves and steps in several places, and transfers where they are needed.

    Examples
    --------
    >>> from hypothesis import find
    >>> plain, moved = find(spread(), lambda both: len(both[1].steps) > len(both[0].steps))
    """
    program: Program = draw(programs() if of is None else of)
    leaves = tuple(evolve(leaf, place=draw(st.sampled_from(PLACES))) for leaf in program.leaves)
    homes = [draw(st.sampled_from(PLACES)) for _ in program.steps]

    def into(place: str, aval: Aval) -> Conversion:
        return None if place == (aval.place or PLACES[0]) else (transfer, {"place": place})

    return program, edited(
        program,
        leaves,
        lambda number, aval: into(homes[number], aval),
        lambda variable, value: into(variable.place or PLACES[0], value),
    )
