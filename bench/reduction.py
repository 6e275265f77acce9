"""Operator applications asked for, built, and left after rewriting without general fusion, beside Owl's counts.

python bench/reduction.py [--smallest]: prints a table, writes bench/results/reduction.json. The smallest size has a
shorter sequence, and no network in full. Asked for is every application that was bound while the graph was built; built
are those that interning keeps apart; constants, inputs and variables are none. Bars: MNIST and the long short-term
memory <= 0.55, Mask R-CNN <= 0.80 of what was asked for.
"""

from __future__ import annotations

from typing import Any

from lstm import lstm_step
from measure import options, report

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.graph.rules import fuse

OWL = {  # nodes before and after, as its article tells
    "MNIST, training": (201, 103),
    "LSTM of 375 steps, training": (15_105, 8_224),
    "Mask R-CNN, inference": (4_095, 3_765),
}
SUBJECTS = (*OWL, "Mask R-CNN reduced, inference")
SMALLEST = ("MNIST, training", "LSTM of 2 steps, training", "Mask R-CNN reduced, inference")


def graph_of(subject: str, stack: Any) -> Any:
    """The closed graph, as it is built."""
    if subject.startswith("MNIST"):
        return models.get("mnist").training(stack, 100, seed=None, update=nn.Adagrad())
    if subject.startswith("LSTM"):
        return lstm_step(stack, int(subject.split()[2]))
    network = models.get("mask-rcnn")
    return (network.reduced() if "reduced" in subject else network).inference(stack, 1, seed=None)


def counts(subject: str) -> dict[str, Any]:
    """Applications asked for, built, and left."""
    stack = nnc.lazy(nnc.Null())
    general = [rule.name for rule in stack.optimiser.rules if rule.module == fuse.__name__]
    stack = stack.swap(optimiser=stack.optimiser.without_rules(*general))
    with nnc.counted(stack) as asked:
        graph = graph_of(subject, stack)
    optimised, _ = stack.graph.optimised(graph)
    left = optimised.statistics["applications"]
    return {
        "graph": subject,
        "asked for": asked.applications,
        "built": graph.statistics["applications"],
        "left": left,
        "left/asked": left / asked.applications,
    }


def main() -> None:
    """Print and write the table."""
    given, rows = options(__doc__).parse_args(), []
    for subject in SMALLEST if given.smallest else SUBJECTS:
        owl = OWL.get(subject)
        beside = {"Owl": f"{owl[0]:,} to {owl[1]:,}", "Owl's ratio": owl[1] / owl[0]} if owl else {}
        rows.append(counts(subject) | beside)
    report("reduction", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
