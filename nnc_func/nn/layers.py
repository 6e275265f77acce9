"""Layers: the usual modules. Their configuration is said when they are made, their tensors are made by `init`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import known, product
from nnc_func.graph.composites import COMPOSITES
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.nn.initialise import Initialiser, glorot_uniform, zeros
from nnc_func.nn.inputs import in_tensor
from nnc_func.nn.modules import Context, Module, module, parameter, static


def channels_of(shape: Any, axis: int, who: Any) -> int:
    """The extent of an axis of which a module makes parameters."""
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

    takes_one: ClassVar[bool] = True

    outputs: int = static()
    weight: Any = parameter(default=None)
    bias: Any = parameter(default=None)
    biased: bool = static(default=True)
    initialiser: Initialiser = static(default=glorot_uniform)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Weight and bias for an input whose last axis is that of the aval."""
        if aval.ndim < 1:
            raise ShapeError(f"{self!r} wants an input of rank 1 or more, given shape {aval.shape}")
        shape = (channels_of(aval.shape, -1, self), self.outputs)
        weight = self.initialiser(key, shape, aval.dtype)
        return {"weight": weight, "bias": zeros(key, shape[1:], aval.dtype) if self.biased else None}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The products, and the bias."""
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


@module
class Dropout(Module):
    """In training, zero with that probability, and the rest divided by the probability to stay; else the input.

    The mask is a function of the application's key: equal keys drop the same elements on every stack.

    Examples
    --------
    >>> Dropout(0.5)
    Dropout(probability=0.5)
    """

    takes_one: ClassVar[bool] = True

    probability: float = static()

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The input, some of it dropped."""
        if not 0.0 <= self.probability < 1.0:
            raise OperatorError(f"dropout drops with a probability in [0, 1), given {self.probability}")
        if context is None or not context.training or self.probability == 0:
            return x
        return x.stack.ops.dropout(x, context.next_key(self), probability=self.probability)


@module
class Flatten(Module):
    """All axes but the first as one.

    Examples
    --------
    >>> Flatten()
    Flatten()
    """

    takes_one: ClassVar[bool] = True

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
        if isinstance(each, type) and issubclass(each, Module):
            raise OperatorError(f"Sequential is made of modules, given the class {each.__name__}: make one of it first")
        if not callable(each):
            raise OperatorError(f"Sequential is made of modules and functions, given {each!r}")
    return tuple(each if isinstance(each, Module) else Activation(_of_any_stack(each)) for each in layers)


def _of_any_stack(function: Any) -> Any:
    """A function of tensors: of ``stack.ops.relu`` the operator itself, which is applied wherever a tensor lives."""
    owner = getattr(function, "__self__", None)
    if not isinstance(owner, Ops):
        return function
    name = function.__name__.rstrip("_")
    return owner.catalogue.get(name) or COMPOSITES[name]


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
    return in_tensor("relu", x).stack.ops.relu(x)


def relu6(x: Any) -> Any:
    """x between 0 and 6."""
    return in_tensor("relu6", x).stack.ops.relu6(x)


def gelu(x: Any) -> Any:
    """x times the normal distribution's function of it."""
    return in_tensor("gelu", x).stack.ops.gelu(x)


def gelu_tanh(x: Any) -> Any:
    """`gelu` by the approximation with a hyperbolic tangent."""
    return in_tensor("gelu_tanh", x).stack.ops.gelu(x, approximate=True)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return in_tensor("sigmoid", x).stack.ops.sigmoid(x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return in_tensor("tanh", x).stack.ops.tanh(x)


def softplus(x: Any) -> Any:
    """``log(1 + exp(x))``."""
    return in_tensor("softplus", x).stack.ops.softplus(x)


def silu(x: Any) -> Any:
    """``x * sigmoid(x)``."""
    return in_tensor("silu", x).stack.ops.silu(x)


def softmax(x: Any) -> Any:
    """Probabilities from scores, along the last axis."""
    return in_tensor("softmax", x).stack.ops.softmax(x, axis=-1)


def log_softmax(x: Any) -> Any:
    """Logarithm of `softmax`."""
    return in_tensor("log_softmax", x).stack.ops.log_softmax(x, axis=-1)
