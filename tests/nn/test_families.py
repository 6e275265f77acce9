"""Every layer has one value on every engine, and can be trained (`nn/windows`, `nn/sequences`, `nn/norms`).

Its formula is the operator's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import OperatorError, ShapeError
from tests.nn.models import leaves, stacks

RNG = np.random.default_rng(0)
STACKS = stacks()
SIGNALS, IMAGES, VOLUMES, SEQUENCES = (3, 6, 4), (2, 6, 5, 4), (2, 4, 4, 3, 4), (3, 4, 8)

LAYERS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {  # layer, shapes of input and result
    "Conv1D": (nn.Conv1D(6, 3, stride=2, padding="SAME", groups=2), SIGNALS, (3, 3, 6)),
    "Conv1D, first": (nn.Conv1D(6, [3], data_format="NCW"), (3, 4, 6), (3, 6, 4)),
    "Conv2D": (nn.Conv2D(3, (2, 3), dilation=(2, 1)), IMAGES, (2, 4, 3, 3)),
    "Conv3D": (nn.Conv3D(2, 2, biased=False), VOLUMES, (2, 3, 3, 2, 2)),
    "ConvTranspose1D": (nn.ConvTranspose1D(2, 3, stride=2, output_padding=1), SIGNALS, (3, 14, 2)),
    "ConvTranspose2D": (nn.ConvTranspose2D(6, 2, stride=2, groups=2), IMAGES, (2, 12, 10, 6)),
    "ConvTranspose3D": (nn.ConvTranspose3D(2, 2, padding="SAME", stride=2), VOLUMES, (2, 8, 8, 6, 2)),
    "MaxPool1D": (nn.MaxPool1D(2), SIGNALS, (3, 3, 4)),
    "MaxPool3D": (nn.MaxPool3D(2, stride=1), VOLUMES, (2, 3, 3, 2, 4)),
    "AveragePool1D": (nn.AveragePool1D(3, padding="SAME", count_padding=True), SIGNALS, (3, 2, 4)),
    "AveragePool3D": (nn.AveragePool3D((2, 2, 3)), VOLUMES, (2, 2, 2, 1, 4)),
    "GlobalMaxPool": (nn.GlobalMaxPool(), IMAGES, (2, 4)),
    "GlobalAveragePool": (nn.GlobalAveragePool(keepdims=True), VOLUMES, (2, 1, 1, 1, 4)),
    "Resize": (nn.Resize(scale=[2, 1], method="linear"), IMAGES, (2, 12, 5, 4)),
    "LayerNorm": (nn.LayerNorm(axis=(-2, -1)), IMAGES, IMAGES),
    "RMSNorm": (nn.RMSNorm(), SEQUENCES, SEQUENCES),
    "GroupNorm": (nn.GroupNorm(2), IMAGES, IMAGES),
    "InstanceNorm": (nn.InstanceNorm(), IMAGES, IMAGES),
    "MultiHeadAttention": (nn.MultiHeadAttention(4, key_heads=2, causal=True), SEQUENCES, SEQUENCES),
    "Positions": (nn.Positions(7), SEQUENCES, SEQUENCES),
    "Residual": (nn.Residual(nn.Dense(3), nn.Dense(3, biased=False)), SEQUENCES, (3, 4, 3)),
    "Concatenate": (nn.Concatenate(None, nn.Dense(3), nn.tanh), SEQUENCES, (3, 4, 19)),
    "Concatenate, first": (nn.Concatenate(None, nn.relu6, axis=1), SEQUENCES, (3, 8, 8)),
    "transformer_block": (nn.transformer_block(8, 2, causal=True), SEQUENCES, SEQUENCES),
    "transformer_block, last": (nn.transformer_block(8, 4, 6, norm_first=False), SEQUENCES, SEQUENCES),
    "RNN": (nn.RNN(5), SEQUENCES, (3, 4, 5)),
    "LSTM": (nn.LSTM(5, sequences=False), SEQUENCES, (3, 5)),
    "GRU": (nn.GRU(5), SEQUENCES, (3, 4, 5)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_has_one_value_and_one_gradient_on_every_engine(name: str) -> None:
    layer, given, wanted = LAYERS[name]
    model = layer.init(1, (None, *given[1:]))
    x = RNG.normal(size=given).astype("float32")
    found = {}
    for each, stack in STACKS.items():
        y = model(stack.asarray(x))
        assert y.shape == wanted
        assert y.dtype == np.float32
        gradient = stack.grad(lambda m, s=stack: s.ops.sum(s.ops.square(m(s.asarray(x)))))(model)
        found[each] = [y.numpy(), *leaves(gradient)]
    for values in found.values():
        for one, other in zip(values, found["eager"], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    trained = zip(leaves(model), found["eager"][1:], strict=True)
    assert all(np.isfinite(g).all() and g.any() and g.shape == p.shape for p, g in trained)


def test_layers_say_what_they_do_not_take() -> None:
    for kind, words, wrongly in [
        (ShapeError, "rank 3, NWC", lambda: nn.Conv1D(2, 3).init(0, (None, 4))),
        (ShapeError, "not evenly", lambda: nn.ConvTranspose2D(3, 2, groups=2).init(0, IMAGES)),
        (ShapeError, "not evenly", lambda: nn.MultiHeadAttention(3).init(0, SEQUENCES)),
        (ShapeError, r"sequences \(samples, steps, inputs\)", lambda: nn.LSTM(3).init(0, (None, 3))),
        (OperatorError, "applied to integers", lambda: nn.Embedding(4, 3).init(0, (None, 3))),
        (ShapeError, "a triple", lambda: nn.Conv3D(2, (1, 2)).init(0, VOLUMES)),
    ]:
        with pytest.raises(kind, match=words):
            wrongly()


def test_an_embedding_is_trained_by_the_rows_it_gave(stack: Any) -> None:
    model = nn.Embedding(5, 3).init(0, (None, 4), "int64")
    at = np.array([[0, 2, 2, 4]])
    np.testing.assert_array_equal(model(stack.asarray(at)).numpy(), model.weight[at])
    gradient = stack.grad(lambda m: stack.ops.sum(m(stack.asarray(at))))(model)
    np.testing.assert_array_equal(gradient.weight.numpy()[:, 0], [1, 0, 2, 0, 1])


def test_attention_attends_to_another_source_by_a_mask(stack: Any) -> None:
    model = nn.MultiHeadAttention(2).init(0, SEQUENCES)
    x, source = (RNG.normal(size=s).astype("float32") for s in (SEQUENCES, (3, 6, 8)))
    mask = np.zeros((1, 1, 1, 6), bool)
    mask[..., :2] = True
    found = model.attend(stack.asarray(x), stack.asarray(source), stack.asarray(mask)).numpy()
    few = model.attend(stack.asarray(x), stack.asarray(source[:, :2])).numpy()
    np.testing.assert_allclose(found, few, rtol=1e-4, atol=1e-5)


def test_attention_drops_in_training_only() -> None:
    stack = nnc.eager()
    model = nn.MultiHeadAttention(2, dropout=0.5).init(0, SEQUENCES)
    x = stack.asarray(RNG.normal(size=SEQUENCES).astype("float32"))
    trained, _ = nn.apply(model, x, stack.asarray(nn.key_of(1)))
    assert not np.allclose(trained.numpy(), model(x).numpy())


def test_a_recurrent_layer_goes_on_from_other_states(stack: Any) -> None:
    model = nn.LSTM(4).init(0, SEQUENCES)
    x = RNG.normal(size=SEQUENCES).astype("float32")
    whole = model(stack.asarray(x)).numpy()
    zero = stack.asarray(np.zeros((3, 4), "float32"))
    first, h, c = model.run(stack.asarray(x[:, :1]), zero, zero)
    rest, *_ = model.run(stack.asarray(x[:, 1:]), h, c)
    np.testing.assert_allclose(np.concatenate([first.numpy(), rest.numpy()], 1), whole, rtol=1e-5, atol=1e-6)


def test_batch_norm_of_a_large_mean_keeps_the_deviation(stack: Any) -> None:
    x = (RNG.normal(size=(64, 3)) + 4096).astype("float32")
    y, _ = nn.apply(nn.BatchNorm().init(0, (None, 3)), stack.asarray(x))
    np.testing.assert_allclose(y.numpy().std(0), 1, atol=1e-3)
    np.testing.assert_allclose(y.numpy().mean(0), 0, atol=2e-3)
