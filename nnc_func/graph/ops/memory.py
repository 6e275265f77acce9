"""How, where and when a tensor lies in memory: conversions of layout and of place, and a barrier. Its elements stay.

With `cast`, which converts the dtype, `relayout` and `transfer` are all conversions there are: none happens unseen.
"""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels import move as kernels
from nnc_func.device.kernels.onednn_move import LIBRARY_RELAYOUT
from nnc_func.facets import dtypes, layouts, lowering, places, shapes
from nnc_func.facets.derivatives import Linear
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.laws import idempotent
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import ANY, EXACT, Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import View, free
from nnc_func.graph.ops.families import Nested, Tensor
from nnc_func.op import operator


def _same(x: ShapeT, *, layout: Any, data_format: str) -> ShapeT:
    """That of the argument, of which the parameters are a layout."""
    layouts.permutation(layout, len(x), data_format)
    return x


def _some_layout(shapes_: Any, draw: Any) -> dict[str, Any]:
    axes = tuple(range(len(shapes_[0])))
    images = ("NHWC", "NCHW")
    by_letter = images if len(axes) == len(images[0]) else ()
    chosen = draw([axes[::-1], (*axes[1:], *axes[:1]), (*axes[-1:], *axes[:-1]), "row-major", *by_letter])
    return {"layout": chosen, "data_format": draw(images)}


@operator(
    shape=_same,
    dtype=dtypes.first,
    layout=layouts.given,
    kernels=(LIBRARY_RELAYOUT, reference(kernels.relayout, kernels.copied_into, infallible=True)),
    derivative=Linear(lambda o, g, x, **_: o.relayout(g, layout=o.layout(x))),
    laws=(idempotent,),
    onnx=onnx_elementwise.unchanged,
    cost=free,
    tolerance=EXACT,
    samples=Samples(dtypes=ANY, params=_some_layout),
    data_movement=True,
    lowering=lowering.UNMOVED,
)
def relayout(x: Tensor, /, *, layout: Nested, data_format: str = "NHWC") -> Tensor:
    """The same tensor, its axes in another order in memory; its shape and the meaning of its axes stay as they are.

    `layout` is ``"row-major"``, or the axes in the order in which they lie in memory, outermost first: by number,
    ``(0, 3, 1, 2)``, or, of images, by letter, ``"NCHW"``, `data_format` being what the axes are, in their order.
    """


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    layout=layouts.first,
    place=places.given,
    kernels=reference(kernels.copied, kernels.copied_into, infallible=True),
    derivative=Linear(lambda o, g, x, **_: o.transfer(g, place=o.place(x))),
    laws=(idempotent,),
    onnx=onnx_elementwise.unchanged,
    cost=free,
    tolerance=EXACT,
    samples=Samples(dtypes=ANY, params=lambda shapes_, draw: {"place": None}),
    data_movement=True,
    lowering=lowering.UNMOVED,
)
def transfer(x: Tensor, /, *, place: str | None) -> Tensor:
    """The same tensor in another place of the device: copied there. None is the first place, the device's own."""


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    layout=layouts.first,
    kernels=Kernel("view", compute=lambda xp, x, event: kernels.whole(xp, x), infallible=True),
    derivative=Linear(lambda o, g, x, event: g, (0,)),
    view=View(contiguous=True),
    onnx=onnx_elementwise.first,
    cost=free,
    tolerance=EXACT,
    samples=Samples(
        relation="cases",
        dtypes=ANY,
        cases=((((2, 3), (4,)), {}), ((((0,), "int32"), ((), "bool")), {}), (((), ()), {})),
    ),
    data_movement=True,
    lowering=lowering.UNMOVED,
)
def after(x: Tensor, event: Tensor, /) -> Tensor:
    """The same tensor, which is there once `event`, any tensor of that place, is: what is made of it comes later.

    No rule looks through it, so that ``f(after(x, event))`` is another application than ``f(x)``: so values are
    computed again. XLA calls it an optimization barrier. A plan has no trace of it but the order of instructions.
    """
