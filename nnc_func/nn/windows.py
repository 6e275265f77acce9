"""Layers of signals, images and volumes: convolution, its transpose, pooling, resizing."""

from __future__ import annotations

from typing import Any, ClassVar

from nnc_func.errors import ShapeError
from nnc_func.facets.windows import DATA_FORMATS, numbers
from nnc_func.nn.initialise import Initialiser, glorot_uniform, zeros
from nnc_func.nn.layers import channels_of
from nnc_func.nn.modules import Context, Module, module, parameter, static


def _tuples(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def _format(each: Any) -> str:
    """The data format of a module; with channels last unless it says otherwise."""
    return each.data_format or DATA_FORMATS[each.axes][0]


# --- convolution -----------------------------------------------------------------------------------------


class _Convolution(Module):
    """What convolutions and transposed ones have in common; subclasses say along how many axes."""

    takes_one: ClassVar[bool] = True

    axes: ClassVar[int]
    operator: ClassVar[str]
    further: ClassVar[tuple[str, ...]] = ()  # parameters that not all of them have

    def _inputs(self: Any, aval: Any) -> int:
        data_format = _format(self)
        if aval.ndim != self.axes + 2:
            raise ShapeError(f"{self!r} wants an input of rank {self.axes + 2}, {data_format}, given {aval.shape}")
        return channels_of(aval.shape, -1 if data_format[-1] == "C" else 1, self)

    def _made(self: Any, key: Any, shape: Any, dtype: Any) -> dict[str, Any]:
        weight = self.initialiser(key, (*numbers("window", self.window, self.axes), *shape), dtype)
        return {"weight": weight, "bias": zeros(key, (self.channels,), dtype) if self.biased else None}

    def create(self: Any, key: Any, aval: Any) -> dict[str, Any]:
        """Kernel and bias for an input with the channels of the aval."""
        inputs = self._inputs(aval)
        if inputs % self.groups:
            raise ShapeError(f"{self!r} cuts its input channels into {self.groups} groups, given {inputs} channels")
        return self._made(key, (inputs // self.groups, self.channels), aval.dtype)  # type: ignore[no-any-return]

    def forward(self: Any, x: Any, context: Context | None = None) -> Any:
        """The convolution, and the bias."""
        ops, axes, data_format = x.stack.ops, self.axes, _format(self)
        more = {name: getattr(self, name) for name in self.further}
        y = getattr(ops, self.operator)(
            x, self.weight, stride=numbers("stride", self.stride, axes), padding=self.padding,
            dilation=numbers("dilation", self.dilation, axes), groups=self.groups, data_format=data_format, **more,
        )  # fmt: skip
        if self.bias is None:
            return y
        return y + (self.bias if data_format[-1] == "C" else ops.reshape(self.bias, shape=(-1, *(1,) * axes)))


@module
class Conv2D(_Convolution):
    """Images convolved with a kernel of shape ``(height, width, in // groups, out)``, plus a bias a channel.

    Stride, padding, dilation, groups and data format (``"NHWC"`` unless given) are those of the operator `conv2d`.

    Examples
    --------
    >>> Conv2D(32, 5, padding="SAME").init(seed=0, shape=(None, 28, 28, 1))
    Conv2D(channels=32, window=5, weight=float32[5, 5, 1, 32], bias=float32[32], padding='SAME')
    """

    axes: ClassVar[int] = 2
    operator: ClassVar[str] = "conv2d"

    channels: int = static()
    window: Any = static(converter=_tuples)
    weight: Any = parameter(default=None)
    bias: Any = parameter(default=None)
    stride: Any = static(default=1, converter=_tuples)
    padding: Any = static(default="VALID", converter=_tuples)
    dilation: Any = static(default=1, converter=_tuples)
    groups: int = static(default=1)
    data_format: str | None = static(default=None)
    biased: bool = static(default=True)
    initialiser: Initialiser = static(default=glorot_uniform)


@module
class Conv1D(Conv2D):
    """Signals convolved with a kernel of shape ``(width, in // groups, out)``, plus a bias a channel.

    The parameters are those of `Conv2D`, for one axis; the data format is ``"NWC"`` or ``"NCW"``.

    Examples
    --------
    >>> Conv1D(8, 3, stride=2).init(seed=0, shape=(None, 16, 4)).weight.shape
    (3, 4, 8)
    """

    axes: ClassVar[int] = 1
    operator: ClassVar[str] = "conv1d"


@module
class Conv3D(Conv2D):
    """Volumes convolved with a kernel of shape ``(depth, height, width, in // groups, out)``, plus a bias a channel.

    The parameters are those of `Conv2D`, a number or a triple each; the data format is ``"NDHWC"`` or ``"NCDHW"``.

    Examples
    --------
    >>> Conv3D(8, (1, 3, 3)).init(seed=0, shape=(None, 4, 8, 8, 2)).weight.shape
    (1, 3, 3, 2, 8)
    """

    axes: ClassVar[int] = 3
    operator: ClassVar[str] = "conv3d"


@module
class ConvTranspose2D(Conv2D):
    """The transpose of a convolution of images, whose stride enlarges them, plus a bias a channel.

    The kernel has the shape ``(height, width, out // groups, in)``; the parameters are those of `conv_transpose2d`.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> layer = ConvTranspose2D(3, 2, stride=2).init(seed=0, shape=(None, 4, 4, 8))
    >>> layer(nnc.eager().asarray(np.ones((1, 4, 4, 8), "float32"))).shape
    (1, 8, 8, 3)
    """

    operator: ClassVar[str] = "conv_transpose2d"
    further: ClassVar[tuple[str, ...]] = ("output_padding",)
    output_padding: Any = static(default=0, converter=_tuples)

    def create(self: Any, key: Any, aval: Any) -> dict[str, Any]:
        """Kernel and bias for an input with the channels of the aval."""
        inputs = self._inputs(aval)
        if inputs % self.groups or self.channels % self.groups:
            raise ShapeError(f"{self!r} cuts {inputs} channels, and its own, into {self.groups} groups: not evenly")
        return self._made(key, (self.channels // self.groups, inputs), aval.dtype)  # type: ignore[no-any-return]


@module
class ConvTranspose1D(ConvTranspose2D):
    """The transpose of a convolution of signals, whose stride enlarges them, plus a bias a channel.

    The kernel has the shape ``(width, out // groups, in)``; the parameters are those of `conv_transpose1d`.

    Examples
    --------
    >>> ConvTranspose1D(3, 4, stride=2).init(seed=0, shape=(None, 5, 2)).weight.shape
    (4, 3, 2)
    """

    axes: ClassVar[int] = 1
    operator: ClassVar[str] = "conv_transpose1d"


@module
class ConvTranspose3D(ConvTranspose2D):
    """The transpose of a convolution of volumes, whose stride enlarges them, plus a bias a channel.

    The kernel has the shape ``(depth, height, width, out // groups, in)``; the parameters are those of
    `conv_transpose3d`.

    Examples
    --------
    >>> ConvTranspose3D(3, 2, stride=2).init(seed=0, shape=(None, 5, 5, 5, 4)).weight.shape
    (2, 2, 2, 3, 4)
    """

    axes: ClassVar[int] = 3
    operator: ClassVar[str] = "conv_transpose3d"


# --- pooling ---------------------------------------------------------------------------------------------


@module
class MaxPool2D(Module):
    """The largest element of every window of images; the stride is the window unless given.

    The parameters are those of the operator `max_pool2d`.

    Examples
    --------
    >>> MaxPool2D(2)
    MaxPool2D(window=2)
    """

    takes_one: ClassVar[bool] = True

    axes: ClassVar[int] = 2
    operator: ClassVar[str] = "max_pool2d"
    further: ClassVar[tuple[str, ...]] = ()  # parameters that not all of them have

    window: Any = static(converter=_tuples)
    stride: Any = static(default=None, converter=_tuples)
    padding: Any = static(default="VALID", converter=_tuples)
    dilation: Any = static(default=1, converter=_tuples)
    data_format: str | None = static(default=None)

    def forward(self: Any, x: Any, context: Context | None = None) -> Any:
        """The pooled input."""
        axes, stride = self.axes, self.stride
        more = {name: getattr(self, name) for name in self.further}
        return getattr(x.stack.ops, self.operator)(
            x, window=numbers("window", self.window, axes), padding=self.padding,
            stride=None if stride is None else numbers("stride", stride, axes),
            dilation=numbers("dilation", self.dilation, axes), data_format=_format(self), **more,
        )  # fmt: skip


@module
class MaxPool1D(MaxPool2D):
    """The largest element of every window of signals; the parameters are those of `max_pool1d`.

    Examples
    --------
    >>> MaxPool1D(3, stride=2)
    MaxPool1D(window=3, stride=2)
    """

    axes: ClassVar[int] = 1
    operator: ClassVar[str] = "max_pool1d"


@module
class MaxPool3D(MaxPool2D):
    """The largest element of every window of volumes; the parameters are those of `max_pool3d`.

    Examples
    --------
    >>> MaxPool3D((1, 2, 2))
    MaxPool3D(window=(1, 2, 2))
    """

    axes: ClassVar[int] = 3
    operator: ClassVar[str] = "max_pool3d"


@module
class AveragePool2D(MaxPool2D):
    """The mean of every window of images, padding counted only if said; the stride is the window unless given.

    The parameters are those of the operator `average_pool2d`.

    Examples
    --------
    >>> AveragePool2D((2, 3))
    AveragePool2D(window=(2, 3))
    """

    operator: ClassVar[str] = "average_pool2d"
    further: ClassVar[tuple[str, ...]] = ("count_padding",)
    count_padding: bool = static(default=False)


@module
class AveragePool1D(AveragePool2D):
    """The mean of every window of signals; the parameters are those of `average_pool1d`.

    Examples
    --------
    >>> AveragePool1D(2, padding="SAME")
    AveragePool1D(window=2, padding='SAME')
    """

    axes: ClassVar[int] = 1
    operator: ClassVar[str] = "average_pool1d"


@module
class AveragePool3D(AveragePool2D):
    """The mean of every window of volumes; the parameters are those of `average_pool3d`.

    Examples
    --------
    >>> AveragePool3D(2)
    AveragePool3D(window=2)
    """

    axes: ClassVar[int] = 3
    operator: ClassVar[str] = "average_pool3d"


@module
class GlobalMaxPool(Module):
    """The largest element of each channel of each signal, image or volume; `axis` is that of the channels.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> GlobalMaxPool()(nnc.eager().asarray(np.ones((2, 5, 5, 3)))).shape
    (2, 3)
    """

    takes_one: ClassVar[bool] = True

    axis: int = static(default=-1)
    keepdims: bool = static(default=False)

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The maxima."""
        return x.stack.ops.global_max_pool(x, axis=self.axis, keepdims=self.keepdims)


@module
class GlobalAveragePool(Module):
    """The mean of each channel of each signal, image or volume; `axis` is that of the channels.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> GlobalAveragePool(axis=1, keepdims=True)(nnc.eager().asarray(np.ones((2, 5, 4)))).shape
    (2, 5, 1)
    """

    takes_one: ClassVar[bool] = True

    axis: int = static(default=-1)
    keepdims: bool = static(default=False)

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The means."""
        return x.stack.ops.global_average_pool(x, axis=self.axis, keepdims=self.keepdims)


# --- resizing --------------------------------------------------------------------------------------------


@module
class Resize(Module):
    """Signals, images or volumes of another size, up-sampled by a scale say; the parameters are those of `resize`.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> Resize(scale=2, method="linear")(nnc.eager().asarray(np.ones((1, 4, 3, 2)))).shape
    (1, 8, 6, 2)
    """

    takes_one: ClassVar[bool] = True

    size: Any = static(default=None, converter=_tuples)
    scale: Any = static(default=None, converter=_tuples)
    method: str = static(default="nearest")
    align_corners: bool = static(default=False)
    axis: int = static(default=-1)

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The resized input."""
        return x.stack.ops.resize(
            x, size=self.size, scale=self.scale, method=self.method, align_corners=self.align_corners, axis=self.axis
        )
