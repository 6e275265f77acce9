"""Layers that normalise; their formulas are those of the operators."""

from __future__ import annotations

from typing import Any, ClassVar

from nnc_func.facets.shapes import normalise_axes
from nnc_func.nn.initialise import Initialiser, ones, zeros
from nnc_func.nn.inputs import in_tensor
from nnc_func.nn.layers import channels_of
from nnc_func.nn.modules import Context, Module, module, parameter, state, static


def _scale_and_offset(key: Any, shape: tuple[int, ...], dtype: Any) -> dict[str, Any]:
    return {"scale": ones(key, shape, dtype), "offset": zeros(key, shape, dtype)}


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

    takes_one: ClassVar[bool] = True

    scale: Any = parameter(default=None)
    offset: Any = parameter(default=None)
    mean: Any = state(default=None)
    variance: Any = state(default=None)
    axis: int = static(default=-1)
    momentum: float = static(default=0.9)
    epsilon: float = static(default=1e-5)
    initialiser: Initialiser = static(default=ones)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Scale 1, unless the initialiser says otherwise; offset 0, running mean 0 and variance 1: one a channel."""
        shape = (channels_of(aval.shape, self.axis, self),)
        statistics = {"mean": zeros(key, shape, aval.dtype), "variance": ones(key, shape, aval.dtype)}
        scale = self.initialiser(key, shape, aval.dtype)
        return {"scale": scale, "offset": zeros(key, shape, aval.dtype), **statistics}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The input, normalised."""
        ops, mean, variance = x.stack.ops, self.mean, self.variance
        if context is not None and context.training:
            axes = tuple(i for i in range(x.ndim) if i != self.axis % x.ndim)
            mean, variance = ops.moments(x, axis=axes)
            keep = self.momentum

            def after(running: Any, batch: Any) -> Any:
                running = in_tensor(self, running, x)  # NumPy's bfloat16 would become float32 beside a number
                batch = batch if batch.dtype == running.dtype else batch.astype(running.dtype)
                return running * keep + batch * (1 - keep)

            context.becomes(self, mean=after(self.mean, mean), variance=after(self.variance, variance))
        return ops.batch_norm(x, mean, variance, self.scale, self.offset, axis=self.axis, epsilon=self.epsilon)


@module
class LayerNorm(Module):
    """Each sample normalised along some axes, the last one unless given, then scaled and moved; Ba et al., 2016.

    Examples
    --------
    >>> LayerNorm(axis=(-2, -1)).init(seed=0, shape=(None, 8, 3))
    LayerNorm(scale=float32[8, 3], offset=float32[8, 3], axis=(-2, -1))
    """

    takes_one: ClassVar[bool] = True

    scale: Any = parameter(default=None)
    offset: Any = parameter(default=None)
    axis: Any = static(default=-1)
    epsilon: float = static(default=1e-5)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Scale 1 and offset 0, one for each place along the axes."""
        shape = tuple(channels_of(aval.shape, a, self) for a in normalise_axes(self.axis, aval.ndim))
        return _scale_and_offset(key, shape, aval.dtype)

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The input, normalised."""
        return x.stack.ops.layer_norm(x, self.scale, self.offset, axis=self.axis, epsilon=self.epsilon)


@module
class RMSNorm(Module):
    """Each sample over its root mean square along some axes, then scaled; Zhang and Sennrich, NeurIPS 2019.

    Examples
    --------
    >>> RMSNorm().init(seed=0, shape=(None, 8))
    RMSNorm(scale=float32[8])
    """

    takes_one: ClassVar[bool] = True

    scale: Any = parameter(default=None)
    axis: Any = static(default=-1)
    epsilon: float = static(default=1e-6)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Scale 1, one for each place along the axes."""
        shape = tuple(channels_of(aval.shape, a, self) for a in normalise_axes(self.axis, aval.ndim))
        return {"scale": ones(key, shape, aval.dtype)}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The input, normalised."""
        return x.stack.ops.rms_norm(x, self.scale, axis=self.axis, epsilon=self.epsilon)


@module
class GroupNorm(Module):
    """Each group of channels of each sample normalised, then each channel scaled and moved; Wu and He, ECCV 2018.

    Examples
    --------
    >>> GroupNorm(2).init(seed=0, shape=(None, 8, 8, 6))
    GroupNorm(groups=2, scale=float32[6], offset=float32[6])
    """

    takes_one: ClassVar[bool] = True

    groups: int = static()
    scale: Any = parameter(default=None)
    offset: Any = parameter(default=None)
    axis: int = static(default=-1)
    epsilon: float = static(default=1e-5)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Scale 1 and offset 0, one a channel."""
        return _scale_and_offset(key, (channels_of(aval.shape, self.axis, self),), aval.dtype)

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The input, normalised."""
        more: dict[str, Any] = {"axis": self.axis, "epsilon": self.epsilon}
        return x.stack.ops.group_norm(x, self.scale, self.offset, groups=self.groups, **more)


@module
class InstanceNorm(Module):
    """Each channel of each sample normalised, then scaled and moved; Ulyanov et al., 2016.

    Examples
    --------
    >>> InstanceNorm(axis=1).init(seed=0, shape=(None, 3, 8, 8))
    InstanceNorm(scale=float32[3], offset=float32[3], axis=1)
    """

    takes_one: ClassVar[bool] = True

    scale: Any = parameter(default=None)
    offset: Any = parameter(default=None)
    axis: int = static(default=-1)
    epsilon: float = static(default=1e-5)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Scale 1 and offset 0, one a channel."""
        return _scale_and_offset(key, (channels_of(aval.shape, self.axis, self),), aval.dtype)

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The input, normalised."""
        return x.stack.ops.instance_norm(x, self.scale, self.offset, axis=self.axis, epsilon=self.epsilon)
