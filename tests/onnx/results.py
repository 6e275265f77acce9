"""Which of ONNX's own tests pass: counted, with a reason for each that does not, as a text kept beside tests."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

REASONS = {
    "bernoulli|training_dropout": "it compares with the numbers that another generator draws",
    "image_decoder": "decoding of image files is left to packages for images",
    "tree_ensemble": "ensembles of trees are not supported",
    "gradient": "derivatives are asked of the stack, not of a node of the graph",
    "sequence|split_to": "sequences are not supported",
    "strnorm|string|regex": "strings are not supported",
}
"""By what a test's name has in it."""


@frozen
class Results:
    """What was found with a version of onnx.

    Attributes
    ----------
    counts
        By kind of test (of nodes: by operator set): how many there are, and how many pass.
    failing
        The others, each with a reason.
    """

    version: str
    counts: Mapping[str, tuple[int, int]]
    failing: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"onnx {self.version}", ""]
        lines += [f"{kind}: {passed} of {count}" for kind, (count, passed) in self.counts.items()]
        lines += ["", *(f"{name}: {reason}" for name, reason in sorted(self.failing.items())), ""]
        return "\n".join(lines)


def parsed(text: str) -> Results:
    """Results from their text.

    Examples
    --------
    >>> results = parsed("onnx 1.0\\n\\nopset 7: 1 of 2\\n\\ntest_bitcast: a reason\\n")
    >>> results.counts, results.failing
    ({'opset 7': (2, 1)}, {'test_bitcast': 'a reason'})
    """
    head, counts, failing = (part.strip().splitlines() for part in text.split("\n\n"))
    found = {}
    for line in counts:
        kind, told = line.rsplit(": ", 1)
        passed, count = told.split(" of ")
        found[kind] = int(count), int(passed)
    return Results(head[0].removeprefix("onnx "), found, dict(line.split(": ", 1) for line in failing))


def counted(outcomes: Iterable[tuple[str, str, bool]]) -> Results:
    """Results from outcomes: kind, name, and whether it passes.

    Raises
    ------
    ValueError
        One fails for no reason in `REASONS`.
    """
    counts: dict[str, tuple[int, int]] = {}
    failing = {}
    for kind, name, passed in outcomes:
        count, good = counts.get(kind, (0, 0))
        counts[kind] = count + 1, good + passed
        if not passed:
            reason = next((why for pattern, why in REASONS.items() if re.search(pattern, name)), None)
            if reason is None:
                raise ValueError(f"{name} fails, for no reason that is known")
            failing[name] = reason
    version: str = importlib.import_module("onnx").__version__
    return Results(version, counts, failing)


def kind_of_node(opset: int | None) -> str:
    """What tests of nodes are counted under."""
    return "other domains" if opset is None else f"opset {opset}"


def outcomes(stacks: Sequence[Any]) -> list[tuple[str, str, bool]]:
    """The outcomes of all tests of nodes and of models in files: passed is what passes on each of the stacks."""
    from nnc_func.testing.onnx_backend import model_cases, node_cases

    found = []
    for case in sorted((c for c in node_cases() if c.plain), key=lambda c: c.opset or 99):
        found.append((kind_of_node(case.opset), case.name, not any(case.failure(s) for s in stacks)))
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        for case in model_cases(kind):
            found.append((kind, case.name, not any(case.failure(s) for s in stacks)))
    return found
