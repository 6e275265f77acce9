"""nnc_func: a functor stack for tensor graphs.

Device → Type → Shape → Symbol → Operator → Optimiser → Graph → Engine → Autodiff → NN.

Layers, from below:

- ``device``: memory and kernels; a device is a file there.
- ``graph``: types, shapes, nodes, operators, rules and what matches them, graphs.
- ``engine``: computes graphs: plans memory, links plans, runs programs. A printer of C is a linker there.
- ``autodiff``, ``batching``: derivatives and `vmap`.
- ``nn``, ``models``: networks, and known ones.
- ``stack``: composes layers; ``stacks``: the usual ones.
- ``layer``, ``layer_protocols``: what a layer is, and what each asks of the one below.

Beside them:

- ``control_flow``: loops and branches; ``body``, ``body_builder``: the sub-programs that they hold.
- ``array_api``, ``onnx``, ``archives``, ``loading``, ``cli``: the array API standard, ONNX, files, the command line.
- ``op``, ``declaration``, ``facets``: what an operator is, and all that can be said of one; ``aval``, ``tree``: tensors
  without elements, and trees of them.
- ``testing``: the kit that attacks rules, layers and operators.
- ``config``, ``errors``, ``progress``, ``arrivals``, ``deferred``: settings, errors, imports; ``garbage_collection``,
  ``override``, ``locks``, ``forks``: what is put off, set or taken while a block is open, or a process is forked;
  ``memo``: how long what is remembered holds functions of the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc_func import arrivals
from nnc_func.deferred import deferred

if TYPE_CHECKING:
    from nnc_func.autodiff.autodiff import Autodiff
    from nnc_func.autodiff.custom import custom_jvp, custom_vjp
    from nnc_func.aval import Aval
    from nnc_func.batching import Batching, vmap
    from nnc_func.body import Application, Body
    from nnc_func.control_flow.branches import bypass
    from nnc_func.control_flow.dynamic_functions import DynamicFunction
    from nnc_func.control_flow.host import host
    from nnc_func.device import CPU, CuPy, Null, NumPy, Places, Strict
    from nnc_func.engine.dynamic import Dynamic
    from nnc_func.engine.eager import Eager
    from nnc_func.engine.lazy import Lazy
    from nnc_func.engine.plan import Plan
    from nnc_func.engine.planning.kernel_table import KernelTable
    from nnc_func.engine.running.cancelling import Cancellation
    from nnc_func.facets.machine import Machine
    from nnc_func.graph.counters import counted
    from nnc_func.graph.graph import Graph
    from nnc_func.graph.operator import Operator
    from nnc_func.graph.ops.host_functions import HostFunction
    from nnc_func.graph.optimiser import Optimiser
    from nnc_func.graph.rules import rewrite, rule
    from nnc_func.graph.shape import Shape
    from nnc_func.graph.symbol import Symbol
    from nnc_func.graph.tensors.tensor import Tensor
    from nnc_func.graph.text.files import load_graph
    from nnc_func.graph.type import Type
    from nnc_func.loading import load_program
    from nnc_func.nn.nn import NN
    from nnc_func.onnx.model import from_onnx
    from nnc_func.op import Catalogue, Op, operator
    from nnc_func.stack import Stack
    from nnc_func.stacks import dynamic, eager, lazy
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            "Aval": "nnc_func.aval",
            "Application": "nnc_func.body",
            "Body": "nnc_func.body",
            "bypass": "nnc_func.control_flow.branches",
            "DynamicFunction": "nnc_func.control_flow.dynamic_functions",
            "host": "nnc_func.control_flow.host",
            "HostFunction": "nnc_func.graph.ops.host_functions",
            "Type": "nnc_func.graph.type",
            "Shape": "nnc_func.graph.shape",
            "Symbol": "nnc_func.graph.symbol",
            "Operator": "nnc_func.graph.operator",
            "Optimiser": "nnc_func.graph.optimiser",
            "Graph": "nnc_func.graph.graph",
            "Dynamic": "nnc_func.engine.dynamic",
            "Eager": "nnc_func.engine.eager",
            "Lazy": "nnc_func.engine.lazy",
            "Autodiff": "nnc_func.autodiff.autodiff",
            "NN": "nnc_func.nn.nn",
            "CPU": "nnc_func.device",
            "NumPy": "nnc_func.device",
            "rewrite": "nnc_func.graph.rules",
            "rule": "nnc_func.graph.rules",
            "Tensor": "nnc_func.graph.tensors.tensor",
            "Catalogue": "nnc_func.op",
            "Op": "nnc_func.op",
            "operator": "nnc_func.op",
            "Stack": "nnc_func.stack",
            "dynamic": "nnc_func.stacks",
            "eager": "nnc_func.stacks",
            "lazy": "nnc_func.stacks",
            "custom_jvp": "nnc_func.autodiff.custom",
            "custom_vjp": "nnc_func.autodiff.custom",
            "Batching": "nnc_func.batching",
            "vmap": "nnc_func.batching",
            "CuPy": "nnc_func.device.gpu",
            "Null": "nnc_func.device.null",
            "Places": "nnc_func.device.places",
            "Strict": "nnc_func.device.strict",
            "Plan": "nnc_func.engine.plan",
            "KernelTable": "nnc_func.engine.planning.kernel_table",
            "Cancellation": "nnc_func.engine.running.cancelling",
            "Machine": "nnc_func.facets.machine",
            "counted": "nnc_func.graph.counters",
            "load_graph": "nnc_func.graph.text.files",
            "load_program": "nnc_func.loading",
            "from_onnx": "nnc_func.onnx.model",
        },
    )

arrivals.on_arrival("einops._backends", arrivals.einops)

__version__ = "0.1.0"
__all__ = [
    "CPU", "NN", "Application", "Autodiff", "Aval", "Batching", "Body", "Cancellation", "Catalogue", "CuPy", "Dynamic",
    "DynamicFunction", "Eager", "Graph", "HostFunction", "KernelTable", "Lazy", "Machine", "Null", "NumPy", "Op",
    "Operator", "Optimiser", "Places", "Plan", "Shape", "Stack", "Strict", "Symbol", "Tensor", "Type", "bypass",
    "counted", "custom_jvp", "custom_vjp", "dynamic", "eager", "from_onnx", "host", "lazy", "load_graph",
    "load_program", "operator", "rewrite", "rule", "vmap",
]  # fmt: skip
