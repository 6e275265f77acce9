"""For tests of incremental programs: a device that counts and fails, the dirty cone by brute force."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from attrs import field

from nnc_func.device import NumPy
from nnc_func.graph.leaves import LEAVES
from nnc_func.layer import layer


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
