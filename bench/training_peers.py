"""Training steps beside JAX's and PyTorch's, each side in a process of its own: MNIST, an LSTM, a transformer block.

python bench/training_peers.py [--threads 2] [--processes 5] [--rounds 4] [--clock wall] [--python PATH] [--smallest]
[NETWORK ...] prints a table, writes bench/results/training_peers.json. A step is loss, gradients and update: Adagrad
for the MNIST network, gradient descent for the others. Ours runs on NumPy() and on CPU(); JAX under `jit` with its
state donated, PyTorch as it is and by `torch.compile`, the optimiser's step, too. All start from the same weights, and
the losses of the first steps must agree. "Products alone" are the step's matrix products by BLAS or oneDNN, whichever
takes less time: nobody who calls them is faster. The clock "process" counts what a process computes, for machines that
are not quiet: with one thread. ``--python`` names another interpreter, which has the peers; what is not installed is
left out.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from apart import Side, in_turn, serve
from measure import earlier, options, peer, table, write

Step = Callable[[], float]
Arrays = list[Any]
SIZES = {  # what a batch is of, by network
    "mnist": {"batch": 100, "units": 1024},
    "lstm": {"batch": 100, "steps": 50, "inputs": 128, "units": 128},
    "block": {"batch": 8, "steps": 256, "units": 512, "heads": 8},
}
SMALLEST = {
    "mnist": {"batch": 2, "units": 8},
    "lstm": {"batch": 2, "steps": 3, "inputs": 4, "units": 5},
    "block": {"batch": 2, "steps": 4, "units": 8, "heads": 2},
}
BARS = {"mnist": 0.45, "lstm": 0.65, "block": 0.8}  # of the best peer; of the LSTM, of JAX
REFUSED = ("PyTorch, compiled", "lstm")  # torch 2.13 makes no code that runs of its own LSTM
RATE, EPSILON, FIRST = 1e-3, 1e-7, 3
CLOCKS = {"wall": time.perf_counter, "process": time.process_time}


# --- what is computed ------------------------------------------------------------------------------------


def shapes_of(name: str, size: dict[str, int]) -> list[tuple[int, ...]]:
    """Those of the parameters, in the order in which a model of ours has them."""
    n = size["units"]
    if name == "mnist":
        return [(5, 5, 1, 32), (32,), (14 * 14 * 32, n), (n,), (n, 10), (10,)]
    if name == "lstm":
        return [(size["inputs"], 4 * n), (n, 4 * n), (4 * n,)]
    norm = [(n,), (n,)]
    return [*norm, *[(n, n)] * 4, (4 * n,), *norm, (n, 4 * n), (4 * n,), (4 * n, n), (n,)]


def problem(name: str, size: dict[str, int]) -> tuple[Arrays, Any, Any]:
    """Parameters, examples and targets, drawn."""
    draw = np.random.default_rng(0)
    parameters = []
    for at, shape in enumerate(shapes_of(name, size)):
        reach = math.sqrt(3 / math.prod(shape[:-1]))
        drawn = draw.uniform(-reach, reach, shape) if len(shape) > 1 else np.zeros(shape)
        parameters.append(np.float32(drawn + (name == "block" and at in (0, 7))))
    if name == "mnist":
        images = draw.random((size["batch"], 28, 28, 1)) * (draw.random((size["batch"], 28, 28, 1)) < 0.2)
        return parameters, np.float32(images), draw.integers(0, 10, size["batch"])
    shape = size["batch"], size["steps"], size.get("inputs", size["units"])
    x, y = draw.standard_normal(shape), draw.standard_normal((*shape[:-1], size["units"]))
    return parameters, np.float32(x), np.float32(y)


def ours(device: str, name: str, size: dict[str, int]) -> Step:
    """This library's step."""
    import nnc_func as nnc
    from nnc_func import nn
    from nnc_func.models.mnist import mnist
    from nnc_func.nn.blocks import transformer_block
    from nnc_func.tree import flatten

    parameters, x, y = problem(name, size)
    n = size["units"]
    made = {
        "mnist": lambda: mnist(units=n),
        "lstm": lambda: nn.LSTM(n),
        "block": lambda: transformer_block(n, size["heads"]),
    }[name]()
    structure = flatten(made.init(0, (None, *x.shape[1:])))[1]
    is_mnist = name == "mnist"
    loss, update = (nn.softmax_cross_entropy, nn.Adagrad(epsilon=EPSILON)) if is_mnist else (nn.quadratic, nn.SGD())
    stack = nnc.lazy({"numpy": nnc.NumPy, "cpu": nnc.CPU}[device]())
    step = nn.Step(stack, structure.build(parameters), loss, update)
    return lambda: float(step(x, y, RATE)[0])


# --- JAX -------------------------------------------------------------------------------------------------


def jax_loss(name: str, size: dict[str, int]) -> Callable[..., Any]:
    """The loss of parameters, examples and targets."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def mnist(p: Any, x: Any, y: Any) -> Any:
        dims = ("NHWC", "HWIO", "NHWC")
        h = jax.nn.relu(lax.conv_general_dilated(x, p[0], (1, 1), "SAME", dimension_numbers=dims) + p[1])
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = jax.nn.relu(h.reshape(len(x), -1) @ p[2] + p[3]) @ p[4] + p[5]
        return -jnp.take_along_axis(jax.nn.log_softmax(h), y[:, None], 1).mean()

    def lstm(p: Any, x: Any, y: Any) -> Any:
        w, u, b = p
        n = u.shape[0]
        zero = jnp.zeros((x.shape[0], n), x.dtype)

        def body(states: Any, z: Any) -> Any:
            h, c = states
            z = z + h @ u
            i, f, g, o = (z[:, k * n : (k + 1) * n] for k in range(4))
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        every = lax.scan(body, (zero, zero), (x @ w + b).swapaxes(0, 1))[1]
        return jnp.square(every.swapaxes(0, 1) - y).mean()

    def norm(x: Any, scale: Any, offset: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * scale + offset

    def block(p: Any, x: Any, y: Any) -> Any:
        n, heads = x.shape[-1], size["heads"]
        b = p[6].reshape(4, n)
        z = norm(x, p[0], p[1])
        q, k, v = (
            (z @ p[2 + i] + b[i]).reshape(*x.shape[:2], heads, n // heads).transpose(0, 2, 1, 3) for i in range(3)
        )
        scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(n // heads))
        x = x + (scores @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ p[5] + b[3]
        z = jax.nn.gelu(norm(x, p[7], p[8]) @ p[9] + p[10], approximate=False)
        return jnp.square(x + z @ p[11] + p[12] - y).mean()

    return {"mnist": mnist, "lstm": lstm, "block": block}[name]


def jax_step(name: str, size: dict[str, int], threads: int) -> Step:
    """The step under `jit`."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:threads])  # XLA has as many threads as there are cores when it begins
    import jax
    from jax import numpy as jnp

    jax.devices()
    os.sched_setaffinity(0, cores)
    loss, is_mnist = jax_loss(name, size), name == "mnist"

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(parameters: Any, squares: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        if not is_mnist:
            return value, [p - RATE * g for p, g in zip(parameters, gradients, strict=True)], squares
        squares = [h + g * g for h, g in zip(squares, gradients, strict=True)]
        whole = zip(parameters, gradients, squares, strict=True)
        return value, [p - RATE * g / (jnp.sqrt(h) + EPSILON) for p, g, h in whole], squares

    drawn, x, y = problem(name, size)
    x, y = jnp.asarray(x), jnp.asarray(y)
    state = [[jnp.asarray(p) for p in drawn], [jnp.zeros(p.shape) for p in drawn] if is_mnist else []]

    def call() -> float:
        value, *state[:] = step(*state, x, y)
        jax.block_until_ready(state)
        return float(value)

    return call


# --- PyTorch ---------------------------------------------------------------------------------------------


def torch_loss(name: str, size: dict[str, int]) -> Callable[..., Any]:
    """The loss of parameters, examples and targets, as PyTorch likes them to lie."""
    import torch
    from torch.nn import functional as f

    def mnist(p: Any, x: Any, y: Any) -> Any:
        h = f.max_pool2d(f.relu(f.conv2d(x, p[0], p[1], padding=2)), 2)
        return f.cross_entropy(f.linear(f.relu(f.linear(h.flatten(1), p[2], p[3])), p[4], p[5]), y)

    def lstm(p: Any, x: Any, y: Any) -> Any:
        zero = x.new_zeros(1, x.shape[0], size["units"])
        weights = [*p, torch.zeros_like(p[2])]
        return f.mse_loss(torch.lstm(x, [zero, zero], weights, True, 1, 0.0, True, False, True)[0], y)

    def block(p: Any, x: Any, y: Any) -> Any:
        n, heads = x.shape[-1], size["heads"]
        z = f.layer_norm(x, (n,), p[0], p[1])
        q, k, v = (
            f.linear(z, p[2 + i], p[6][i * n : (i + 1) * n]).unflatten(-1, (heads, -1)).transpose(1, 2)
            for i in range(3)
        )
        z = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + f.linear(z, p[5], p[6][3 * n :])
        z = f.gelu(f.linear(f.layer_norm(x, (n,), p[7], p[8]), p[9], p[10]))
        return f.mse_loss(x + f.linear(z, p[11], p[12]), y)

    return {"mnist": mnist, "lstm": lstm, "block": block}[name]


def torch_step(compiled: bool, name: str, size: dict[str, int], threads: int) -> Step:
    """The step of autograd and one of PyTorch's optimisers."""
    import torch

    torch.set_num_threads(threads)
    drawn, x, y = problem(name, size)
    if name == "mnist":
        x = x.transpose(0, 3, 1, 2)
        drawn[2] = drawn[2].reshape(14, 14, 32, -1).transpose(2, 0, 1, 3).reshape(drawn[2].shape)
    axes = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}  # channels out, channels in, height, width
    lying = [np.ascontiguousarray(p.transpose(axes[p.ndim])) for p in drawn]
    x, y, parameters = torch.tensor(x), torch.tensor(y), [torch.tensor(p, requires_grad=True) for p in lying]
    update = (
        torch.optim.Adagrad(parameters, RATE, eps=EPSILON, fused=True)
        if name == "mnist"
        else torch.optim.SGD(parameters, RATE, fused=True)
    )
    loss, advance = torch_loss(name, size), update.step
    if compiled:
        loss, advance = torch.compile(loss), torch.compile(advance)

    def call() -> float:
        value = loss(parameters, x, y)
        update.zero_grad(set_to_none=True)
        value.backward()
        advance()
        return float(value.detach())

    return call


# --- what nobody is faster than ----------------------------------------------------------------------------


def products(name: str, size: dict[str, int]) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """The matrix products of a step, of its convolution none: how many times, left and right shapes.

    A negative number stands for the two axes that lie the other way round in memory: of (..., -3, -2) there are 2 x 3.
    """
    b, n, t = size["batch"], size["units"], size.get("steps", 1)
    if name == "mnist":
        pixels = 14 * 14 * 32
        return [(1, (b, pixels), (pixels, n)), (1, (b, n), (-pixels, -n)), (1, (-b, -pixels), (b, n))]
    if name == "lstm":
        i, rows = size["inputs"], t * b
        gates = [(t, (b, n), (n, 4 * n)), (t, (b, 4 * n), (-n, -4 * n))]
        return [(1, (rows, i), (i, 4 * n)), *gates, *[(1, (-rows, -k), (rows, 4 * n)) for k in (i, n)]]
    found: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
    rows = b * t
    for count, wide in ((4, (n, n)), (1, (n, 4 * n)), (1, (4 * n, n))):
        inner, outer = wide
        found += [(count, (rows, inner), wide), (count, (rows, outer), (-inner, -outer))]
        found += [(count, (-rows, -inner), (rows, outer))]
    heads, d = (b * size["heads"],), n // size["heads"]
    scores, values = (*heads, t, t), (*heads, t, d)
    found += [(2, values, (*heads, -t, -d)), (2, scores, values), (2, (*heads, -t, -t), values)]
    return found


def alone(name: str, size: dict[str, int], threads: int) -> Step:
    """A step's matrix products and nothing else, by whichever of BLAS and oneDNN takes less time for all of them."""
    draw = np.random.default_rng(0)
    calls: list[list[Callable[[], Any]]] = [[], []]
    for count, *shapes in products(name, size):
        given = [draw.standard_normal([abs(k) for k in shape]).astype("float32") for shape in shapes]
        a, b = (x.swapaxes(-1, -2) if min(shape) < 0 else x for x, shape in zip(given, shapes, strict=True))
        out = np.empty((*a.shape[:-1], b.shape[-1]), "float32")
        ways = [partial(np.matmul, a, b, out)]
        if (prepared := _prepared(a, b)) is not None:
            ways.append(partial(prepared, a, b, out))
        for kept, way in zip(calls, ways, strict=False):
            kept += [way] * count

    def seconds(kept: Any) -> float:
        start = time.perf_counter()
        for call in kept:
            call()
        return time.perf_counter() - start

    best = min((kept for kept in calls if kept), key=lambda kept: min(seconds(kept) for _ in range(4)))
    return lambda: seconds(best) * math.nan


def _prepared(a: Any, b: Any) -> Callable[..., Any] | None:
    """oneDNN's product of such arrays."""
    from nnc_func.device.onednn.bound import bound
    from nnc_func.device.onednn.library import library
    from nnc_func.device.onednn.primitives import Product, product

    if library() is None:
        return None
    lies = [not x.flags.c_contiguous for x in (a, b)]
    made = product(Product(a.shape, b.shape, *lies))
    return bound(made, np.empty(made.room, np.uint8) if made.scratch else None, (lambda x: x,) * 2)


# --- all sides -------------------------------------------------------------------------------------------

SIDES: dict[str, tuple[Callable[..., Step], str]] = {
    "CPU()": (lambda name, size, threads: ours("cpu", name, size), ""),
    "NumPy()": (lambda name, size, threads: ours("numpy", name, size), ""),
    "JAX": (jax_step, "jax"),
    "PyTorch": (partial(torch_step, False), "torch"),
    "PyTorch, compiled": (partial(torch_step, True), "torch"),
    "products alone": (alone, ""),
}


def side(name: str, network: str, size: dict[str, int], threads: int, clock: str) -> None:
    """Serve one side."""
    start = time.perf_counter()
    step = SIDES[name][0](network, size, threads)
    losses = [step() for _ in range(FIRST)]
    serve(step, CLOCKS[clock], losses=losses, seconds=time.perf_counter() - start)


def there(python: str) -> list[str]:
    """The sides that can be: of peers those that the interpreter has."""
    found = {""}
    for module in ("jax", "torch"):
        if python == sys.executable:
            is_there = peer(module) is not None
        else:
            is_there = not subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode
        found |= {module} if is_there else set()
    return [name for name, (_, module) in SIDES.items() if module in found]


def compared(network: str, given: Any, names: Sequence[str]) -> dict[str, Any]:
    """The figures of one network."""
    size = (SMALLEST if given.smallest else SIZES)[network]

    def begin() -> dict[str, Side]:
        sides: dict[str, Side] = {}
        with ExitStack() as ends:
            for name in names:
                if (name, network) != REFUSED:
                    python = given.python if SIDES[name][1] else sys.executable
                    asked = json.dumps([name, network, size, given.threads, given.clock])
                    sides[name] = Side([__file__, "--side", asked], given.threads, python)
                    ends.callback(sides[name].end)  # where another one fails
            ends.pop_all()
        return sides

    rounds, processes = (1, 1) if given.smallest else (given.rounds, given.processes)
    found = in_turn(begin, rounds, processes)
    facts = found.pop("facts")
    for each in (each for name, each in facts.items() if name != "products alone"):
        np.testing.assert_allclose(each["losses"], facts[names[0]]["losses"], rtol=1e-3)
    return found | {"seconds to the third step": {name: each["seconds"] for name, each in facts.items()}}


def row(network: str, found: dict[str, Any]) -> dict[str, Any]:
    """A line of the table."""
    line: dict[str, Any] = {"network": network}
    line |= {f"{name} ms": ms for name, ms in found["milliseconds"].items()}
    best = max((r for name, r in found["ratios"].items() if SIDES[name][1]), default=None)
    if best is not None:
        line |= {"of the best peer": best, "bar": BARS[network]}
    if "JAX" in found["ratios"]:
        line["of JAX"] = found["ratios"]["JAX"]
    return line | {"quiet": "yes" if found["is quiet"] else "no"}


def main() -> None:
    """Measure, tell, write."""
    parser = options(__doc__)
    parser.add_argument("networks", nargs="*", choices=[[], *SIZES])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4, help="turns of each process")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has JAX and PyTorch")
    parser.add_argument("--side", help="used by the program itself")
    given = parser.parse_args()
    if given.side:
        side(*json.loads(given.side))
        return
    names = there(given.python)
    networks = given.networks or (["lstm"] if given.smallest else [*SIZES])
    found = {network: compared(network, given, names) for network in networks}
    print(f"{given.threads} threads, {given.clock} clock")
    table([row(network, each) for network, each in found.items()])
    import nnc_func as nnc

    kept = earlier("training_peers", {})
    about = {"python": platform.python_version(), "numpy": np.__version__, "machine": nnc.CPU().library_setting}
    key = f"{given.threads} threads, {given.clock} clock"
    kept[key] = {**kept.get(key, {}), **found, "about": about, "rounds": given.rounds, "processes": given.processes}
    write("training_peers", json.dumps(kept, indent=1, sort_keys=True), smallest=given.smallest)


if __name__ == "__main__":
    main()
