"""Layer 10: neural networks: modules, losses, updates, training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc_func.deferred import deferred
from nnc_func.nn.nn import NN

if TYPE_CHECKING:
    from nnc_func.nn.batches import Batches
    from nnc_func.nn.initialise import Constant, glorot_normal, glorot_uniform, he_normal, lecun_normal, ones, zeros
    from nnc_func.nn.layers import (
        Activation,
        Dense,
        Dropout,
        Flatten,
        Sequential,
        log_softmax,
        relu,
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
    from nnc_func.nn.sequences import GRU, LSTM, RNN, Embedding, MultiHeadAttention
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
        "initialise": (
            "Constant",
            "glorot_normal",
            "glorot_uniform",
            "he_normal",
            "lecun_normal",
            "ones",
            "zeros",
        ),
        "layers": (
            "Activation",
            "Dense",
            "Dropout",
            "Flatten",
            "Sequential",
            "log_softmax",
            "relu",
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
        "sequences": (
            "GRU",
            "LSTM",
            "RNN",
            "Embedding",
            "MultiHeadAttention",
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
    "AveragePool3D", "BatchNorm", "Batches", "Constant", "Context", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D",
    "ConvTranspose2D", "ConvTranspose3D", "Dense", "Dropout", "Embedding", "Evaluator", "Flatten",
    "GlobalAveragePool", "GlobalMaxPool", "GroupNorm", "ImmediateStep", "InstanceNorm", "LayerNorm", "MaxPool1D",
    "MaxPool2D", "MaxPool3D", "Module", "MultiHeadAttention", "RMSNorm", "RMSprop", "Resize", "Sequential", "Step",
    "Trained", "TrainingState", "Update", "accuracy", "apply", "count", "described", "glorot_normal",
    "glorot_uniform", "he_normal", "hinge", "key_of", "lecun_normal", "log_softmax", "module", "ones", "parameter",
    "partition", "quadratic", "relu", "sigmoid", "sigmoid_binary_cross_entropy", "silu", "smooth_l1", "softmax",
    "softmax_cross_entropy", "softplus", "state", "static", "tanh", "train", "zeros",
]  # fmt: skip
