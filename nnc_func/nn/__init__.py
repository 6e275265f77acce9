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
    AveragePool2D,
    BatchNorm,
    Conv2D,
    Dense,
    Dropout,
    Flatten,
    MaxPool2D,
    Sequential,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from nnc_func.nn.losses import accuracy, quadratic, softmax_cross_entropy
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
from nnc_func.nn.step import ImmediateStep, Step, TrainingState
from nnc_func.nn.training import Evaluator, Trained, train
from nnc_func.nn.updates import SGD, Adagrad, Adam, RMSprop, Update

__all__ = [
    "NN", "SGD", "Activation", "Adagrad", "Adam", "AveragePool2D", "BatchNorm", "Batches", "Constant", "Context",
    "Conv2D", "Dense", "Dropout", "Evaluator", "Flatten", "ImmediateStep", "MaxPool2D", "Module", "RMSprop",
    "Sequential", "Step", "Trained", "TrainingState", "Update", "accuracy", "apply", "count", "described",
    "glorot_normal", "glorot_uniform", "he_normal", "key_of", "lecun_normal", "log_softmax", "module", "ones",
    "parameter", "partition", "quadratic", "relu", "sigmoid", "silu", "softmax", "softmax_cross_entropy", "softplus",
    "state", "static", "tanh", "train", "zeros",
]  # fmt: skip
