"""The zoo with fusion on beside XLA: kernels, bytes moved and arithmetic of one graph. It needs JAX, which is optional.

python bench/xla.py [NETWORK ...] [--batch 1]: prints a table, writes bench/results/xla.json. A name that ends with + is
the training step. Ours are counted by cost facets in the optimised graph, by default and with groups of any size; XLA's
by its own cost analysis of the compiled program, whose kernels are the instructions of the entry computation that do
something. JAX is given the graph as it was built: each operator's reference kernel, or XLA's own convolution.
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_experimental_ynn_fusion_type=")  # products are not in libraries' fusions

import argparse
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from costs import costs
from measure import report

import nnc_func as nnc
from nnc_func import models
from nnc_func.device.namespace import fresh
from nnc_func.graph.leaves import CONSTANT, INPUT, VARIABLE
from nnc_func.graph.rules.fuse import fuse_elementwise

NETWORKS = ("mnist", "mnist+", "resnet-50", "resnet-18+", "char-lstm", "transformer-encoder", "u-net")
NOTHING = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}


def stacks() -> dict[str, Any]:
    """The default one, without fusion, and with groups of any size; on the device that computes nothing."""
    lazy = nnc.lazy(nnc.Null())
    rest = lazy.optimiser.without_rules("fuse_elementwise")
    every = rest.with_rules(fuse_elementwise.from_size(0), phase="fuse")
    return {"unfused": lazy.swap(optimiser=rest), "ours": lazy, "any size": lazy.swap(optimiser=every)}


# --- what XLA is given ------------------------------------------------------------------------------------


def convolution(x: Any, w: Any, *, stride: Any, padding: Any, dilation: Any, groups: int, data_format: str) -> Any:
    """XLA's own."""
    from jax import lax

    return lax.conv_general_dilated(
        x, w, stride, padding, rhs_dilation=dilation, dimension_numbers=(data_format, "HWIO", data_format),
        feature_group_count=groups,
    )  # fmt: skip


def _input_gradient(g: Any, w: Any, *, input_shape: Any, **params: Any) -> Any:
    import jax

    x = jax.ShapeDtypeStruct(input_shape, g.dtype)
    return jax.linear_transpose(lambda x: convolution(x, w, **params), x)(g)[0]


def _kernel_gradient(x: Any, g: Any, *, kernel_shape: Any, **params: Any) -> Any:
    import jax

    w = jax.ShapeDtypeStruct(kernel_shape, g.dtype)
    return jax.linear_transpose(lambda w: convolution(x, w, **params), w)(g)[0]


def _pool(x: Any, *, window: Any, stride: Any, padding: Any, dilation: Any, data_format: str) -> Any:
    from jax import lax

    def wide(pair: Any, other: Any) -> Any:
        return (other, *pair, other) if data_format == "NHWC" else (other, other, *pair)

    around = padding if isinstance(padding, str) else wide(padding, (0, 0))
    return lax.reduce_window(
        x, -np.inf, lax.max, wide(window, 1), wide(stride or window, 1), around, window_dilation=wide(dilation, 1)
    )


def _pool_gradient(x: Any, g: Any, **params: Any) -> Any:
    import jax

    return jax.vjp(lambda x: _pool(x, **params), x)[1](g)[0]


def _take(x: Any, indices: Any, *, axis: int) -> Any:
    import jax.numpy as jnp

    return jnp.take(x, indices, axis=axis, mode="clip")


def _scatter_add(x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    return x.at[(slice(None),) * (axis % x.ndim) + (indices,)].add(updates)


def _one_hot(indices: Any, *, depth: int, dtype: Any, **_: Any) -> Any:
    import jax

    return jax.nn.one_hot(indices, depth, dtype=dtype)


OWN: dict[str, Callable[..., Any]] = {
    "conv2d": convolution,
    "conv2d_input_gradient": _input_gradient,
    "conv2d_kernel_gradient": _kernel_gradient,
    "take": _take,
    "scatter_add": _scatter_add,
    "one_hot": _one_hot,
    "max_pool2d": _pool,
    "max_pool2d_gradient": _pool_gradient,
}


def function_of(graph: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The graph as a function of its inputs' and variables' arrays, and these."""
    import jax.numpy as jnp

    leaves = [n for n in graph.nodes if n.op in (INPUT, VARIABLE)]

    def run(*arrays: Any) -> Any:
        values: dict[Any, Any] = dict(zip(leaves, arrays, strict=True))
        for node in graph.nodes:
            if node.op is CONSTANT:
                values[node] = jnp.asarray(np.asarray(node.data))
            if node in values:
                continue
            args = [values[a.node][a.index] if a.node.op.several else values[a.node] for a in node.args]
            own = OWN.get(node.op.name)
            found = own(*args, **node.params) if own else fresh(jnp, node.op.kernels[-1], node.items)(*args)
            values[node] = found
        wanted = [*graph.outputs, *(u for _, u in graph.updates)]
        return [values[v.node][v.index] if v.node.op.several else values[v.node] for v in wanted]

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


def told(text: str) -> None:
    """Say how far it is."""
    print(text, file=sys.stderr, flush=True)


def row(name: str, batch: int) -> dict[str, Any]:
    """One network, in all stacks and in XLA."""
    model, training = models.get(name.rstrip("+")), name.endswith("+")
    line: dict[str, Any] = {"network": f"{name.rstrip('+')}{', training' * training}", "batch": batch}
    told(f"{line['network']} …")
    graphs = {what: model.make(stack, batch, training, seed=None) for what, stack in stacks().items()}
    for (what, graph), stack in zip(graphs.items(), stacks().values(), strict=True):
        found = costs(stack.engine.compile(graph).graph)
        line[f"kernels {what}"], line[f"MB {what}"] = found["kernels"], found["bytes"] / 1e6
        line["GFLOP ours"] = found["flops"] / 1e9
    try:
        line |= compiled(model.make(nnc.lazy(), batch, training, seed=None))
    except ImportError:
        return line
    except Exception as error:  # an operator that JAX has no reference kernel for: told beside the row
        line["kernels XLA"] = f"{type(error).__name__}: {error}"[:60]
    return line


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description="The zoo with fusion on beside XLA.")
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--batch", type=int, default=8)
    chosen = parser.parse_args()
    report("xla", [row(name, chosen.batch) for name in chosen.networks or NETWORKS])


if __name__ == "__main__":
    main()
