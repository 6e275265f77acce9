"""Layer 10: neural networks: modules, losses, updates, training."""

from __future__ import annotations

from nnc_func.nn.batches import Batches
from nnc_func.nn.initialise import (
    Constant,
    glorot_normal,
    glorot_uniform,
    he_normal,
    lecun_normal,
    ones,
    zeros,
)
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
from nnc_func.nn.nn import NN
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
