"""The zoo on the device that computes nothing: sizes of graphs before and after rewriting, arithmetic, planned bytes.

python bench/zoo.py [--training] [--smallest]: prints a table, writes bench/results/zoo.json, or zoo_training.json. The
smallest size is both of one network. The first rows of training are the two networks of Owl's article, trained by
Adagrad as there. It tells 201 nodes and 239 edges of MNIST's step, 103 and 140 once optimised; 15,105 and 21,335 of the
long short-term memory's, then 8,224 and 14,444.
"""

from __future__ import annotations

import time
from typing import Any

from measure import options, report

import nnc_func as nnc
from nnc_func import models, nn

ARTICLE = (("mnist", 100), ("char-lstm", 100))


def article(name: str, batch: int) -> dict[str, Any]:
    """A training step by Adagrad, as the article counts it."""
    stack, model = nnc.lazy(nnc.Null()), models.get(name)
    graph = model.training(stack, batch, seed=None, update=nn.Adagrad())
    stats = stack.engine.compile(graph).stats
    return {
        "network": f"{name}, Adagrad, {batch}",
        "nodes": stats.before["nodes"],
        "edges": stats.before["edges"],
        "optimised nodes": stats.after["nodes"],
        "optimised edges": stats.after["edges"],
    }


def counted(name: str, training: bool) -> dict[str, Any]:
    """A network's summary, and the processor's seconds that it took to build, optimise and plan."""
    start = time.process_time()
    found = models.summary(name, training=training)
    seconds = time.process_time() - start
    return {
        "network": name,
        "nodes": found.nodes,
        "edges": found.edges,
        "optimised nodes": found.optimised_nodes,
        "optimised edges": found.optimised_edges,
        "applications": found.applications,
        "kernels": found.kernels,
        "parameters": found.parameters,
        "GFLOP": found.flops / 1e9,
        "max load MB": found.max_load_bytes / 1e6,
        "arena MB": found.arena_bytes / 1e6,
        "arena/max load": found.arena_bytes / found.max_load_bytes,
        "seconds": seconds,
    }


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("--training", action="store_true", help="of training steps")
    given = parser.parse_args()
    if given.smallest:
        rows = [article("mnist", 100), counted("lenet-5", False), counted("lenet-5", True)]
    else:
        rows = [article(*each) for each in ARTICLE] if given.training else []
        names = [name for name in models.names() if models.get(name).trains or not given.training]
        rows += [counted(name, given.training) for name in names]
    report("zoo_training" if given.training else "zoo", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
