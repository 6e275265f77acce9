"""Random programs: well-typed graphs over the catalogue, which shrink well.

They share, repeat and alias operands, return inputs, constants and what lies between, and update variables crosswise;
where that is asked for, they hold loops and branches, in each other.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Catalogue
from nnc_func.testing.control_drawing import ControlDrawing
from nnc_func.testing.drawing import DTYPES, LARGEST, Drawing, vocabulary
from nnc_func.testing.program import CONSTANT, INPUT, VARIABLE, Built, Leaf, Program, Step

__all__ = ["CONSTANT", "INPUT", "LARGEST", "VARIABLE", "Built", "Leaf", "Program", "Step", "programs"]


@st.composite
def programs(
    draw: Any, *, smooth: bool = False, most_steps: int = 12, operators: Catalogue = CATALOGUE,
    control_flow: bool = False, depth: int = 3,
) -> Program:  # fmt: skip
    """Programs over a catalogue: they share, repeat and alias operands, and have several results and random operators.

    Parameters
    ----------
    smooth
        All leaves are float64 and nothing is updated: for derivatives.
    most_steps
        How many applications there are at most.
    operators
        What is applied: the default catalogue, or a stack's ``stack.type.ops``. Those of one's own are applied to
        leaves and to what moves their elements, since nobody knows where they are steep.
    control_flow
        They hold loops and branches (`nnc_func.testing.control_steps`): scans, counted loops, whiles, and branches with
        and without a default. Their bodies capture what is around, swap and pass on what they carry, ignore what they
        are given, and go never, once, or a few times. What they are compared with are Python's own `for`, `while` and
        `if`. What decides is computed by a few operators of the default catalogue, whatever `operators` has.
    depth
        How many of them stand in each other at most.

    Examples
    --------
    >>> from hypothesis import find
    >>> len(find(programs(), lambda program: len(program.steps) == 1).steps)
    1
    >>> from hypothesis import Phase, settings
    >>> first = settings(phases=[Phase.generate], max_examples=1, database=None)
    >>> print(find(programs(control_flow=True), lambda program: True, settings=first))
    import nnc_func as nnc
    stack = nnc.lazy()
    ops = stack.ops
    x0 = stack.input('x0', (), 'float64')
    def body1(carry, x):
        () = carry
        return (), (x0,)
    (), (v1,) = stack.scan(body1, (), None, length=2)
    program = stack.compile([x0], [v1, v1])
    """
    dtypes = ("float64",) if smooth else DTYPES
    if control_flow:
        making: Drawing = ControlDrawing(draw, dtypes, smooth, vocabulary(operators), deepest=depth)
    else:
        making = Drawing(draw, dtypes, smooth, vocabulary(operators))
    making.start()
    making.make(most_steps)
    known = making.known
    last = len(known) - 1
    number = st.integers(0, last).map(lambda n: last - n)
    outputs = tuple(draw(st.lists(number, min_size=1, max_size=4)))
    if making.chance(2):  # and what nothing is made of, so that every step has a use
        outputs += tuple(
            sorted({*range(len(making.leaves), last + 1)}.difference(outputs, *(s.args for s in making.steps)))
        )
    outputs += making.wanted()
    updates = []
    for i, leaf in enumerate(making.leaves):
        alike = [j for j in range(last, -1, -1) if known[j] == making.avals[i]]
        if leaf.kind == VARIABLE and not smooth and making.chance(2):
            updates.append((i, making.pick(alike)))
    program = Program(tuple(making.leaves), tuple(making.steps), outputs, tuple(updates))
    return program if making.chance(3) else program.needed()  # some have what nobody asks for
