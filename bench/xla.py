"""The zoo with fusion on beside XLA: kernels, bytes moved and arithmetic of one graph.

python bench/xla.py [NETWORK ...] [--batch 8] [--seconds 600] [--smallest]: prints a table, writes
bench/results/xla.json. A name that ends with + is the training step; without names it is the whole zoo, each network in
a process of its own. Without JAX, ours alone is counted. The smallest size is one training step. python bench/xla.py
--check [NETWORK ...]: computes reduced networks in JAX and here, and prints how far apart they are.

Ours are counted by cost facets in the optimised graph, by default and with groups of any size; XLA's by its own cost
analysis of the compiled program, whose kernels are the instructions of the entry computation that do something. JAX is
given the graph as it was built, node by node: `jax_operators`, or else the operator's reference kernel.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from costs import costs
from measure import options, peer, report

import nnc_func as nnc
from nnc_func import models
from nnc_func.graph.leaves import CONSTANT, INPUT, VARIABLE
from nnc_func.graph.rules.fuse import fuse_elementwise
from nnc_func.tree import flatten

FLAGS = (
    "--xla_cpu_experimental_ynn_fusion_type=",  # products are not in libraries' fusions
    "--xla_backend_optimization_level=0",  # what is counted is decided before machine code is made, which takes longest
    "--xla_llvm_disable_expensive_passes=true",
)
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))
SINGLE = ("mask-rcnn", "mask-rcnn-768")  # of one image, and for inference
NOTHING = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}


def stacks() -> dict[str, Any]:
    """The default one, without fusion, and with groups of any size; on the device that computes nothing."""
    lazy = nnc.lazy(nnc.Null())
    rest = lazy.optimiser.without_rules("fuse_elementwise")
    every = rest.with_rules(fuse_elementwise.from_size(0), phase="fuse")
    return {"unfused": lazy.swap(optimiser=rest), "ours": lazy, "any size": lazy.swap(optimiser=every)}


# --- what XLA is given ------------------------------------------------------------------------------------


def function_of(graph: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The graph as a function of its inputs' and variables' arrays, and these."""
    import jax.numpy as jnp
    from jax_operators import translated, words

    leaves = [n for n in graph.nodes if n.op in (INPUT, VARIABLE)]

    def run(*arrays: Any) -> Any:
        values: dict[Any, Any] = dict(zip(leaves, arrays, strict=True))
        for node in graph.nodes:
            if node.op is CONSTANT:
                values[node] = jnp.asarray(np.asarray(node.data))
            if node in values:
                continue
            args = [values[a.node][a.index] if a.node.op.multi_result else values[a.node] for a in node.args]
            try:
                with words():
                    values[node] = translated(node.op, node.items)(*args)
            except Exception as error:
                raise TypeError(f"no translation of {node.op.name}: {error}") from error
        wanted = [*graph.outputs, *(u for _, u in graph.updates)]
        return [values[v.node][v.index] if v.node.op.multi_result else values[v.node] for v in wanted]

    return run, leaves


def compiled(graph: Any) -> dict[str, Any]:
    """What XLA makes of it."""
    import jax

    jax.config.update("jax_enable_x64", True)
    run, leaves = function_of(graph)
    given = [jax.ShapeDtypeStruct(n.aval.shape, n.aval.dtype) for n in leaves]
    found = jax.jit(run).lower(*given).compile()
    cost = found.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    text = found.as_text()
    entry = text[text.index("\nENTRY") :]
    names = re.findall(r"^\s+(?:ROOT )?%?\S+ = .*? ([a-z][a-z0-9-]*)\(", entry, re.MULTILINE)
    kernels = [n for n in names if n not in NOTHING]
    return {
        "kernels XLA": len(kernels),
        "fusions XLA": kernels.count("fusion"),
        "MB XLA": cost.get("bytes accessed", 0.0) / 1e6,
        "GFLOP XLA": cost.get("flops", 0.0) / 1e9,
    }


def apart(name: str) -> float:
    """How far JAX's results are from ours, of the largest of each, on the reduced network."""
    import jax

    jax.config.update("jax_enable_x64", True)
    model, training = models.get(name.rstrip("+")).reduced(), name.endswith("+")
    stack = nnc.lazy()
    graph = model.make(stack, 2, training)
    run, leaves = function_of(graph)
    random = np.random.default_rng(0)
    values = {v: np.array(v.data.array) for v in graph.variables}
    given = {}
    for leaf in leaves:
        drawn = (
            random.random(leaf.aval.shape) if leaf.aval.dtype.kind == "f" else random.integers(0, 2, leaf.aval.shape)
        )
        given[leaf] = np.asarray(values.get(leaf, drawn), leaf.aval.dtype)
    wanted = flatten(stack.engine.compile(graph)(*[given[i] for i in graph.inputs]))[0]
    wanted += [np.asarray(v.data.array) for v, _ in graph.updates]
    found = jax.jit(run)(*given.values())
    return max(
        float(np.abs(np.asarray(a, "float64") - np.asarray(b, "float64")).max() / (np.abs(a).max() or 1))
        for a, b in zip(wanted, found, strict=True)
    )


def row(name: str, batch: int) -> dict[str, Any]:
    """One network, in all stacks and in XLA."""
    model, training = models.get(name.rstrip("+")), name.endswith("+")
    batch = 1 if model.name in SINGLE else batch
    line: dict[str, Any] = {"network": f"{model.name}{', training' * training}", "batch": batch}
    for what, stack in stacks().items():
        found = costs(stack.engine.compile(model.make(stack, batch, training, seed=None)).graph)
        line[f"kernels {what}"], line[f"MB {what}"] = found["kernels"], found["bytes"] / 1e6
        line["GFLOP ours"] = found["flops"] / 1e9
    try:
        return line | compiled(model.make(nnc.lazy(), batch, training, seed=None))
    except ImportError:
        return line
    except TypeError as error:  # an operator that has no translation: told beside the row
        return line | {"kernels XLA": str(error).partition("\n")[0][:80]}


def alone(name: str, batch: int, seconds: int) -> dict[str, Any]:
    """That row, computed in a process of its own."""
    print(f"{name} …", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, name, "--batch", str(batch), "--row"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except subprocess.TimeoutExpired:
        return {"network": name, "batch": batch, "kernels XLA": f"not compiled within {seconds} seconds"}
    except subprocess.CalledProcessError as error:
        return {"network": name, "batch": batch, "kernels XLA": error.stderr.strip().rpartition("\n")[2][:80]}
    found: dict[str, Any] = json.loads(run.stdout.strip().rpartition("\n")[2])
    return found


def zoo() -> list[str]:
    """All networks, and their training steps."""
    return [name + end for name in models.names() for end in ("", "+") if not end or name not in SINGLE]


def processor() -> str:
    """What the machine calls its processor."""
    path = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", path.read_text(encoding="utf-8")) if path.exists() else None
    return found[1] if found else ""


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--row", action="store_true", help="one network, printed as JSON")
    given = parser.parse_args()
    names = ["lenet-5+"] if given.smallest else given.networks or zoo()
    if given.row:
        print(json.dumps(row(names[0], given.batch)))
        return
    jax = peer("jax")
    if not given.check:
        versions = {name: version(name) for name in ("jax", "jaxlib") if jax}
        rows: list[dict[str, Any]] = []
        for name in names:  # written after each: it takes hours
            rows.append(alone(name, given.batch, given.seconds))
            report("xla", rows, smallest=given.smallest, processor=processor(), **versions)
    for name in names if jax and (given.check or given.smallest) else ():
        print(f"{name}: {apart(name):.1e}", flush=True)


if __name__ == "__main__":
    main()
