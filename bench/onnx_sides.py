"""ONNX models beside onnxruntime, each side in a process of its own: what benchmarks of such models share."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from apart import Side, in_turn, serve
from measure import earlier, options, peer, table, write

import nnc_func as nnc

Given = Callable[[str], tuple[Any, Mapping[str, Any]]]
"""What gives the model of a name, and arrays for its inputs."""

CLOCKS = {"wall": time.perf_counter, "process": time.process_time}
DIFFERENCE = "largest difference, of the largest element"
SECONDS = "seconds to import, optimise, plan and bind"


def arguments(text: str | None, threads: int, clock: str) -> argparse.ArgumentParser:
    """The parser of a benchmark of models."""
    parser = options(text)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", type=int, default=threads)
    parser.add_argument("--rounds", type=int, default=4, help="turns of each process")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--numerics", default="rounding")
    parser.add_argument("--device", choices=("numpy", "cpu", "fast"), default="cpu")
    parser.add_argument("--clock", choices=CLOCKS, default=clock, help="process: what one computes, on a busy machine")
    parser.add_argument("--side", choices=("ours", "onnxruntime"), help="serve one side of one model")
    parser.add_argument("--result", type=Path, help="where the side writes its results")
    return parser


# --- sides: each in a process of its own -----------------------------------------------------------------


def side(given: Any, of: Given) -> None:
    """Serve one side of one model."""
    (name,) = given.models
    model, feeds = of(name)
    (_ours if given.side == "ours" else _theirs)(given, model, feeds)


def _ours(given: Any, model: Any, feeds: Mapping[str, Any]) -> None:
    made = {"numpy": nnc.NumPy, "cpu": nnc.CPU, "fast": partial(nnc.CPU, fast_math=True)}[given.device]()
    lazy = nnc.lazy(made)
    lazy = lazy.swap(optimiser=lazy.optimiser.with_numerics(given.numerics, fast_math=given.device == "fast"))
    start = time.perf_counter()
    program = nnc.from_onnx(model, lazy)
    seconds = time.perf_counter() - start
    named = {i.name: feeds[i.name] for i in program.inputs}
    found = program(**named)
    np.savez(given.result, *(found if isinstance(found, tuple) else (found,)))
    serve(lambda: program(**named), CLOCKS[given.clock], seconds=seconds)


def _theirs(given: Any, model: Any, feeds: Mapping[str, Any]) -> None:
    runtime = peer("onnxruntime")
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = given.threads, 3
    session = runtime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    np.savez(given.result, *session.run(None, feeds))
    serve(lambda: session.run(None, feeds), CLOCKS[given.clock])


# --- both ------------------------------------------------------------------------------------------------


def compared(script: str, name: str, given: Any, has_peer: bool) -> dict[str, Any]:
    """The figures of one model; without onnxruntime, ours."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("ours", "onnxruntime") if has_peer else ("ours",)
        results = {each: Path(folder) / f"{each}.npz" for each in names}
        facts = ["--device", given.device, "--numerics", given.numerics, "--clock", given.clock]

        def begin() -> dict[str, Side]:
            return {
                each: Side(
                    [script, "--side", each, "--result", str(at), "--threads", str(given.threads), *facts, name],
                    given.threads,
                )
                for each, at in results.items()
            }

        rounds, processes = (1, 1) if given.smallest else (given.rounds, given.processes)
        found = in_turn(begin, rounds, processes)
        found[SECONDS] = found.pop("facts")["ours"]["seconds"]
        if has_peer:
            ours, theirs = ([*np.load(at).values()] for at in results.values())
            found[DIFFERENCE] = max(map(_difference, ours, theirs))
    return found


def _difference(one: Any, two: Any) -> float:
    one, two = one.astype(float), two.astype(float)
    return float(np.abs(one - two).max(initial=0) / max(np.abs(two).max(initial=0), np.finfo(np.float32).tiny))


def measured(kind: str, script: str, names: Iterable[str], given: Any) -> None:
    """Print the table of the models of these names, and write it among the results as that kind."""
    runtime = peer("onnxruntime")
    found: dict[str, Any] = {}
    for name in names:
        found[name] = compared(script, name, given, runtime is not None)
        print(f"{name}: {found[name]}", flush=True)
    clock = "" if given.clock == "wall" else f", {given.clock} clock"
    print(f"{given.threads} threads, device {given.device}, numerics {given.numerics}{clock}")
    table([row(name, each) for name, each in found.items()])
    if runtime is not None:
        ratios = [each["ratios"]["onnxruntime"] for each in found.values()]
        print(f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.3f}")
    kept = earlier(kind, {})
    about: dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": runtime and runtime.__version__,
        "machine": nnc.CPU().library_setting,
    }
    key = f"{given.threads} threads, {given.numerics}, {given.device}{clock}"
    kept[key] = {**kept.get(key, {}), **found, "about": about, "rounds": given.rounds, "processes": given.processes}
    write(kind, json.dumps(kept, indent=1, sort_keys=True), smallest=given.smallest)


def row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """A line of the table."""
    line = {"network": name, "import s": found[SECONDS]}
    line |= {f"{each} ms": ms for each, ms in found["milliseconds"].items()}
    if found["ratios"]:
        line |= {
            "ratio": found["ratios"]["onnxruntime"],
            "of the fastest": found["ratios of the fastest"]["onnxruntime"],
        }
    difference = found.get(DIFFERENCE)
    line |= {} if difference is None else {"difference": difference}
    return line | {"quiet": "yes" if found["is quiet"] else "no"}
