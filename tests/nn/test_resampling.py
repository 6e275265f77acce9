"""Resampling beside ONNX's own Resize, SciPy and arithmetic (`graph/composites/resampling`, `facets/resampling`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

import nnc_func as nnc
from nnc_func.errors import DTypeError, NncError, OperatorError, ShapeError
from nnc_func.facets.resampling import COORDINATES, METHODS, ROUNDINGS, Resampling
from nnc_func.graph.composites.resampling import NARROW

EAGER, LAZY = nnc.eager(), nnc.lazy()
extents = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


def reference(x: np.ndarray, p: dict[str, Any]) -> np.ndarray:
    """ONNX's own evaluation of its Resize."""
    attributes = {
        "mode": p["method"],
        "coordinate_transformation_mode": p["coordinates"],
        "nearest_mode": p["rounding"],
        "cubic_coeff_a": p["coefficient"],
        "antialias": int(p["antialias"]),
        "exclude_outside": int(p["exclude_outside"]),
        "extrapolation_value": p["fill"],
        "axes": list(p["axes"]),
    }
    given = {"x": x}
    if p["region"] is not None:
        given["roi"] = np.asarray(p["region"]).T.reshape(-1)
    if p["scale"] is not None:
        given["scales"] = np.asarray(p["scale"], np.float32)
    else:
        given["sizes"] = np.asarray(p["size"], np.int64)
        attributes["keep_aspect_ratio_policy"] = p["aspect"]
    names = [n if n in given else "" for n in ("x", "roi", "scales", "sizes")]
    node = onnx.helper.make_node("Resize", names, ["y"], **attributes)
    kind = {n: onnx.helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in given.items()}
    graph = onnx.helper.make_graph(
        [node], "g", [onnx.helper.make_tensor_value_info(n, kind[n], v.shape) for n, v in given.items()],
        [onnx.helper.make_tensor_value_info("y", kind["x"], None)],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)])
    return ReferenceEvaluator(model).run(None, given)[0]


@st.composite
def resamplings(draw: Any) -> tuple[np.ndarray, dict[str, Any]]:
    shape = draw(extents)
    axes = tuple(draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True)))
    by_scale = draw(st.booleans())
    coordinates = draw(st.sampled_from(COORDINATES))
    method = draw(st.sampled_from(METHODS))
    ends = st.sampled_from([-0.25, 0.0, 0.25, 0.75, 1.0, 1.5])
    scales = st.sampled_from([0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.75])  # these are themselves in float32
    return np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape), {
        "axes": axes,
        "scale": tuple(draw(scales) for _ in axes) if by_scale else None,
        "size": None if by_scale else tuple(draw(st.integers(1, 7)) for _ in axes),
        "method": method,
        "coordinates": coordinates,
        "rounding": draw(st.sampled_from(sorted(ROUNDINGS))),
        "coefficient": draw(st.sampled_from([-0.75, -0.5])),
        "antialias": method != "nearest" and draw(st.booleans()),
        "exclude_outside": method == "cubic" and draw(st.booleans()),
        "aspect": "stretch" if by_scale else draw(st.sampled_from(["stretch", "not_larger", "not_smaller"])),
        "region": tuple((draw(ends), draw(ends)) for _ in axes) if coordinates == "tf_crop_and_resize" else None,
        "fill": draw(st.sampled_from([0.0, 3.5])),
    }


def decided(x: np.ndarray, found: np.ndarray, p: dict[str, Any]) -> bool:
    """Whether the reference, which computes with rounded numbers, sees no whole or half position beside itself.

    There it takes another element, and with antialiasing weighs the neighbours of one side only; beside a whole one it
    takes neighbours of one position and weights of another. What scales give that are exact is exact where it is whole
    or half, but for symmetric coordinates, which divide by an extent that is no integer.
    """
    if not found.size:
        return True
    how = Resampling(coordinates=p["coordinates"])
    parts = 2 if p["method"] == "nearest" or p["antialias"] else 1
    for at, (axis, region) in enumerate(zip(p["axes"], p["region"] or [(0.0, 1.0)] * len(p["axes"]), strict=True)):
        n, m = x.shape[axis], found.shape[axis]
        by_size = [m / n, *(s / x.shape[a] for a, s in zip(p["axes"], p["size"] or (), strict=False))]
        for scale in {*by_size} if p["scale"] is None else (p["scale"][at],):
            exact = (scale * 64).is_integer() and p["coordinates"] != "half_pixel_symmetric"
            places = parts * how.positions(n, m, scale, region)
            if not exact and (np.abs(places - np.rint(places)) < 1e-5).any():
                return False
    return True


BESIDE_WHOLE = {
    "axes": (0,), "scale": (1.25,), "size": None, "method": "cubic", "coordinates": "half_pixel_symmetric",
    "rounding": "ceil", "coefficient": -0.75, "antialias": False, "exclude_outside": True, "aspect": "stretch",
    "region": None, "fill": 0.0,
}  # fmt: skip


def test_a_position_beside_a_whole_one_takes_the_element_there() -> None:
    """The reference gives 0 here: neighbours of position 0, weights of one just above."""
    x = np.random.default_rng(0).normal(size=5)
    found = EAGER.ops.resample(EAGER.asarray(x), **BESIDE_WHOLE).numpy()
    assert not decided(x, found, BESIDE_WHOLE)
    np.testing.assert_allclose(found[[0, -1]], x[[0, -1]], rtol=1e-12)


@given(resamplings())
def test_resampling_is_that_of_onnx(case: tuple[np.ndarray, dict[str, Any]]) -> None:
    x, p = case
    if p["scale"] is not None:
        wanted = [int(n * s) for n, s in zip((x.shape[a] for a in p["axes"]), p["scale"], strict=True)]
        assume(all(wanted))
        # of one element the standard's text says where it lies, and the reference elsewhere
        assume(
            p["coordinates"] != "align_corners"
            or all(x.shape[a] * s != 1 for a, s in zip(p["axes"], p["scale"], strict=True))
        )
    found = EAGER.ops.resample(EAGER.asarray(x), **p)
    if p["coordinates"] == "pytorch_half_pixel":
        assume(all(found.shape[a] != 1 for a in p["axes"]))
    assume(decided(x, found, p))
    np.testing.assert_allclose(found.numpy(), reference(x, p), rtol=1e-5, atol=1e-5)  # it takes scales for float32
    unbound = LAZY.input("x", x.shape, x.dtype)
    np.testing.assert_allclose(
        LAZY.compile([unbound], LAZY.ops.resample(unbound, **p))(x), found.numpy(), rtol=1e-12, atol=1e-12
    )


def test_positions_that_are_whole_but_for_rounding_are_whole() -> None:
    """Of two rows and one third of three columns: (2 - 1 / (1 / 3)) / 2 is -0.5, and (3 - 3) / 2 is 0."""
    x = EAGER.asarray(np.arange(6.0).reshape(2, 3))
    found = EAGER.ops.resample(
        x, axes=(0, 1), size=(1, 1), method="nearest", coordinates="half_pixel_symmetric", rounding="ceil",
        aspect="not_smaller",
    )  # fmt: skip
    np.testing.assert_array_equal(found.numpy(), [[3.0, 5.0]])


@given(st.integers(1, 7), st.integers(1, 9), st.booleans())
def test_it_agrees_with_resize(n: int, m: int, corners: bool) -> None:
    x = EAGER.asarray(np.random.default_rng(n).normal(size=(2, n, 3)))
    coordinates = "align_corners" if corners else "half_pixel"
    found = EAGER.ops.resample(x, axes=1, size=m, method="linear", coordinates=coordinates)
    wanted = EAGER.ops.resize(x, size=(m,), method="linear", align_corners=corners)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-12)


def test_a_cubic_of_half_coefficient_keeps_parabolas() -> None:
    """Keys' kernel is exact for polynomials of the second degree, away from the ends."""
    x = np.arange(12.0) ** 2
    found = EAGER.ops.resample(EAGER.asarray(x), axes=0, scale=2, method="cubic", coefficient=-0.5).numpy()
    at = (np.arange(24) + 0.5) / 2 - 0.5
    np.testing.assert_allclose(found[5:-5], at[5:-5] ** 2, rtol=1e-12)


def test_the_only_element_is_the_first_or_the_middle() -> None:
    x = EAGER.asarray(np.arange(5.0))
    for coordinates, wanted in (("pytorch_half_pixel", 0.0), ("half_pixel", 2.0), ("align_corners", 0.0)):
        found = EAGER.ops.resample(x, axes=0, size=1, method="linear", coordinates=coordinates)
        np.testing.assert_allclose(found.numpy(), [wanted], atol=1e-12)


def test_antialiasing_weighs_all_that_an_element_stands_for() -> None:
    found = EAGER.ops.resample(EAGER.asarray(np.eye(8)), axes=0, size=2, method="linear", antialias=True).numpy()
    assert ((found > 0).sum(axis=0) > 0).all()  # without it, half of the elements count for nothing
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)


def test_other_axes_may_be_unknown() -> None:
    x = LAZY.input("x", (None, 4, None), "float32")
    program = LAZY.compile([x], LAZY.ops.resample(x, axes=1, size=7, method="cubic"))
    value = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    wanted = EAGER.ops.resample(EAGER.asarray(value), axes=1, size=7, method="cubic")
    np.testing.assert_allclose(program(value), wanted.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("outside", [False, True])
def test_along_wide_axes_a_few_neighbours_are_weighed(method: str, outside: bool) -> None:
    x, n = np.random.default_rng(0).normal(size=(3, NARROW + 1, 2)), NARROW + 1
    how = Resampling(method, exclude_outside=outside)
    for m in (40, n, 2 * n):
        matrix = how.weights(how.positions(n, m, m / n, (0.0, 1.0)), n, m / n)
        found = EAGER.ops.resample(EAGER.asarray(x), axes=1, size=m, method=method, exclude_outside=outside)
        np.testing.assert_allclose(found.numpy(), np.einsum("mn,anb->amb", matrix, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("coordinates", "rounding"), [("half_pixel", "round_prefer_floor"), ("asymmetric", "floor"), ("asymmetric", "ceil")]
)
def test_elements_along_unknown_axes_are_copied_or_refused(coordinates: str, rounding: str) -> None:
    x, params = LAZY.input("x", (None, 3), "int32"), {"method": "nearest", "axes": (1, 0), "scale": (2, 3)}
    params |= {"coordinates": coordinates, "rounding": rounding}
    if rounding == "ceil":
        with pytest.raises(ShapeError, match="a whole number of times"):
            LAZY.ops.resample(x, **params)
    else:
        value = np.arange(12, dtype="int32").reshape(4, 3)
        found = LAZY.compile([x], LAZY.ops.resample(x, **params))(value)
        np.testing.assert_array_equal(found, value.repeat(3, 0).repeat(2, 1))


def test_positions_none_of_whose_neighbours_counts_are_filled_and_pass_nothing_back() -> None:
    def filled(x: Any) -> Any:
        return LAZY.ops.resample(
            x, axes=0, size=3, method="linear", coordinates="tf_crop_and_resize", region=((0.0, 3.0),), fill=7.0,
            exclude_outside=True,
        )  # fmt: skip

    x = LAZY.asarray(np.arange(4.0))
    assert filled(x).numpy().tolist() == [0, 7, 7]
    assert LAZY.grad(lambda x: LAZY.ops.sum(filled(x)))(x).numpy().tolist() == [1, 0, 0, 0]


def test_the_nearest_elements_of_integers_are_taken() -> None:
    found = EAGER.ops.resample(EAGER.asarray([1, 2, 3]), axes=0, size=6, method="nearest")
    assert found.dtype == np.int64
    assert found.numpy().tolist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("kind", "words", "params"),
    [
        (OperatorError, "either size or scale", {}),
        (OperatorError, "either size or scale", {"size": 2, "scale": 2.0}),
        (OperatorError, "method is one of nearest, linear, cubic", {"size": 2, "method": "bilinear"}),
        (OperatorError, "coordinates is one of", {"size": 2, "coordinates": "corners"}),
        (OperatorError, "scale is a positive number", {"scale": 0.0}),
        (OperatorError, "one for each of 1 axes", {"size": (2, 3)}),
        (OperatorError, "region is a pair", {"size": 2, "region": (0.0, 1.0)}),
        (OperatorError, "aspect is", {"size": 2, "aspect": "keep"}),
    ],
)
def test_what_makes_no_sense_is_refused(kind: type[NncError], words: str, params: dict[str, Any]) -> None:
    for stack in (EAGER, LAZY):
        with pytest.raises(kind, match=words):
            stack.ops.resample(stack.input("x", (3, 4), "float64"), axes=0, **params)


def test_integers_unknown_and_empty_axes_are_refused() -> None:
    for shape, dtype, kind, words in (
        ((3,), "int64", DTypeError, "weighs floating numbers"),
        ((None,), "float32", ShapeError, "resize takes unknown ones"),
        ((0,), "float32", ShapeError, "without elements"),
    ):
        with pytest.raises(kind, match=words):
            LAZY.ops.resample(LAZY.input("x", shape, dtype), axes=0, size=2)
