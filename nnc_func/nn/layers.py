"""Layers: the usual modules. Their configuration is said when they are made, their tensors are made by `init`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import known, product
from nnc_func.nn.initialise import Initialiser, glorot_uniform, ones, zeros
from nnc_func.nn.modules import Context, Module, module, parameter, state, static


def _pair(value: Any) -> Any:
    return None if value is None else (value, value) if isinstance(value, int) else tuple(value)


def _padding(value: Any) -> Any:
    return value if isinstance(value, str) else tuple(tuple(v) if isinstance(v, (list, tuple)) else v for v in value)


def _channels(shape: Any, axis: int, who: Any) -> int:
    n = shape[axis]
    if not known(n):
        raise ShapeError(f"{who!r} has to know the extent of axis {axis} of its input, given shape {shape}")
    return int(n)


@module
class Dense(Module):
    """``x @ weight + bias``, along the last axis of `x`.

    Examples
    --------
    >>> Dense(10).init(seed=0, shape=(None, 784))
    Dense(outputs=10, weight=float32[784, 10], bias=float32[10])
    """

    outputs: int = static()
    weight: Any = parameter()
    bias: Any = parameter()
    biased: bool = static(True)
    initialiser: Initialiser = static(glorot_uniform)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Weight and bias for an input whose last axis is that of the aval."""
        if aval.ndim < 1:
            raise ShapeError(f"{self!r} wants an input of rank 1 or more, given shape {aval.shape}")
        shape = (_channels(aval.shape, -1, self), self.outputs)
        weight = self.initialiser(key, shape, aval.dtype)
        return {"weight": weight, "bias": zeros(key, shape[1:], aval.dtype) if self.biased else None}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The products, and the bias."""
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


@module
class Conv2D(Module):
    """Images convolved with a kernel of shape ``(height, width, in // groups, out)``, plus a bias a channel.

    Stride, padding, dilation, groups and data format are those of the operator `conv2d`.

    Examples
    --------
    >>> Conv2D(32, 5, padding="SAME").init(seed=0, shape=(None, 28, 28, 1))
    Conv2D(channels=32, window=(5, 5), weight=float32[5, 5, 1, 32], bias=float32[32], padding='SAME')
    """

    channels: int = static()
    window: Any = static(converter=_pair)
    weight: Any = parameter()
    bias: Any = parameter()
    stride: Any = static((1, 1), converter=_pair)
    padding: Any = static("VALID", converter=_padding)
    dilation: Any = static((1, 1), converter=_pair)
    groups: int = static(1)
    data_format: str = static("NHWC")
    biased: bool = static(True)
    initialiser: Initialiser = static(glorot_uniform)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Kernel and bias for images with the channels of the aval."""
        if aval.ndim != 4:
            raise ShapeError(f"{self!r} wants images of rank 4, {self.data_format}, given shape {aval.shape}")
        inputs = _channels(aval.shape, -1 if self.data_format == "NHWC" else 1, self)
        if inputs % self.groups:
            raise ShapeError(f"{self!r} cuts its input channels into {self.groups} groups, given {inputs} channels")
        weight = self.initialiser(key, (*self.window, inputs // self.groups, self.channels), aval.dtype)
        return {"weight": weight, "bias": zeros(key, (self.channels,), aval.dtype) if self.biased else None}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The convolution, and the bias."""
        y = x.stack.ops.conv2d(
            x,
            self.weight,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            data_format=self.data_format,
        )
        if self.bias is None:
            return y
        return y + (
            self.bias if self.data_format == "NHWC" else x.stack.ops.reshape(self.bias, shape=(self.channels, 1, 1))
        )


@module
class MaxPool2D(Module):
    """The largest element of every window; the stride is the window unless given.

    Examples
    --------
    >>> MaxPool2D(2)
    MaxPool2D(window=(2, 2))
    """

    window: Any = static(converter=_pair)
    stride: Any = static(None, converter=_pair)
    padding: Any = static("VALID", converter=_padding)
    data_format: str = static("NHWC")

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The pooled images."""
        return x.stack.ops.max_pool2d(
            x, window=self.window, stride=self.stride, padding=self.padding, data_format=self.data_format
        )


@module
class AveragePool2D(Module):
    """The mean of every window, padding not counted; the stride is the window unless given.

    Examples
    --------
    >>> AveragePool2D((2, 3))
    AveragePool2D(window=(2, 3))
    """

    window: Any = static(converter=_pair)
    stride: Any = static(None, converter=_pair)
    padding: Any = static("VALID", converter=_padding)
    data_format: str = static("NHWC")

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The pooled images."""
        return x.stack.ops.average_pool2d(
            x, window=self.window, stride=self.stride, padding=self.padding, data_format=self.data_format
        )


@module
class Dropout(Module):
    """In training, zero with that probability, and the rest divided by the probability to stay; else the input.

    The mask is a function of the application's key: equal keys drop the same elements on every stack.

    Examples
    --------
    >>> Dropout(0.5)
    Dropout(probability=0.5)
    """

    probability: float = static()

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The input, some of it dropped."""
        if not 0.0 <= self.probability < 1.0:
            raise OperatorError(f"dropout drops with a probability in [0, 1), given {self.probability}")
        if context is None or not context.training or self.probability == 0:
            return x
        ops = x.stack.ops
        stay = 1.0 - self.probability
        mask = ops.random_bernoulli(context.next_key(self), shape=x.shape, probability=stay)
        return ops.where(mask, x * (1.0 / stay), 0.0)


@module
class BatchNorm(Module):
    """Each channel scaled to mean `offset` and deviation `scale`; Ioffe and Szegedy, ICML 2015.

    In training by mean and (biased) variance of the batch, through which gradients flow; in inference by running
    averages of them, which training applications carry on: ``momentum * running + (1 - momentum) * batch``.

    Examples
    --------
    >>> BatchNorm().init(seed=0, shape=(None, 8, 8, 3)).mean
    array([0., 0., 0.], dtype=float32)
    """

    scale: Any = parameter()
    offset: Any = parameter()
    mean: Any = state()
    variance: Any = state()
    axis: int = static(-1)
    momentum: float = static(0.9)
    eps: float = static(1e-5)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Scale 1, offset 0, running mean 0 and variance 1, one a channel."""
        shape = (_channels(aval.shape, self.axis, self),)
        one, zero = ones(key, shape, aval.dtype), zeros(key, shape, aval.dtype)
        return {"scale": one, "offset": zero, "mean": zero.copy(), "variance": one.copy()}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The input, normalised."""
        mean, variance = self.mean, self.variance
        if context is not None and context.training:
            mean, variance = self._moments(x)
            keep = self.momentum
            context.becomes(
                self,
                mean=self.mean * keep + mean * (1 - keep),
                variance=self.variance * keep + variance * (1 - keep),
            )
        ops = x.stack.ops
        shape = [1] * x.ndim
        shape[self.axis] = -1
        factor = self.scale / ops.sqrt(variance + self.eps)
        shift = self.offset - mean * factor
        return x * ops.reshape(factor, shape=tuple(shape)) + ops.reshape(shift, shape=tuple(shape))

    def _moments(self, x: Any) -> tuple[Any, Any]:
        axes = tuple(i for i in range(x.ndim) if i != self.axis % x.ndim)
        mean = x.mean(axis=axes, keepdims=True)
        away = x - mean
        channels = (x.shape[self.axis],)
        variance = (away * away).mean(axis=axes)
        return x.stack.ops.reshape(mean, shape=channels), variance


@module
class Flatten(Module):
    """All axes but the first as one.

    Examples
    --------
    >>> Flatten()
    Flatten()
    """

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The input as a matrix."""
        return x.reshape((x.shape[0], product(x.shape[1:])))


@module
class Activation(Module):
    """A function of a tensor as a module; `Sequential` makes them of the functions it is given.

    Examples
    --------
    >>> from nnc_func import nn
    >>> Activation(nn.relu)
    Activation(function=relu)
    """

    function: Callable[[Any], Any] = static()

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The function's result."""
        return self.function(x)


def _modules(layers: Any) -> tuple[Module, ...]:
    for each in layers:
        if not callable(each):
            raise OperatorError(f"Sequential is made of modules and functions, given {each!r}")
    return tuple(each if isinstance(each, Module) else Activation(each) for each in layers)


@module
class Sequential(Module):
    """Modules and functions, one after the other.

    Examples
    --------
    >>> from nnc_func import nn
    >>> model = nn.Sequential(nn.Dense(4), nn.relu, nn.Dense(2)).init(seed=0, shape=(None, 3))
    >>> nn.count(model)
    26
    """

    layers: tuple[Module, ...]

    def __init__(self, *layers: Any) -> None:
        object.__setattr__(self, "layers", _modules(layers))

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The last one's result."""
        for each in self.layers:
            x = each(x, context)
        return x

    def __getitem__(self, i: int) -> Module:
        return self.layers[i]

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.layers))})"


# --- activations ---------------------------------------------------------------------------------------


def relu(x: Any) -> Any:
    """The larger of x and 0."""
    return x.stack.ops.relu(x)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return x.stack.ops.sigmoid(x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return x.stack.ops.tanh(x)


def softplus(x: Any) -> Any:
    """``log(1 + exp(x))``."""
    return x.stack.ops.softplus(x)


def silu(x: Any) -> Any:
    """``x * sigmoid(x)``."""
    return x * x.stack.ops.sigmoid(x)


def softmax(x: Any) -> Any:
    """Probabilities from scores, along the last axis."""
    return x.stack.ops.softmax(x, axis=-1)


def log_softmax(x: Any) -> Any:
    """Logarithm of `softmax`."""
    return x.stack.ops.log_softmax(x, axis=-1)
