"""The LSTM of `rolled.py` in JAX's `scan` and in PyTorch, forward and backward, each in a process of its own.

Processes take turns: ours, JAX's, PyTorch's (its own fused LSTM, and a loop of its operators by autograd), ours, … .
Each tells the seconds to its first gradients, imports and compilation included, and the median of its calls; the table
has the medians of these. Gradients are held against those of the loop by hand. What is not installed is left out.
``--python`` names another interpreter, which has what is compared with.

python bench/rolled_peers.py [--smallest] [--python PATH]: prints a table, writes bench/results/rolled_peers.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import options, peer, pinned, report
from rolled import NAMES, SIZES, SMALLEST, arrays_of, by_hand, loss

import nnc_func as nnc

Call = Callable[[], Any]


def ours(arrays: list[Any]) -> Call:
    """This library's, rolled."""
    lazy = nnc.lazy()
    inputs = [lazy.input(name, a.shape, "float32") for name, a in zip(NAMES, arrays, strict=True)]
    gradient = lazy.grad(lambda *given: loss(lazy, *given, 1), argnums=(0, 1, 2, 3))
    program = lazy.compile(inputs, list(gradient(*inputs)))
    return lambda: program(*arrays)


def numpy(arrays: list[Any]) -> Call:
    """A loop by hand."""
    return lambda: by_hand(*arrays)


def jax(arrays: list[Any]) -> Call:
    """`lax.scan` under `jit` and `grad`."""
    import jax as module
    from jax import lax, nn
    from jax import numpy as jnp

    units = arrays[4].shape[1]

    def total(w: Any, u: Any, b: Any, x: Any, h: Any, c: Any) -> Any:
        def body(states: Any, x: Any) -> Any:
            h, c = states
            z = x @ w + h @ u + b
            i, f, g, o = (z[:, k * units : (k + 1) * units] for k in range(4))
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(body, (h, c), x)[1].sum()

    call = module.jit(module.grad(total, argnums=(0, 1, 2, 3)))
    given = [jnp.asarray(a) for a in arrays]
    return lambda: module.block_until_ready(call(*given))


def _gradients(arrays: list[Any], run: Callable[..., Any]) -> Call:
    import torch

    torch.set_num_threads(1)
    given = [torch.tensor(a, requires_grad=n < 4) for n, a in enumerate(arrays)]
    return lambda: torch.autograd.grad(run(torch, *given).sum(), given[:4])


def torch_lstm(arrays: list[Any]) -> Call:
    """PyTorch's own LSTM, one operator."""

    def run(torch: Any, w: Any, u: Any, b: Any, x: Any, h: Any, c: Any) -> Any:
        weights = [w.T.contiguous(), u.T.contiguous(), b, torch.zeros_like(b)]
        return torch.lstm(x, [h[None], c[None]], weights, True, 1, 0.0, False, False, False)[0]

    return _gradients(arrays, run)


def torch_loop(arrays: list[Any]) -> Call:
    """A loop of PyTorch's operators."""
    units = arrays[4].shape[1]

    def run(torch: Any, w: Any, u: Any, b: Any, x: Any, h: Any, c: Any) -> Any:
        outs = []
        for row in x @ w:
            i, f, g, o = torch.split(row + h @ u + b, units, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(h)
        return torch.stack(outs)

    return _gradients(arrays, run)


PEERS: dict[str, tuple[Callable[[list[Any]], Call], str]] = {
    "ours": (ours, "numpy"),
    "NumPy by hand": (numpy, "numpy"),
    "JAX scan": (jax, "jax"),
    "PyTorch LSTM": (torch_lstm, "torch"),
    "PyTorch loop": (torch_loop, "torch"),
}


def taken(name: str, size: tuple[int, ...], rounds: int) -> dict[str, float]:
    """What one process tells: seconds to the first gradient, and of one call."""
    arrays = arrays_of(*size)
    with pinned(1):
        start = time.perf_counter()
        call = PEERS[name][0](arrays)
        found = call()
        first, seconds = time.perf_counter() - start, []
        for mine, wanted in zip(found, by_hand(*arrays), strict=True):
            np.testing.assert_allclose(np.asarray(mine), wanted, rtol=1e-2, atol=1e-3)
        for _ in range(rounds):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return {"first": first, "call": statistics.median(seconds), "least": min(seconds)}


def of_process(python: str, name: str, size: tuple[int, ...], rounds: int) -> dict[str, float]:
    """The same, in a process of its own, which has one thread."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    one["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    path = os.pathsep.join(p for p in sys.path if p)
    command = [python, __file__, "--one", json.dumps([name, size, rounds])]
    environment = {
        **os.environ,
        **one,
        "PYTHONPATH": os.environ.get("PYTHONPATH", "") if python != sys.executable else path,
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(python: str, there: list[str], size: tuple[int, ...], processes: int, rounds: int) -> dict[str, Any]:
    """One size: processes in turn."""
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in there}
    for _ in range(processes):
        for name in there:
            taken[name].append(of_process(python, name, size, rounds))
    found: dict[str, Any] = {"steps": size[0]}
    for name, each in taken.items():
        found[f"{name}: ms"] = 1e3 * statistics.median(t["call"] for t in each)
        found[f"{name}: seconds to the first"] = statistics.median(t["first"] for t in each)
    for name in there[1:]:
        found[f"ours / {name}"] = found["ours: ms"] / found[f"{name}: ms"]
    return found


def main() -> None:
    """Print and write the table; in a process of one peer, that alone."""
    parser = options(__doc__)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has JAX and PyTorch")
    parser.add_argument("--one", help="used by the program itself")
    given = parser.parse_args()
    if given.one:
        name, size, rounds = json.loads(given.one)
        print(json.dumps(taken(name, tuple(size), rounds)))
        return
    own = given.python == sys.executable
    modules = {module for _, module in PEERS.values()}
    missing = {module for module in modules if own and peer(module) is None}
    there = [name for name, (_, module) in PEERS.items() if module not in missing]
    sizes, processes, rounds = (SMALLEST, 1, 2) if given.smallest else (SIZES[:1], 3, 15)
    report(
        "rolled_peers", [row(given.python, there, size, processes, rounds) for size in sizes], smallest=given.smallest
    )


if __name__ == "__main__":
    main()
