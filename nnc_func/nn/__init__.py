"""Layer 10: neural networks: modules, losses, updates, training.

- ``nn``: the layer.
- ``modules``: what a module is; ``layers``, ``norms``, ``sequences``, ``windows``, ``blocks``: the usual ones.
- ``lanes``: sequences of different lengths.
- ``initialise``, ``losses``, ``updates``, ``batches``: what training is made of.
- ``training``, ``step``: training, and one step of it as a graph.
- ``abstract``, ``inputs``, ``graphs``: shapes of a model's outputs, its inputs, a model as a graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc_func.deferred import deferred
from nnc_func.nn.nn import NN

if TYPE_CHECKING:
    from nnc_func.nn.batches import Batches
    from nnc_func.nn.blocks import Concatenate, Residual, transformer_block
    from nnc_func.nn.graphs import inference_graph
    from nnc_func.nn.initialise import (
        Constant,
        Normal,
        glorot_normal,
        glorot_uniform,
        he_normal,
        lecun_normal,
        ones,
        outline,
        zeros,
    )
    from nnc_func.nn.lanes import over_lengths
    from nnc_func.nn.layers import (
        Activation,
        Dense,
        Dropout,
        Flatten,
        Sequential,
        gelu,
        gelu_tanh,
        log_softmax,
        relu,
        relu6,
        sigmoid,
        silu,
        softmax,
        softplus,
        tanh,
    )
    from nnc_func.nn.losses import (
        accuracy,
        hinge,
        quadratic,
        sigmoid_binary_cross_entropy,
        smooth_l1,
        softmax_cross_entropy,
    )
    from nnc_func.nn.modules import (
        Context,
        Module,
        apply,
        count,
        described,
        key_of,
        module,
        parameter,
        partition,
        state,
        static,
    )
    from nnc_func.nn.norms import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
    from nnc_func.nn.sequences import GRU, LSTM, RNN, Embedding, MultiHeadAttention, Positions
    from nnc_func.nn.step import ImmediateStep, Step, TrainingState
    from nnc_func.nn.training import Evaluator, Trained, train
    from nnc_func.nn.updates import SGD, Adagrad, Adam, RMSprop, Update
    from nnc_func.nn.windows import (
        AveragePool1D,
        AveragePool2D,
        AveragePool3D,
        Conv1D,
        Conv2D,
        Conv3D,
        ConvTranspose1D,
        ConvTranspose2D,
        ConvTranspose3D,
        GlobalAveragePool,
        GlobalMaxPool,
        MaxPool1D,
        MaxPool2D,
        MaxPool3D,
        Resize,
    )
else:
    MODULES = {
        "batches": ("Batches",),
        "blocks": ("Concatenate", "Residual", "transformer_block"),
        "graphs": ("inference_graph",),
        "initialise": (
            "Constant",
            "Normal",
            "glorot_normal",
            "glorot_uniform",
            "he_normal",
            "lecun_normal",
            "ones",
            "outline",
            "zeros",
        ),
        "layers": (
            "Activation",
            "Dense",
            "Dropout",
            "Flatten",
            "Sequential",
            "gelu",
            "gelu_tanh",
            "log_softmax",
            "relu",
            "relu6",
            "sigmoid",
            "silu",
            "softmax",
            "softplus",
            "tanh",
        ),
        "losses": (
            "accuracy",
            "hinge",
            "quadratic",
            "sigmoid_binary_cross_entropy",
            "smooth_l1",
            "softmax_cross_entropy",
        ),
        "modules": (
            "Context",
            "Module",
            "apply",
            "count",
            "described",
            "key_of",
            "module",
            "parameter",
            "partition",
            "state",
            "static",
        ),
        "norms": (
            "BatchNorm",
            "GroupNorm",
            "InstanceNorm",
            "LayerNorm",
            "RMSNorm",
        ),
        "lanes": ("over_lengths",),
        "sequences": (
            "GRU",
            "LSTM",
            "RNN",
            "Embedding",
            "MultiHeadAttention",
            "Positions",
        ),
        "step": (
            "ImmediateStep",
            "Step",
            "TrainingState",
        ),
        "training": (
            "Evaluator",
            "Trained",
            "train",
        ),
        "updates": (
            "SGD",
            "Adagrad",
            "Adam",
            "RMSprop",
            "Update",
        ),
        "windows": (
            "AveragePool1D",
            "AveragePool2D",
            "AveragePool3D",
            "Conv1D",
            "Conv2D",
            "Conv3D",
            "ConvTranspose1D",
            "ConvTranspose2D",
            "ConvTranspose3D",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "MaxPool1D",
            "MaxPool2D",
            "MaxPool3D",
            "Resize",
        ),
    }  # what each of them shows here
    __getattr__, __dir__ = deferred(__name__, {n: f"{__name__}.{m}" for m, names in MODULES.items() for n in names})

__all__ = [
    "GRU", "LSTM", "NN", "RNN", "SGD", "Activation", "Adagrad", "Adam", "AveragePool1D", "AveragePool2D",
    "AveragePool3D", "BatchNorm", "Batches", "Concatenate", "Constant", "Context", "Conv1D", "Conv2D", "Conv3D",
    "ConvTranspose1D", "ConvTranspose2D", "ConvTranspose3D", "Dense", "Dropout", "Embedding", "Evaluator", "Flatten",
    "GlobalAveragePool", "GlobalMaxPool", "GroupNorm", "ImmediateStep", "InstanceNorm", "LayerNorm", "MaxPool1D",
    "MaxPool2D", "MaxPool3D", "Module", "MultiHeadAttention", "Normal", "Positions", "RMSNorm", "RMSprop", "Residual",
    "Resize", "Sequential", "Step", "Trained", "TrainingState", "Update", "accuracy", "apply", "count", "described",
    "gelu", "gelu_tanh", "glorot_normal", "glorot_uniform", "he_normal", "hinge", "inference_graph", "key_of",
    "lecun_normal", "log_softmax", "module", "ones", "outline", "parameter", "partition", "quadratic", "relu", "relu6",
    "sigmoid", "sigmoid_binary_cross_entropy", "silu", "smooth_l1", "softmax", "softmax_cross_entropy", "softplus",
    "state", "static", "tanh", "train", "transformer_block", "zeros",
]  # fmt: skip
