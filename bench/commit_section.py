"""What it costs that a program which fails leaves its variables as they were: peak bytes against a careless plan.

The careless plan writes over a variable as soon as nothing reads it any more. Peak bytes are those of the arena and of
fresh arrays (results, next values of variables). Bar: <= 1.1 for each: MNIST, dense layers, an LSTM, random graphs.

python bench/commit_section.py [--smallest]: prints a table, writes bench/results/commit_section.json.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import Phase, given, seed, settings
from lstm import lstm_step
from measure import options, report
from mnist_step import batch, network

sys.path.insert(0, str(Path(__file__).parents[1]))  # programs that write are beside the tests

import nnc_func as nnc
from nnc_func import nn
from nnc_func.testing.programs import Program, programs
from tests.failures import peak_bytes
from tests.squares import writing

BAR = 1.1
LAZY = nnc.lazy()
UPDATES = {
    "Adagrad": nn.Adagrad(epsilon=1e-7), "Adam": nn.Adam(), "SGD": nn.SGD(), "SGD with momentum": nn.SGD(momentum=0.9),
}  # fmt: skip


def peak(graph: Any, careless: bool) -> int:
    """Bytes of the arena, results and next values of a graph's plan."""
    return peak_bytes(LAZY, graph, careless)[0]


def row(what: str, graph: Any) -> dict[str, Any]:
    """One line of the table."""
    careful, careless = peak(graph, False), peak(graph, True)
    return {"what": what, "careful bytes": careful, "careless bytes": careless, "ratio": careful / careless, "bar": BAR}


def mnist(updates: dict[str, Any], smallest: bool) -> list[dict[str, Any]]:
    """The main job's step, with each update."""
    x, y = batch(smallest)
    rows = []
    for name, update in updates.items():
        step = nn.Step(LAZY, network(smallest), nn.softmax_cross_entropy, update, metrics={"accuracy": nn.accuracy})
        rows.append(row(f"MNIST step, {name}", step.program(x, y).graph))
    return rows


def deep(batches: tuple[int, ...]) -> list[dict[str, Any]]:
    """Where it costs most: many layers of one size, a small batch, so that gradients wait for each other."""
    rows = []
    for size in batches:
        model = nn.Sequential(*[nn.Dense(512) for _ in range(10)]).init(1, (None, 512))
        step = nn.Step(LAZY, model, nn.quadratic, nn.SGD())
        x = np.ones((size, 512), "float32")
        rows.append(row(f"ten dense layers of 512 units, batch {size}", step.program(x, x).graph))
    return rows


def drawn(count: int) -> list[Any]:
    """Graphs of so many random programs that update a variable."""
    found: list[Any] = []

    @seed(0)
    @settings(max_examples=20 * count, database=None, deadline=None, phases=[Phase.generate])
    @given(programs())
    def collect(program: Program) -> None:
        if program.updates and len(found) < count:
            with np.errstate(all="ignore"):
                found.append(program.build(LAZY).program.graph)

    collect()
    return found


def recurrent(steps: int) -> list[dict[str, Any]]:
    """An LSTM over so many steps: the parts of each gradient are summed up."""
    return [row(f"LSTM step over {steps} steps", LAZY.graph.optimised(lstm_step(LAZY, steps))[0])]


def squares(count: int) -> list[Any]:
    """Graphs of small matrices that write variables, with up to 30 operators."""
    with np.errstate(all="ignore"):
        return [program.build(LAZY).program.graph for program in writing(count)]


def together(what: str, graphs: list[Any]) -> list[dict[str, Any]]:
    """All their bytes together, how many are above the bar alone, and the worst of them."""
    pairs = [(peak(g, False), peak(g, True)) for g in graphs]
    careful, careless = (sum(p[i] for p in pairs) for i in (0, 1))
    ratios = [a / b for a, b in pairs if b]
    return [
        {"what": f"{len(pairs)} {what}", "careful bytes": careful, "careless bytes": careless,
         "ratio": careful / careless, "bar": BAR},
        {"what": "of them above the bar alone", "ratio": sum(r > BAR for r in ratios)},
        {"what": "median ratio", "ratio": statistics.median(ratios)},
        {"what": "largest ratio", "ratio": max(ratios), "bar": BAR},
    ]  # fmt: skip


def main() -> None:
    """Print and write the table."""
    smallest = options(__doc__).parse_args().smallest
    count = 3 if smallest else 200
    report(
        "commit_section",
        [
            *mnist({"SGD": UPDATES["SGD"]} if smallest else UPDATES, smallest),
            *deep((10,) if smallest else (10, 512)),
            *recurrent(2 if smallest else 100),
            *together("random programs", drawn(count)),
            *together("graphs that write variables", squares(count)),
        ],
        smallest=smallest,
    )


if __name__ == "__main__":
    main()
