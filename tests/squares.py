"""Random graphs of small square matrices, fast to draw: most operators fit each other, and variables are updated."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing.programs import CONSTANT, INPUT, VARIABLE, Leaf, Program, Step

__all__ = ["random_program", "writing"]

SHAPE = (3, 3)
ONE = ("tanh", "sin", "negative", "square", "flip", "cumulative_sum", "permute_dims", "ravelled", "corner")
PARAMETERS: dict[str, Any] = {"flip": {"axis": (0,)}, "cumulative_sum": {"axis": 1}, "permute_dims": {"axes": (1, 0)}}
TWO = ("add", "multiply", "subtract", "maximum", "matmul")


def _step(name: str, args: tuple[int, ...], last: int) -> list[Step]:
    """One application that keeps the shape, or two."""
    if name == "ravelled":  # copies where it meets a transposed view
        return [
            Step(CATALOGUE["reshape"], args, {"shape": (9,)}), Step(CATALOGUE["reshape"], (last,), {"shape": SHAPE})
        ]  # fmt: skip
    if name == "corner":
        part = {"starts": (0, 0), "stops": (3, 1), "steps": (1, 1)}
        return [
            Step(CATALOGUE["slice"], args, part), Step(CATALOGUE["broadcast_to"], (last,), {"shape": SHAPE})
        ]  # fmt: skip
    return [Step(CATALOGUE[name], args, PARAMETERS.get(name, {}))]


def random_program(random: np.random.Generator, most: int = 14) -> Program:
    """A graph of small square matrices: inputs, variables, some updated, a constant, shared and aliased values.

    Parameters
    ----------
    random
        What it is drawn from.
    most
        Operators are fewer.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> drawn = random_program(np.random.default_rng(3))
    >>> drawn.build(nnc.lazy()).program(*drawn.feeds())[0].shape
    (3, 3)
    """
    kinds = [INPUT, *random.choice([INPUT, VARIABLE, VARIABLE, CONSTANT], random.integers(1, 5))]
    leaves = tuple(Leaf(str(k), f"{k[0]}{i}", SHAPE, "float64", i) for i, k in enumerate(kinds))
    steps: list[Step] = []
    whole = list(range(len(leaves)))  # values that have the shape
    for _ in range(random.integers(1, most)):
        name = str(random.choice(ONE if random.random() < 0.5 else TWO))
        recent = whole[-4:] if random.random() < 0.6 else whole
        args = tuple(int(random.choice(recent)) for _ in range(1 if name in ONE else 2))
        steps += _step(name, args, len(leaves) + len(steps))
        whole.append(len(leaves) + len(steps) - 1)
    outputs = tuple(int(v) for v in random.choice(whole, random.integers(1, 4)))
    updates = [
        (i, int(random.choice(whole))) for i, leaf in enumerate(leaves)
        if leaf.kind == VARIABLE and random.random() < 0.3
    ]  # fmt: skip
    return Program(leaves, tuple(steps), outputs, tuple(updates))


def writing(count: int, most: int = 30) -> list[Program]:
    """So many different ones that update a variable, the same each time: every second one by what falls due to it.

    A variable of those, as a parameter in training, is another value's difference from it, so that kernels write over
    it; in the others the next value is any.

    Examples
    --------
    >>> all(drawn.updates for drawn in writing(4))
    True
    """
    drawn: dict[str, Program] = {}
    for seed in itertools.count():
        found = random_program(np.random.default_rng([seed, 7]), most)
        if found.updates:
            found = found if len(drawn) % 2 else _trained(found)
            drawn.setdefault(repr(found), found)
        if len(drawn) == count:
            return list(drawn.values())
    raise AssertionError


def _trained(drawn: Program) -> Program:
    """Every variable is updated by a difference: from the value that it would get, or from the last one."""
    steps, updates, given = list(drawn.steps), [], dict(drawn.updates)
    last = len(drawn.leaves) + len(steps) - 1
    for at, leaf in enumerate(drawn.leaves):
        if leaf.kind == VARIABLE:
            steps.append(Step(CATALOGUE["subtract"], (at, given.get(at, last)), {}))
            updates.append((at, len(drawn.leaves) + len(steps) - 1))
    return Program(drawn.leaves, tuple(steps), drawn.outputs, tuple(updates))
