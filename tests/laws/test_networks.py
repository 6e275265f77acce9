"""Normalisation, resizing, attention, recurrence and detection against NumPy's formulas (`graph/composites`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DTypeError, OperatorError, ShapeError

EAGER = nnc.eager()
OPS = EAGER.ops
RNG = np.random.default_rng(0)
FEW = settings(max_examples=max(8, settings().max_examples // 3))


def _noise(*shape: int) -> Any:
    return RNG.normal(size=shape)


def _close(found: Any, wanted: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


# --- normalisations --------------------------------------------------------------------------------------


def _standard(x: Any, axes: Any, epsilon: float = 1e-5) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_normalisations_are_their_formulas() -> None:
    x, scale, offset = _noise(3, 4, 5, 6), _noise(6), _noise(6)
    _close(OPS.layer_norm(x, scale, offset), _standard(x, -1) * scale + offset)
    _close(OPS.layer_norm(x, axis=(1, 3)), _standard(x, (1, 3)))
    _close(OPS.instance_norm(x, scale, offset), _standard(x, (1, 2)) * scale + offset)
    _close(OPS.instance_norm(x, axis=1), _standard(x, (2, 3)))
    groups = _standard(x.reshape(3, 4, 5, 2, 3), (1, 2, 4)).reshape(x.shape)
    _close(OPS.group_norm(x, scale, offset, groups=2), groups * scale + offset)
    _close(OPS.group_norm(x, groups=2, axis=1), _standard(x.reshape(3, 2, 2, 5, 6), (2, 3, 4)).reshape(x.shape))
    _close(OPS.rms_norm(x, scale), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale)
    mean, variance = OPS.moments(x, axis=(0, 1, 2))
    _close(mean, x.mean((0, 1, 2)))
    _close(variance, x.var((0, 1, 2)))
    _close(OPS.batch_norm(x, mean, variance, scale, offset), _standard(x, (0, 1, 2)) * scale + offset)


@given(st.integers(1, 6), st.integers(1, 7))
def test_local_response_is_a_sum_over_neighbours(channels: int, size: int) -> None:
    x = _noise(2, channels, 3)
    wanted = np.empty_like(x)
    for c in range(channels):
        low, high = max(0, c - (size - 1) // 2), min(channels, c + size - (size - 1) // 2)
        wanted[:, c] = x[:, c] / (1.5 + 0.3 / size * (x[:, low:high] ** 2).sum(1)) ** 0.6
    _close(OPS.local_response_norm(x, size=size, alpha=0.3, beta=0.6, bias=1.5, axis=1), wanted)


@pytest.mark.parametrize("name", ["layer_norm", "instance_norm", "group_norm", "batch_norm"])
def test_a_large_mean_costs_its_own_digits_only(name: str) -> None:
    x = (_noise(4, 32, 8) + 4096).astype("float32")  # a unit in the last place is 2**-11
    exact = x.astype("float64")
    if name == "batch_norm":
        found = OPS.batch_norm(x, *OPS.moments(x, axis=(0, 1)))
        wanted = _standard(exact, (0, 1))
    else:
        params = {"groups": 2} if name == "group_norm" else {}
        found, wanted = getattr(OPS, name)(x, **params), getattr(OPS, name)(exact, **params).numpy()
    assert found.dtype == np.float32
    assert np.abs(found.numpy() - wanted).max() < 2e-3  # the mean itself is rounded; a difference of squares gives 1e0


# --- resizing --------------------------------------------------------------------------------------------


def _places(n: int, m: int, align_corners: bool) -> Any:
    i = np.arange(m)
    return i * (n - 1) / max(m - 1, 1) if align_corners else (i + 0.5) * n / m - 0.5


@FEW
@given(st.integers(1, 7), st.integers(1, 9), st.booleans())
def test_resizing_interpolates(n: int, m: int, align_corners: bool) -> None:
    x, at = _noise(2, n, 3), _places(n, m, align_corners)
    wanted = np.stack([[np.interp(at, np.arange(n), row) for row in one.T] for one in x]).transpose(0, 2, 1)
    found = OPS.resize(x, size=m, method="linear", align_corners=align_corners)
    _close(found, wanted)
    nearest = np.clip(np.floor(at + 0.5 + 1e-9), 0, n - 1).astype(int)
    np.testing.assert_array_equal(OPS.resize(x, size=m, align_corners=align_corners).numpy(), x[:, nearest])


def test_resizing_goes_axis_by_axis_and_has_an_exact_transpose() -> None:
    x = _noise(1, 3, 4, 2)
    rows = OPS.resize(x.reshape(1, 3, 8), size=6, method="linear").numpy().reshape(1, 6, 4, 2)
    columns = OPS.resize(rows.reshape(6, 4, 2), scale=1.5, method="linear").numpy().reshape(1, 6, 6, 2)
    _close(OPS.resize(x, size=6, method="linear"), columns)
    _, back = EAGER.vjp(lambda t: OPS.resize(t, scale=(2, 3)), x)
    (gradient,) = back(np.ones((1, 6, 12, 2)))
    np.testing.assert_array_equal(gradient.numpy(), np.full(x.shape, 6.0))


def test_resizing_of_unknown_extents() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", ("n", "h", "w", 2), "float64")
    program = lazy.compile([x], [lazy.ops.resize(x, scale=2), lazy.ops.resize(x, size=(5, 3), method="linear")])
    for shape in ((1, 2, 3, 2), (2, 4, 5, 2)):
        given_ = _noise(*shape)
        doubled, fixed = program(given_)
        np.testing.assert_array_equal(doubled, given_.repeat(2, 1).repeat(2, 2))
        np.testing.assert_allclose(fixed, OPS.resize(given_, size=(5, 3), method="linear").numpy(), atol=1e-13)


# --- attention -------------------------------------------------------------------------------------------


def _attended(q: Any, k: Any, v: Any, mask: Any, causal: bool) -> Any:
    """Query by query, head by head."""
    found = np.zeros((*q.shape[:-1], v.shape[-1]))
    shape = (*q.shape[:-1], k.shape[-2])
    allowed = np.ones(shape, bool) if mask is None or mask.dtype != bool else np.broadcast_to(mask, shape)
    added = np.zeros(shape) if mask is None or mask.dtype == bool else np.broadcast_to(mask, shape)
    share = q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(q.shape[:3]):
        keys = [j for j in range(k.shape[2]) if allowed[b, h, i, j] and added[b, h, i, j] > -np.inf]
        keys = [j for j in keys if not causal or j <= i]
        if keys:
            scores = k[b, h // share, keys] @ q[b, h, i] / np.sqrt(q.shape[-1]) + added[b, h, i, keys]
            weights = np.exp(scores - scores.max())
            found[b, h, i] = weights @ v[b, h // share, keys] / weights.sum()
    return found


@FEW
@example(kind="bool", causal=False, share=1, keys=0, seed=0)
@given(
    kind=st.sampled_from(["none", "bool", "float", "infinite"]), causal=st.booleans(), share=st.sampled_from([1, 2]),
    keys=st.integers(1, 4), seed=st.integers(0, 99),
)  # fmt: skip
def test_attention_is_a_loop_over_queries(kind: str, causal: bool, share: int, keys: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, k, v = rng.normal(size=(2, 4, 3, 5)), rng.normal(size=(2, 4 // share, keys, 5)), None
    v = rng.normal(size=(2, 4 // share, keys, 2))
    mask = {
        "none": None, "bool": rng.random((2, 1, 3, keys)) < 0.4, "float": rng.normal(size=(4, 3, keys)),
        "infinite": np.where(rng.random((3, keys)) < 0.4, 0.5, -np.inf),
    }[kind]  # fmt: skip
    tensors = (q, k, v) if mask is None else (q, k, v, mask)
    wanted = _attended(q, k, v, mask, causal)
    for stack in (EAGER, nnc.lazy()):
        attention = stack.ops.scaled_dot_product_attention
        _close(attention(*map(stack.asarray, tensors), causal=causal), wanted)

        def total(*qkv: Any, stack: Any = stack) -> Any:
            more = () if mask is None else (stack.asarray(mask),)
            return stack.ops.sum(stack.ops.scaled_dot_product_attention(*qkv, *more, causal=causal))

        for gradient in stack.grad(total, (0, 1, 2))(q, k, v):
            assert np.isfinite(gradient.numpy()).all(), "a masked row has a gradient that is not finite"


def test_what_a_mask_and_causality_leave_out_together_is_left_out(stack: Any) -> None:
    q, mask = _noise(1, 2, 3), np.array([[-np.inf, 0.0], [0.0, 0.0]])  # query 0 may see key 1, which is behind it

    def attended(q: Any) -> Any:
        return stack.ops.scaled_dot_product_attention(q, q, q, stack.asarray(mask), causal=True)

    found = attended(stack.asarray(q)).numpy()
    np.testing.assert_array_equal(found[0, 0], np.zeros(3))
    assert np.isfinite(found).all()
    gradient = stack.grad(lambda q: stack.ops.sum(attended(q)[0, 0]))(q).numpy()
    np.testing.assert_array_equal(gradient, np.zeros_like(q))


def test_attention_drops_by_its_key() -> None:
    q, key = _noise(1, 2, 4, 3), EAGER.key(3)
    eye = np.broadcast_to(np.eye(4), (1, 2, 4, 4))
    whole = OPS.scaled_dot_product_attention(q, q, eye).numpy()
    some = OPS.scaled_dot_product_attention(q, q, eye, None, key, dropout=0.5).numpy()
    dropped = some == 0
    assert 0 < dropped.sum() < some.size
    np.testing.assert_allclose(some, np.where(dropped, 0, whole * 2))


def test_dropout_keeps_the_mean() -> None:
    x = OPS.dropout(np.ones(100_000), EAGER.key(1), probability=0.25).numpy()
    assert set(np.unique(x)) == {0.0, 1 / 0.75}
    assert abs(x.mean() - 1) < 0.01


def test_an_embedding_adds_up_what_comes_for_equal_indices(stack: Any) -> None:
    table, at = _noise(4, 3), np.array([[1, 1], [3, 1]])
    _close(stack.ops.embedding(stack.asarray(at), stack.asarray(table)), table[at])
    gradient = stack.grad(lambda w: stack.ops.sum(stack.ops.embedding(stack.asarray(at), w)))(table)
    np.testing.assert_array_equal(gradient.numpy(), np.array([0, 3, 0, 1])[:, None] * np.ones(3))


# --- recurrent cells -------------------------------------------------------------------------------------


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def test_recurrent_layers_are_their_formulas_step_by_step(stack: Any) -> None:
    ops, x, h, c = stack.ops, _noise(2, 3, 4), _noise(2, 5), _noise(2, 5)
    weights = {gates: (_noise(4, gates * 5), _noise(5, gates * 5), _noise(gates * 5)) for gates in (1, 3, 4)}
    hidden_bias = _noise(15)
    simple, long, cell, gated = [h], h, c, h
    outputs, states = [], []
    for t in range(3):
        w, u, b = weights[1]
        simple.append(np.tanh(x[:, t] @ w + simple[-1] @ u + b))
        w, u, b = weights[4]
        i, f, g, o = np.split(x[:, t] @ w + long @ u + b, 4, axis=1)
        cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
        long = _sigmoid(o) * np.tanh(cell)
        outputs.append(long)
        w, u, b = weights[3]
        r, z, n = np.split(x[:, t] @ w + b, 3, axis=1)
        hr, hz, hn = np.split(gated @ u + hidden_bias, 3, axis=1)
        z = _sigmoid(z + hz)
        gated = (1 - z) * np.tanh(n + _sigmoid(r + hr) * hn) + z * gated
        states.append(gated)
    for found, wanted in zip(ops.rnn(x, h, *weights[1]), (np.stack(simple[1:], 1), simple[-1]), strict=True):
        _close(found, wanted)
    for found, wanted in zip(ops.lstm(x, h, c, *weights[4]), (np.stack(outputs, 1), long, cell), strict=True):
        _close(found, wanted)
    for found, wanted in zip(ops.gru(x, h, *weights[3], hidden_bias), (np.stack(states, 1), gated), strict=True):
        _close(found, wanted)


# --- detection -------------------------------------------------------------------------------------------


def _overlap(a: Any, b: Any) -> float:
    width, height = (max(min(a[i + 2], b[i + 2]) - max(a[i], b[i]), 0) for i in (0, 1))
    areas = sum(max(each[2] - each[0], 0) * max(each[3] - each[1], 0) for each in (a, b))
    union = areas - width * height
    return width * height / union if union > 0 else 0.0


_BOXES = st.lists(st.tuples(*[st.integers(0, 4)] * 4, st.sampled_from([0.0, 0.5, 1.0, np.nan])), max_size=6)


@given(_BOXES, st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 5))
def test_suppression_is_greedy(rows: Any, overlap: float, most: int) -> None:
    boxes, scores = np.array([r[:4] for r in rows], float).reshape(-1, 4), np.array([r[4] for r in rows], float)
    kept: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: (-scores[i], i)) if not np.isnan(scores).any() else ():
        if scores[i] >= 0.5 and all(_overlap(boxes[i], boxes[j]) <= overlap for j in kept):
            kept.append(i)
    found, count = OPS.non_maximum_suppression(boxes, scores, count=most, overlap=overlap, lowest=0.5)
    found, count = found.numpy(), int(count)
    assert found.shape == (most,)
    assert (found[count:] == -1).all()
    if not np.isnan(scores).any():
        assert [*found[:count]] == kept[:most]
    assert not np.isnan(scores[found[:count]]).any()
    if len(rows):
        shares = OPS.box_iou(boxes, boxes).numpy()
        np.testing.assert_allclose(shares, [[_overlap(a, b) for b in boxes] for a in boxes])


def _sampled(image: Any, y: float, x: float) -> Any:
    """Bilinear, zero beyond a pixel outside."""
    height, width, _ = image.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(image.shape[2])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    i, j = int(y), int(x)
    k, m = min(i + 1, height - 1), min(j + 1, width - 1)
    up = image[i, j] * (1 - x + j) + image[i, m] * (x - j)
    return up * (1 - y + i) + (image[k, j] * (1 - x + j) + image[k, m] * (x - j)) * (y - i)


@FEW
@given(st.integers(0, 99), st.booleans(), st.integers(1, 3))
def test_features_of_boxes_are_means_of_samples(seed: int, aligned: bool, sampling: int) -> None:
    rng = np.random.default_rng(seed)
    features, images = rng.normal(size=(2, 4, 5, 3)), np.array([1, 0, 1])
    boxes = rng.uniform(-3, 11, (3, 4))
    wanted = np.zeros((3, 2, 3, 3))
    for r, (left, top, right, bottom) in enumerate(boxes * 0.5 - (0.5 if aligned else 0)):
        height, width = (d if aligned else max(d, 1.0) for d in (bottom - top, right - left))
        for i, j, a, b in np.ndindex(2, 3, sampling, sampling):
            y, x = top + (i + (a + 0.5) / sampling) / 2 * height, left + (j + (b + 0.5) / sampling) / 3 * width
            wanted[r, i, j] += _sampled(features[images[r]], y, x) / sampling**2
    params: dict[str, Any] = {"size": (2, 3), "scale": 0.5, "sampling": sampling, "aligned": aligned}
    _close(OPS.roi_align(features, boxes, images, **params), wanted)
    first = OPS.roi_align(features.transpose(0, 3, 1, 2).copy(), boxes, images, data_format="NCHW", **params)
    _close(first, wanted.transpose(0, 3, 1, 2))


# --- refusals --------------------------------------------------------------------------------------------


def _ones(*shape: int, dtype: str = "float64") -> Any:
    return np.ones(shape, dtype)


@pytest.mark.parametrize(
    ("name", "args", "params", "words"),
    [
        ("layer_norm", (_ones(2, 3), _ones(2)), {}, r"scale has the extents \(3,\)"),
        ("layer_norm", (_ones(2, 3, dtype="int64"),), {}, "floating numbers to normalise"),
        ("group_norm", (_ones(2, 3),), {"groups": 2}, "divides the 3 channels"),
        ("group_norm", (_ones(2, 3),), {"groups": 2, "axis": 0}, "samples along the first"),
        ("instance_norm", (_ones(2, 3),), {}, "wanted channels along axis -1"),
        ("batch_norm", (_ones(2, 3), _ones(2), _ones(3)), {}, "mean has the extents"),
        ("local_response_norm", (_ones(2, 3),), {"size": 0}, "at least 1"),
        ("resize", (_ones(1, 3, 1),), {}, "either size or scale"),
        ("resize", (_ones(1, 3, 1),), {"size": 2, "method": "cubic"}, "'nearest' or 'linear'"),
        ("resize", (_ones(1, 3, 1, dtype="int64"),), {"size": 2, "method": "linear"}, "floating"),
        ("resize", (_ones(1, 3, 1),), {"scale": np.inf}, "scale is a positive number"),
        ("resize", (_ones(1, 0, 1),), {"size": 2}, "no elements to be resized"),
        ("scaled_dot_product_attention", (_ones(1, 2, 3),) * 2 + (_ones(1, 4, 3),), {}, "as many positions"),
        ("scaled_dot_product_attention", (_ones(3, 2, 3), _ones(2, 2, 3), _ones(2, 2, 3)), {}, "multiple of heads"),
        ("scaled_dot_product_attention", (_ones(1, 2, 3),) * 3, {"dropout": 0.5}, "wants a key"),
        ("scaled_dot_product_attention", (_ones(1, 2, 3),) * 3 + (_ones(2, 2, dtype="int64"),), {}, "a mask is of"),
        ("scaled_dot_product_attention", (_ones(1, 1, 3),) * 3 + (_ones(2, 1, dtype="bool"),), {}, "a mask"),
        ("scaled_dot_product_attention", (_ones(1, 2, 3),) * 3 + (_ones(2, 1, 1, 2),), {}, "a mask broadcasts to"),
        ("dropout", (_ones(2), np.zeros(2, "uint64")), {"probability": 1.0}, r"in \[0, 1\)"),
        ("embedding", (_ones(2, dtype="int64"), _ones(3)), {}, r"\(entries, features\)"),
        ("lstm", (_ones(1, 2, 3), _ones(1, 2), _ones(1, 2), _ones(3, 6), _ones(2, 8)), {}, "long short-term"),
        ("rnn_cell", (_ones(1, 3), _ones(1, 2), _ones(3, 2), _ones(2, 2)), {"activation": "x"}, "'tanh' or 'relu'"),
        ("rnn_cell", (_ones(2, 2, 3), _ones(2, 2), _ones(3, 2), _ones(2, 2)), {}, r"\(samples, inputs\)"),
        ("rnn", (_ones(1, 2, 3), _ones(1, 2), _ones(3, 2), _ones(2, 2), _ones(2, 2)), {}, r"biases \(1 \* hidden,\)"),
        ("gru_cell", (_ones(2, 3), _ones(2, 1), _ones(3, 3), _ones(1, 3), _ones(3), _ones(1)), {}, "biases"),
        ("lstm_cell", (_ones(2, 3), _ones(2, 1), _ones(2, 2), _ones(3, 4), _ones(1, 4)), {}, "states? .* are alike"),
        ("lstm", (_ones(2, 1, 3), _ones(2, 1), _ones(5, 2, 1), _ones(3, 4), _ones(1, 4)), {}, "states? .* are alike"),
        ("non_maximum_suppression", (_ones(2, 3), _ones(2)), {"count": 1}, r"boxes \(n, 4\)"),
        ("non_maximum_suppression", (_ones(2, 4), _ones(2)), {"count": 1, "overlap": 2.0}, "between 0 and 1"),
        ("box_iou", (_ones(2, 4), _ones(4)), {}, r"boxes of shape \(n, 4\)"),
        ("roi_align", (_ones(1, 2, 2, 1), _ones(2, 4), _ones(3, dtype="int64")), {"size": 2}, "image of each of 2"),
        ("roi_align", (_ones(1, 2, 2, 1), _ones(1, 4), np.zeros(1)), {"size": 2}, "said by integers"),
        ("roi_align", (_ones(1, 2, 2, 1), _ones(1, 4), np.zeros(1, int)), {"size": 2, "sampling": 0}, "at least 1"),
    ],
)  # fmt: skip
def test_refusals_say_what_is_wrong(name: str, args: Any, params: Any, words: str) -> None:
    with pytest.raises((ShapeError, DTypeError, OperatorError), match=rf"^{name}\(.*{words}.*\(at .*test_networks"):
        getattr(OPS, name)(*map(EAGER.asarray, args), **params)
