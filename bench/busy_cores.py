"""Networks and training steps on CPU() beside a busy neighbour: a loop of Python's, or products by two threads of BLAS.

python bench/busy_cores.py [--threads 2] [--processes 3] [--rounds 3] [--smallest] prints a table, writes
bench/results/busy_cores.json. Each network is in a process of its own. A neighbour is not pinned, and never waits; it
is stopped while the network is measured alone, in turn. The bar, of the median: 2.5 times as long as alone.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from apart import Side, serve
from measure import options, report
from training_peers import SIZES, SMALLEST, ours

NEIGHBOURS = {
    "a loop of Python's": "while True: pass",
    "products of BLAS": "import numpy as np\na = np.ones((512, 512), 'float32')\nwhile True: a @ a",
}
NETWORKS = ("ResNet-50", "mnist", "lstm", "block")
BAR, CALLS = 2.5, 8


def inference(smallest: bool) -> Callable[[], Any]:
    """ResNet-50 of one image; the smallest one is ResNet-18, reduced."""
    import nnc_func as nnc
    from nnc_func import models

    model = models.get("resnet-18").reduced() if smallest else models.get("resnet-50")
    stack = nnc.lazy(nnc.CPU())
    network = model.network(seed=0)
    x = np.random.default_rng(0).random((1, *model.shape), "float32")
    given = stack.input("x", x.shape, "float32")
    program = stack.compile([given], network(given))
    return lambda: program(x)


def side(name: str, smallest: bool) -> None:
    """Serve a network."""
    size = SMALLEST if smallest else SIZES
    serve(inference(smallest) if name == "ResNet-50" else ours("cpu", name, size[name]))


def row(name: str, neighbour: str, given: Any) -> dict[str, Any]:
    """Milliseconds alone and beside a neighbour, in turn."""
    taken: dict[str, list[float]] = {"alone": [], "beside": []}
    rounds, processes, calls = (1, 1, 1) if given.smallest else (given.rounds, given.processes, CALLS)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    for _ in range(processes):
        served = Side([__file__, "--side", json.dumps([name, given.smallest])], given.threads)
        beside = subprocess.Popen([sys.executable, "-c", NEIGHBOURS[neighbour]], env=environment)
        try:
            served.ask(2)
            for _ in range(rounds):
                for where, number in (("alone", signal.SIGSTOP), ("beside", signal.SIGCONT)):
                    beside.send_signal(number)
                    taken[where] += [1e3 * seconds for seconds in served.ask(1 + calls)[1:]]
        finally:
            beside.kill()
            beside.wait()
            served.end()
    alone, busy = (statistics.median(taken[where]) for where in ("alone", "beside"))
    return {"network": name, "beside": neighbour, "alone ms": alone, "ms": busy, "times": busy / alone, "bar": BAR,
            "longest times": max(taken["beside"]) / alone}  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    parser = options(__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", help="used by the program itself")
    given = parser.parse_args()
    if given.side:
        side(*json.loads(given.side))
        return
    networks = ("ResNet-50", "mnist") if given.smallest else NETWORKS
    rows = [row(name, neighbour, given) for name in networks for neighbour in NEIGHBOURS]
    report("busy_cores", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
