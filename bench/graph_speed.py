"""From Python to a runnable program: build, optimise, plan and bind an unrolled LSTM training step, and its arena.

Bars: build <= 15 µs and optimise + plan <= 40 µs an operator application at 15,000; at 50,000 <= 1.5 times the cost
at 5,000; arena <= 1.05 times the max load. JAX's trace + lower + compile is printed beside it where it is installed.

python bench/graph_speed.py [--smallest]: prints a table, writes bench/results/graph_speed.json.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from typing import Any

from lstm import APPLICATIONS_A_STEP, BATCH, HIDDEN, INPUTS, lstm_step
from measure import fresh, options, peer, pinned, report

import nnc_func as nnc
from nnc_func.engine.linkers.kernel_calls import link
from nnc_func.engine.planning.planner import planned
from nnc_func.engine.running import array_views
from nnc_func.garbage_collection import uncollected

SIZES = (5_000, 15_000, 50_000)  # operator applications
ROUNDS = 5
JAX_UP_TO = 5_000  # applications
PATIENCE = 300  # seconds


def once(applications: int) -> dict[str, float]:
    """One measurement of everything, in seconds; a stack of its own, so that nothing is interned yet."""
    stack = nnc.lazy()
    fresh()
    start = time.perf_counter()
    graph = lstm_step(stack, -(-applications // APPLICATIONS_A_STEP))
    built = time.perf_counter()
    fresh()
    with uncollected():  # as the engine compiles
        begin = time.perf_counter()
        optimised, _ = stack.graph.optimised(graph)
        rewritten = time.perf_counter()
        found = planned(stack.engine.request(optimised))
        plan, constants = found.plan, found.constants
        laid_out = time.perf_counter()
        arenas = {place: array_views.arena(stack.device, nbytes, place) for place, nbytes in plan.arenas.items()}
        link(plan, stack.device, constants, arenas)
        bound = time.perf_counter()
    return {
        "applications": graph.statistics["applications"],
        "left": optimised.statistics["applications"],
        "build": built - start,
        "optimise": rewritten - begin,
        "plan": laid_out - rewritten,
        "bind": bound - laid_out,
        "ratio": plan.ratio,
    }


def jax_step(steps: int) -> None:
    """Trace, lower and compile the same step in JAX; prints the seconds of each phase as soon as they are known."""
    import jax
    import jax.numpy as jnp

    def loss(params: Any, x: Any, target: Any) -> Any:
        w, u, b, out, bias = params
        h = c = jnp.zeros((BATCH, HIDDEN))
        for t in range(steps):
            i, f, g, o = jnp.split(x[t] @ w + h @ u + b, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return jnp.mean((h @ out + bias - target) ** 2)

    def step(params: Any, caches: Any, x: Any, target: Any, rate: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, x, target)
        new = [c + g * g for c, g in zip(caches, gradients, strict=True)]
        updated = [p - rate * g / (jnp.sqrt(c) + 1e-7) for p, g, c in zip(params, gradients, new, strict=True)]
        return value, updated, new

    shapes = [(INPUTS, 4 * HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN,), (HIDDEN, INPUTS), (INPUTS,)]
    params = [jnp.zeros(s) for s in shapes]
    x, target = jnp.zeros((steps, BATCH, INPUTS)), jnp.zeros((BATCH, INPUTS))
    start = time.perf_counter()
    lowered = jax.jit(step).lower(params, params, x, target, 0.1)
    print(time.perf_counter() - start, flush=True)
    lowered.compile()
    print(time.perf_counter() - start, flush=True)


def jax_seconds(steps: int) -> dict[str, float]:
    """Seconds that JAX takes until the step is lowered, and until it is compiled; in a process of its own.

    What does not end in `PATIENCE` seconds, or in the memory that there is, is left out: XLA compiles a graph of
    15,000 operators for minutes and needs more than 20 GiB for it.
    """
    command = [sys.executable, __file__, "--jax", str(steps)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        assert process.stdout is not None
        found = [float(line) for line in process.stdout]
        timer.cancel()
    return dict(zip(("JAX lowered", "JAX compiled"), found, strict=False))


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("--jax", type=int, metavar="STEPS", help="in JAX only: seconds until lowered, until compiled")
    given = parser.parse_args()
    jax = peer("jax")
    if given.jax is None:
        measured(given.smallest, jax is not None)
    elif jax is not None:
        jax_step(given.jax)


def measured(smallest: bool, beside_jax: bool) -> None:
    """Measure each size, print and write the table."""
    sizes, rounds, rows = ((100,), 1, []) if smallest else (SIZES, ROUNDS, [])
    once(500)
    with pinned():
        for size in sizes:
            found = [once(size) for _ in range(rounds)]
            n = found[0]["applications"]
            row: dict[str, Any] = {"applications": n, "left": found[0]["left"]}
            for phase in ("build", "optimise", "plan", "bind"):
                row[f"{phase} µs/app"] = 1e6 * statistics.median(f[phase] for f in found) / n
            row["optimise+plan+bind"] = sum(row[f"{p} µs/app"] for p in ("optimise", "plan", "bind"))
            row["arena/max load"] = found[0]["ratio"]
            if beside_jax and size <= JAX_UP_TO:
                row |= {k: 1e6 * v / n for k, v in jax_seconds(int(n) // APPLICATIONS_A_STEP).items()}
            rows.append(row)
    report("graph_speed", rows, smallest=smallest)


if __name__ == "__main__":
    main()
