"""A GPU beside the host it stands in: training steps and passes of the zoo, a rolled LSTM, and what a call costs.

Rows are medians of calls that take turns in one process; each call ends when the GPU has computed it. Chains of kernels
are beside the same bare calls of CuPy. Where there is no GPU the host is measured alone, and nothing is written.

python bench/gpu.py [--smallest]: prints a table, writes bench/results/gpu.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from measure import alternating, options, peer, report
from rolled import NAMES, SMALLEST, arrays_of, loss

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.tree import flatten

TRAINED = (("mnist", 100), ("mnist", 1000), ("resnet-18", 16), ("gpt-2", 4), ("u-net", 2))
INFERRED = (("resnet-50", 16), ("vgg-16", 16), ("transformer-encoder", 16))
LENGTH = 100  # kernels of a chain


def until_computed(stack: Any, call: Callable[[], Any]) -> Callable[[], None]:
    """The call, and the wait for what it started."""

    def complete() -> None:
        call()
        stack.device.synchronise()

    return complete


def row(name: str, calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Milliseconds of each in turn."""
    found: dict[str, Any] = {"what": name}
    found |= {f"{which} ms": 1e3 * seconds for which, seconds in alternating(calls, rounds).items()}
    print(f"{name} is measured", flush=True)
    return found


def training(stacks: dict[str, Any], name: str, batch: int, reduced: bool) -> dict[str, Callable[[], Any]]:
    """A training step on each stack."""
    model = models.get(name).reduced() if reduced else models.get(name)
    data, calls = model.examples(batch=batch, seed=1), {}
    for which, stack in stacks.items():
        step = model.step(stack, seed=1, update=nn.SGD())
        calls[which] = until_computed(stack, lambda step=step: step(*data, 0.001))  # type: ignore[misc]
    return calls


def inference(stacks: dict[str, Any], name: str, batch: int, reduced: bool) -> dict[str, Callable[[], Any]]:
    """A pass on each stack, of data that lies where the stack computes."""
    model = models.get(name).reduced() if reduced else models.get(name)
    x, _ = model.examples(batch=batch, seed=1)
    calls = {}
    for which, stack in stacks.items():
        program = stack.engine.compile(model.make(stack, batch=batch, seed=1))
        given = [stack.device.asarray(each) for each in flatten(x)[0]]
        calls[which] = until_computed(stack, lambda program=program, given=given: program(*given))  # type: ignore[misc]
    return calls


def rolled(stacks: dict[str, Any], sizes: tuple[int, int, int, int]) -> dict[str, Callable[[], Any]]:
    """The gradient of an LSTM as loops."""
    arrays, calls = arrays_of(*sizes), {}
    for which, stack in stacks.items():
        symbols = [stack.input(n, a.shape, a.dtype) for n, a in zip(NAMES, arrays, strict=True)]

        def of(*xs: Any, stack: Any = stack) -> Any:
            return loss(stack, *xs, unroll=1)

        program = stack.compile(symbols, list(stack.grad(of, argnums=tuple(range(6)))(*symbols)))
        given = [stack.device.asarray(a) for a in arrays]
        calls[which] = until_computed(stack, lambda program=program, given=given: program(*given))  # type: ignore[misc]
    return calls


def launches(stacks: dict[str, Any], xp: Any, elements: int) -> dict[str, Callable[[], Any]]:
    """A chain of kernels, planned on the first stack, and bare."""
    name, stack = next(iter(stacks.items()))
    x, given = stack.input("x", (elements,), "float32"), stack.device.asarray(np.ones(elements, "float32"))
    symbol, places = x, [xp.empty_like(given) for _ in range(2)]
    for k in range(LENGTH):
        symbol = stack.ops.tanh(symbol) if k % 2 else stack.ops.sin(symbol)
    program = stack.compile([x], [symbol])

    def bare() -> None:
        source = given
        for k in range(LENGTH):
            (xp.tanh if k % 2 else xp.sin)(source, places[k % 2])
            source = places[k % 2]

    return {name: until_computed(stack, lambda: program(given)), "bare calls": until_computed(stack, bare)}


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    xp, host = peer("cupy", "the host is measured alone"), {"lazy on the host": nnc.lazy()}
    if xp is not None and not xp.cuda.is_available():
        print("CUDA sees no GPU: the host is measured alone")
        xp = None
    gpu = {"lazy on the GPU": nnc.lazy(nnc.CuPy()), "eager on the GPU": nnc.eager(nnc.CuPy())} if xp else host
    lazy = {name: stack for name, stack in (gpu | host).items() if name.startswith("lazy")}
    rounds, rows, one = (1, [], 1) if given.smallest else (5, [], None)
    for name, batch in TRAINED[:one]:
        stacks = gpu | host if name == "mnist" else gpu
        rows.append(row(f"{name}, training, batch {batch}", training(stacks, name, batch, given.smallest), rounds))
    for name, batch in INFERRED[:one]:
        rows.append(row(f"{name}, batch {batch}", inference(gpu, name, batch, given.smallest), rounds))
    for sizes in SMALLEST if given.smallest else ((100, 32, 128, 128), (100, 256, 1024, 1024)):
        rows.append(row(f"LSTM's gradient, {sizes}", rolled(lazy, sizes), min(rounds, 3)))
    for elements in (4, 1 << 24)[:one]:
        rows.append(row(f"{LENGTH} kernels of {elements} elements", launches(lazy, xp or np, elements), rounds))
    name = xp.cuda.runtime.getDeviceProperties(0)["name"].decode() if xp else "none"
    report("gpu", rows, smallest=given.smallest or xp is None, gpu=name, cupy=xp.__version__ if xp else "none")


if __name__ == "__main__":
    main()
