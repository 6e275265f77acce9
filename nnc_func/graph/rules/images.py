"""Rules of convolutions: borders that they put around images themselves, and images whose axes are exchanged."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.facets.dims import known
from nnc_func.facets.layouts import NCHW, NHWC
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import that, used_once
from nnc_func.graph.rules.pattern import Param, computed
from nnc_func.graph.rules.rule import ROUNDING, rewrite, rule

conv2d, pad, permute_dims = OPS["conv2d"], OPS["pad"], OPS["permute_dims"]
NO_BORDERS = ((0, 0), (0, 0))

# --- borders -------------------------------------------------------------------------------------------


def _split(w: Any, q: str) -> tuple[Any, Any]:
    """The widths around rows and columns of images in that format, and those around the other axes."""
    first = 2 if q == NCHW else 1
    return w[first : first + 2], (*w[:first], *w[first + 2 :])


def _of_images(w: Any, v: Any, q: str) -> bool:
    """Whether they are zeros around rows and columns, of known widths."""
    return v == 0 and all(known(n) for pair in w for n in pair) and not any(n for pair in _split(w, q)[1] for n in pair)


@computed
def _with_borders(p, w, q):
    """The widths of zeros around images, and of those that are there already."""
    own = NO_BORDERS if p == "VALID" else p
    return tuple((a + c, b + d) for (a, b), (c, d) in zip(own, _split(w, q)[0], strict=True))


@rule
def pad_within_convolution(x, k, w: Param, v: Param, s: Param, p: Param, d: Param, n: Param, q: Param):
    """A convolution of images with zeros around them puts these there itself, a window at a time."""
    padded = pad(x, widths=w, value=v)
    told: dict[str, Any] = {"stride": s, "dilation": d, "groups": n, "data_format": q}
    return (
        rewrite(conv2d(padded, k, padding=p, **told))
        .to(conv2d(x, k, padding=_with_borders(p, w, q), **told))
        .when(
            that(_of_images, w, v, q, says=f"{v} is zero, and {w} are widths around rows and columns"),
            that(lambda p: p != "SAME", p, says=f"{p} does not depend on extents"),
            used_once(padded),
        )
        .up_to(ROUNDING)
    )


# --- exchanged axes ------------------------------------------------------------------------------------

CHANNELS_FIRST = (0, 3, 1, 2)  # of images whose channels are last
CHANNELS_LAST = (0, 2, 3, 1)


@rule
def convolve_with_channels_last(x, k, s: Param, p: Param, d: Param, n: Param):
    """A convolution between two transposes, to the format NCHW and back, is one of the format NHWC."""
    told: dict[str, Any] = {"stride": s, "padding": p, "dilation": d, "groups": n}
    convolved = conv2d(permute_dims(x, axes=CHANNELS_FIRST), k, data_format=NCHW, **told)
    made = rewrite(permute_dims(convolved, axes=CHANNELS_LAST)).to(conv2d(x, k, data_format=NHWC, **told))
    return made.when(used_once(convolved)).up_to(ROUNDING)
