"""Layers compute their formulas on every engine; applying a module never changes it (`nn/layers`, `nn/modules`)."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import NncError, OperatorError, ShapeError
from tests.nn.models import leaves, same, small_cnn, stacks

GENERATOR = np.random.default_rng(0)
STACKS = pytest.mark.parametrize("stack", stacks().values(), ids=stacks())


def _noise(*shape: int) -> Any:
    return GENERATOR.normal(size=shape).astype("float32")


def _close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)


# --- formulas --------------------------------------------------------------------------------------------


@STACKS
def test_dense_is_a_product_and_a_bias(stack: Any) -> None:
    layer = nn.Dense(4).init(1, (None, 3)).replaced(bias=_noise(4))
    x = _noise(5, 3)
    _close(layer(stack.asarray(x)), x @ layer.weight + layer.bias)
    bare = nn.Dense(4, biased=False).init(1, (None, 3))
    _close(bare(stack.asarray(x)), x @ bare.weight)


@STACKS
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_conv2d_sums_over_windows(stack: Any, data_format: str) -> None:
    x = _noise(2, 5, 6, 3)
    given = x if data_format == "NHWC" else x.transpose(0, 3, 1, 2)
    layer = nn.Conv2D(4, (3, 2), data_format=data_format).init(1, (None, *given.shape[1:])).replaced(bias=_noise(4))
    wanted = np.zeros((2, 3, 5, 4), "float32") + layer.bias
    for i in range(3):
        for j in range(5):
            wanted[:, i, j] += np.einsum("nhwc,hwco->no", x[:, i : i + 3, j : j + 2], layer.weight)
    _close(layer(stack.asarray(given)), wanted if data_format == "NHWC" else wanted.transpose(0, 3, 1, 2))


@STACKS
def test_pooling_takes_the_largest_or_the_mean_of_windows(stack: Any) -> None:
    x = _noise(2, 4, 6, 3)
    windows = x.reshape(2, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5)
    _close(nn.MaxPool2D(2)(stack.asarray(x)), windows.max(axis=(3, 4)))
    _close(nn.AveragePool2D(2)(stack.asarray(x)), windows.mean(axis=(3, 4)))


@STACKS
def test_flatten_and_functions(stack: Any) -> None:
    x = _noise(2, 3, 4)
    model = nn.Sequential(nn.Flatten(), nn.relu, lambda t: t * 2)
    _close(model(stack.asarray(x)), np.maximum(x.reshape(2, 12), 0) * 2)


@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (nn.relu, lambda x: np.maximum(x, 0)),
        (nn.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
        (nn.tanh, np.tanh),
        (nn.softplus, lambda x: np.log1p(np.exp(x))),
        (nn.silu, lambda x: x / (1 + np.exp(-x))),
        (nn.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        (nn.log_softmax, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_activations(stack: Any, function: Any, formula: Any) -> None:
    x = _noise(3, 4)
    _close(function(stack.asarray(x)), formula(x))


# --- normalisation ---------------------------------------------------------------------------------------


@STACKS
@pytest.mark.parametrize("axis", [-1, 1])
def test_batch_norm_in_training_normalises_by_the_batch(stack: Any, axis: int) -> None:
    x = _noise(4, 3, 5, 3) * 3 + 1
    layer = nn.BatchNorm(axis=axis).init(0, (None, 3, 5, 3)).replaced(scale=_noise(3), offset=_noise(3))
    axes = tuple(i for i in range(4) if i != axis % 4)
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    shape = mean.shape
    wanted = (x - mean) / np.sqrt(variance + 1e-5) * layer.scale.reshape(shape) + layer.offset.reshape(shape)
    y, after = nn.apply(layer, stack.asarray(x))
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-4, atol=1e-5)
    _close(after.mean, 0.1 * mean.reshape(3))
    _close(after.variance, 0.9 + 0.1 * variance.reshape(3))
    assert (layer.mean == 0).all(), "applying a module changed it"


@STACKS
def test_batch_norm_in_inference_uses_running_statistics(stack: Any) -> None:
    x = _noise(4, 3)
    layer = nn.BatchNorm().init(0, (None, 3)).replaced(mean=_noise(3), variance=np.abs(_noise(3)) + 1)
    _close(layer(stack.asarray(x)), (x - layer.mean) / np.sqrt(layer.variance + 1e-5))


def test_a_module_that_is_applied_twice_goes_on_from_its_own_state(stack: Any) -> None:
    @nn.module
    class Twice(nn.Module):
        norm: nn.Module

        def forward(self, x: Any, context: Any = None) -> Any:
            return self.norm(self.norm(x, context) + 10, context)

    x = stack.asarray(np.float32([[1], [3]]))
    _, after = nn.apply(Twice(nn.BatchNorm(momentum=0.5)).init(0, (None, 1)), x)
    _close(after.norm.mean, [(0 + 2) / 2 * 0.5 + 10 * 0.5])


# --- dropout ---------------------------------------------------------------------------------------------


def test_dropout_is_off_in_inference(stack: Any) -> None:
    x = _noise(4, 5)
    assert (nn.Dropout(0.9)(stack.asarray(x)).numpy() == x).all()


def test_dropout_drops_the_same_elements_on_all_stacks() -> None:
    x = np.ones((50, 40), "float32")
    found = []
    for stack in stacks().values():
        y, _ = nn.apply(nn.Sequential(nn.Dropout(0.25), nn.Dropout(0.5)), stack.asarray(x), stack.asarray(nn.key_of(9)))
        found.append(y.numpy())
    assert all((found[0] == each).all() for each in found)
    assert set(np.unique(found[0])) == {0, np.float32(1 / 0.75) * 2}
    assert abs((found[0] == 0).mean() - 0.625) < 0.03, "two layers draw from different keys"


def test_dropout_says_what_it_lacks(stack: Any) -> None:
    with pytest.raises(OperatorError, match="key"):
        nn.apply(nn.Dropout(0.5), stack.asarray(_noise(2)))
    with pytest.raises(OperatorError, match="probability"):
        nn.Dropout(1.0)(stack.asarray(_noise(2)))


# --- making ----------------------------------------------------------------------------------------------


def test_equal_seeds_give_equal_bits_and_others_do_not() -> None:
    model = nn.Sequential(nn.Dense(3), nn.Dense(3))
    one, two = model.init(1, (None, 3)), model.init(1, (None, 3))
    assert same(one, two)
    assert not same(one, model.init(2, (None, 3)))
    assert (one[0].weight != one[1].weight).all(), "two layers are made of different keys"
    assert model[0].weight is None, "init changed the module"


def test_one_object_at_two_places_is_two_modules() -> None:
    dense = nn.Dense(4)
    model = nn.Sequential(dense, dense).init(0, (None, 3))
    assert [layer.weight.shape for layer in model.layers] == [(3, 4), (4, 4)]


@pytest.mark.parametrize("shape", [(300, 200), (5, 5, 30, 40)])
@pytest.mark.parametrize(
    ("initialiser", "variance"),
    [
        (nn.glorot_uniform, lambda i, o: 2 / (i + o)),
        (nn.glorot_normal, lambda i, o: 2 / (i + o)),
        (nn.he_normal, lambda i, o: 2 / i),
        (nn.lecun_normal, lambda i, o: 1 / i),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_initialisers_have_their_variance(shape: Any, initialiser: Any, variance: Any) -> None:
    window = int(np.prod(shape[:-2]))
    found = initialiser(nn.key_of(3), shape, "float32")
    wanted = variance(window * shape[-2], window * shape[-1])
    assert found.dtype == np.float32
    assert abs(found.mean()) < 0.02 * wanted**0.5 + 1e-4
    assert found.var() == pytest.approx(wanted, rel=0.05)


def test_an_initialiser_and_a_dtype_may_be_chosen() -> None:
    model = nn.Dense(2, initialiser=nn.Constant(0.5)).init(0, (None, 3), "float64")
    assert model.weight.dtype == model.bias.dtype == np.float64
    assert (model.weight == 0.5).all()


# --- trees -----------------------------------------------------------------------------------------------


@nn.module
class Nested(nn.Module):
    """Modules in a list, a tuple, a dict and an attrs class, and a bare array."""

    listed: Any
    named: Any
    scale: Any
    power: int = nn.static(2)

    def forward(self, x: Any, context: Any = None) -> Any:
        """All of them, one after the other."""
        for each in (*self.listed, self.named["a"], self.named["b"][0]):
            x = each(x, context)
        return x * self.scale**self.power


def test_modules_nest_in_lists_tuples_dicts_and_classes(stack: Any) -> None:
    made = Nested([nn.Dense(3), nn.BatchNorm()], {"b": (nn.Dense(2),), "a": nn.Activation(nn.relu)}, np.float32(2))
    model = made.init(0, (None, 4))
    names = dict(nn.described(model))
    assert names["listed.0.weight"] == names["named.b.0.bias"] == names["scale"] == "parameter"
    assert names["listed.1.mean"] == "state"
    y, after = nn.apply(model, stack.asarray(_noise(5, 4)))
    assert y.shape == (5, 2)
    assert after.power == 2
    assert not same(after, model)


def test_partition_and_merge_are_inverse() -> None:
    model = small_cnn()
    parameters, rest, merge = nn.partition(model)
    assert len(rest) == 2
    assert same(merge(parameters, rest), model)
    assert nn.count(model) == sum(p.size for p in parameters)


def test_modules_are_frozen_and_print() -> None:
    model = nn.Dense(2)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        model.outputs = 3  # type: ignore[misc]
    assert repr(nn.Sequential(model, nn.relu)) == "Sequential(Dense(outputs=2), Activation(function=relu))"


def test_gradients_are_trees_like_the_model(stack: Any) -> None:
    model = nn.Dense(2).init(0, (None, 3))
    gradient = stack.grad(lambda m: m(stack.asarray(np.ones((1, 3), "float32"))).sum())(model)
    assert isinstance(gradient, nn.Dense)
    assert (gradient.weight.numpy() == 1).all()
    assert [x.shape for x in leaves(gradient)] == [(3, 2), (2,)]


# --- errors ----------------------------------------------------------------------------------------------


def test_errors_have_words(stack: Any) -> None:
    x = stack.asarray(_noise(2, 3))
    wrong: list[tuple[type[NncError], str, Any]] = [
        (OperatorError, "init", lambda: nn.Dense(2)(x)),
        (ShapeError, "rank 4", lambda: nn.Conv2D(2, 3).init(0, (None, 3))),
        (ShapeError, "extent of axis -1", lambda: nn.Dense(2).init(0, (3, None))),
        (ShapeError, "groups", lambda: nn.Conv2D(2, 3, groups=2).init(0, (None, 8, 8, 3))),
        (NncError, "matmul", lambda: nn.Dense(2).init(0, (None, 4))(x)),
        (OperatorError, "no field", lambda: nn.Dense(2).replaced(wieght=1)),
        (OperatorError, "modules and functions", lambda: nn.Sequential(3)),
        (ShapeError, "uint64", lambda: nn.key_of([1.0])),
        (ShapeError, "two axes", lambda: nn.glorot_uniform(nn.key_of(0), (3,), "float32")),
        (OperatorError, "subclass", lambda: nn.module(type("Loose", (), {}))),
        (OperatorError, "forward", lambda: nn.module(type("Silent", (nn.Module,), {}))),
    ]
    for kind, words, wrongly in wrong:
        with pytest.raises(kind, match=words):
            wrongly()


def test_a_lazy_stack_needs_no_model_of_its_own() -> None:
    model, x = small_cnn(), _noise(2, 6, 6, 1)
    one, two = (model(stack.asarray(x)).numpy() for stack in (nnc.eager(), nnc.lazy()))
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
