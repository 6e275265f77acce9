"""For tests of incremental programs: a device that counts and fails, random graphs, the dirty cone by brute force."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field

from nnc_func.device import NumPy
from nnc_func.graph.leaves import LEAVES
from nnc_func.graph.ops import CATALOGUE
from nnc_func.layer import layer
from nnc_func.testing.programs import CONSTANT, INPUT, VARIABLE, Leaf, Program, Step

SHAPE = (3, 3)
ONE = ("tanh", "sin", "negative", "square", "flip", "cumulative_sum", "permute_dims", "ravelled", "corner")
PARAMETERS = {"flip": {"axis": (0,)}, "cumulative_sum": {"axis": 1}, "permute_dims": {"axes": (1, 0)}}
TWO = ("add", "multiply", "subtract", "maximum", "matmul")


class KernelFailedError(Exception):
    """What the device raises where it is told to."""


@layer()
class Counting(NumPy):
    """NumPy that writes down each kernel it runs in a program, and fails at the one it is told to."""

    calls: list[str] = field(init=False, factory=list, eq=False, repr=False)
    failing: list[int] = field(init=False, factory=list, eq=False, repr=False)
    pressing: list[int] = field(init=False, factory=list, eq=False, repr=False)  # Control-C, in that kernel

    def writing(self, op: Any, kernel: Any, items: Any, outs: int, scratch: Any) -> Callable[..., Any]:
        """The kernel, counted."""
        call = NumPy.writing(self, op, kernel, items, outs, scratch)

        def counted(*arrays: Any) -> None:
            if self.failing and len(self.calls) == self.failing[0]:
                for out in arrays[len(arrays) - outs :]:
                    out[...] = 77  # half written
                raise KernelFailedError
            if self.pressing and len(self.calls) == self.pressing[0]:
                signal.raise_signal(signal.SIGINT)
            self.calls.append(op.name)
            call(*arrays)

        return counted

    def counted(self) -> list[str]:
        """What ran since this was asked last."""
        found = list(self.calls)
        self.calls.clear()
        return found


def computes(graph: Any) -> set[Any]:
    """The nodes that a kernel is run for: not leaves, and not views, but of what has to be copied first."""
    whole: dict[Any, bool] = {}
    found = set()
    for node in graph.nodes:
        view = node.op.view
        base = view is not None and whole[node.args[view.argument].node]
        whole[node] = bool(base and view.contiguous) if view else True
        if node.op not in LEAVES and (view is None or (view.needs_contiguous and not base)):
            found.add(node)
            whole[node] = True
    return found


def cone(graph: Any, changed: set[Any]) -> list[str]:
    """Names of the operators that depend on changed inputs, by name, or variables: the definition, on the graph."""
    reached: set[Any] = set()
    for node in graph.nodes:
        leaf = node.op in LEAVES and node.data.__hash__ is not None and node.data in changed
        if leaf or any(a.node in reached for a in node.args):
            reached.add(node)
    return sorted(n.op.name for n in reached & computes(graph))


def step(name: str, args: tuple[int, ...], last: int) -> list[Step]:
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
    """A graph of small square matrices: inputs, variables, some updated, a constant, shared and aliased values."""
    kinds = [INPUT, *random.choice([INPUT, VARIABLE, VARIABLE, CONSTANT], random.integers(1, 5))]
    leaves = tuple(Leaf(str(k), f"{k[0]}{i}", SHAPE, "float64", i) for i, k in enumerate(kinds))
    steps: list[Step] = []
    whole = list(range(len(leaves)))  # values that have the shape
    for _ in range(random.integers(1, most)):
        name = str(random.choice(ONE if random.random() < 0.5 else TWO))
        recent = whole[-4:] if random.random() < 0.6 else whole
        args = tuple(int(random.choice(recent)) for _ in range(1 if name in ONE else 2))
        steps += step(name, args, len(leaves) + len(steps))
        whole.append(len(leaves) + len(steps) - 1)
    outputs = tuple(int(v) for v in random.choice(whole, random.integers(1, 4)))
    updates = [
        (i, int(random.choice(whole))) for i, leaf in enumerate(leaves)
        if leaf.kind == VARIABLE and random.random() < 0.3
    ]  # fmt: skip
    return Program(leaves, tuple(steps), outputs, tuple(updates))
