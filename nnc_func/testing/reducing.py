"""Programs that fail, made smaller as graphs: by asking for less, and by cutting off what a value is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import evolve

from nnc_func.testing.program import INPUT, Leaf, Program, inwards

ATTEMPTS = 300


def reduced(program: Program, fault: Callable[[Program], str], attempts: int = ATTEMPTS) -> str:
    """What is wrong with the smallest program that is found on the way from a program that fails to smaller ones.

    Parameters
    ----------
    program
        It fails.
    fault
        Says what is wrong with a program; nothing, if nothing is.
    attempts
        How many programs are tried.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> from nnc_func.testing.program import Step
    >>> x = Leaf(INPUT, "x0", (2,), "float64")
    >>> steps = [Step(CATALOGUE[name], (n,), {}) for n, name in enumerate(("exp", "tanh", "negative"))]
    >>> has = lambda p: str(p) if any(s.op.name == "tanh" for s in p.steps) else ""
    >>> print(reduced(Program((x,), tuple(steps), (3, 0), ()), has))
    import nnc_func as nnc
    stack = nnc.lazy()
    ops = stack.ops
    x1 = stack.input('x1', (2,), 'float64')
    v1 = ops.tanh(x1)
    program = stack.compile([x1], [v1])
    """
    said, better = fault(program), True
    while better and said:
        better = False
        for smaller in _smaller(program):
            if (attempts := attempts - 1) < 0:
                return said
            found = fault(smaller)
            if found:
                program, said, better = smaller, found, True
                break
    return said


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with fewer outputs, updates or steps, the boldest first."""
    for o in dict.fromkeys(program.outputs) if len(program.outputs) > 1 or program.updates else ():
        yield evolve(program, outputs=(o,), updates=()).needed()
    for i in range(len(program.outputs) if len(program.outputs) > 1 else 0):
        yield evolve(program, outputs=(*program.outputs[:i], *program.outputs[i + 1 :])).needed()
    for i in range(len(program.updates)):
        yield evolve(program, updates=(*program.updates[:i], *program.updates[i + 1 :])).needed()
    results = program.results()
    for at in reversed(range(len(program.steps))):
        yield _cut(program, at, results).needed()
        for o in program.steps[at].args:  # an operand instead of what is made of it
            yield evolve(program, outputs=(o,), updates=()).needed()
    if len(program.needed().leaves) < len(program.leaves):
        yield program.needed()


def _cut(program: Program, at: int, results: list[range]) -> Program:
    """The program with a step's results as inputs."""
    avals, own = program.avals(), results[at]
    first = len(program.leaves)
    count = len(own)
    made = tuple(
        Leaf(INPUT, f"x{first + i}", avals[n].shape, avals[n].dtype.name, first + i) for i, n in enumerate(own)
    )

    def moved(n: int) -> int:
        return n if n < first else n - own.start + first if n in own else n + count if n < own.start else n

    steps = [
        step.moved(inwards(moved, its.start, its.start + count if i < at else its.start))
        for i, (step, its) in enumerate(zip(program.steps, results, strict=True)) if i != at
    ]  # fmt: skip
    return Program(
        (*program.leaves, *made),
        tuple(steps),
        tuple(map(moved, program.outputs)),
        tuple((moved(v), moved(u)) for v, u in program.updates),
    )
