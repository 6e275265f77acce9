"""Layers, losses and updates take arrays and lists beside tensors, or refuse them in words (`nn/inputs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.nn.inputs import in_tensors
from nnc_func.tree import flatten

STACKS = pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
RNG = np.random.default_rng(0)
SCORES, LABELS = RNG.normal(size=(3, 4)), np.array([0, 3, 1])
PARTS = np.abs(SCORES) / np.abs(SCORES).sum(axis=1, keepdims=True)
LOSSES: list[tuple[Callable[..., Any], np.ndarray]] = [
    (nn.softmax_cross_entropy, LABELS), (nn.softmax_cross_entropy, PARTS), (nn.quadratic, PARTS),
    (nn.sigmoid_binary_cross_entropy, PARTS), (nn.smooth_l1, PARTS), (nn.hinge, np.sign(SCORES)), (nn.accuracy, LABELS),
    (nn.accuracy, PARTS),
]  # fmt: skip


@STACKS
@pytest.mark.parametrize(("loss", "targets"), LOSSES)
def test_losses_of_arrays_and_lists(make: Any, loss: Any, targets: np.ndarray) -> None:
    stack = make()
    scores = stack.asarray(SCORES)
    wanted = loss(scores, stack.asarray(targets)).numpy()
    for first, second in ((scores, targets), (scores, targets.tolist()), (SCORES, stack.asarray(targets))):
        np.testing.assert_array_equal(loss(first, second).numpy(), wanted)
    for first, second in ((SCORES, targets), (SCORES.tolist(), None)):
        with pytest.raises(OperatorError, match=r"takes tensors, given .*make them with stack\.asarray"):
            loss(first, second)
    for wrong in (None, "abc"):
        with pytest.raises(OperatorError, match=r"takes tensors, given .* \(at test_arrays.py:\d+ in test_losses"):
            loss(scores, wrong)


@STACKS
def test_class_numbers_of_an_array_are_looked_at(make: Any) -> None:
    with pytest.raises(ShapeError, match="class numbers of 4 classes are 0 to 3, given 0 to 9"):
        nn.softmax_cross_entropy(nnc.eager().asarray(SCORES), [0, 9, 1])
    with pytest.raises(ShapeError, match=r"class numbers for logits \(3, 4\) have shape \(3,\), given \(2,\)"):
        nn.accuracy(make().asarray(SCORES), [0, 1])


MODULES = {
    "dense": (nn.Dense(2), (None, 4), (3, 4)),
    "batch norm": (nn.BatchNorm(), (None, 4), (3, 4)),
    "layer norm": (nn.LayerNorm(), (None, 4), (3, 4)),
    "GRU": (nn.GRU(4), (None, 5, 3), (2, 5, 3)),
    "attention": (nn.MultiHeadAttention(1), (None, 5, 3), (2, 5, 3)),
    "several": (nn.Sequential(nn.Dense(3), nn.LayerNorm()), (None, 4), (2, 4)),
}


@STACKS
@pytest.mark.parametrize("name", MODULES)
def test_modules_of_tensors_take_arrays_and_lists(make: Any, name: str) -> None:
    module, shape, given = MODULES[name]
    stack, x = make(), RNG.normal(size=given).astype("float32")
    made = module.init(0, shape)
    wanted = made(stack.asarray(x)).numpy()
    parameters, rest, merge = nn.partition(made)
    of_tensors = merge([stack.asarray(p) for p in parameters], rest)
    np.testing.assert_array_equal(of_tensors(x).numpy(), wanted)
    np.testing.assert_allclose(of_tensors(x.tolist()).numpy(), wanted, rtol=1e-4, atol=1e-5)
    y, after = nn.apply(of_tensors, x)
    assert y.stack is stack
    assert type(after) is type(made)
    with pytest.raises(OperatorError, match=rf"{type(made).__name__}.* takes tensors, given float32\["):
        made(x)
    with pytest.raises(OperatorError, match=r"is applied in a context, .*given 'train'"):
        of_tensors(x, "train")  # type: ignore[arg-type]


@STACKS
def test_keys_are_tensors_arrays_or_integers(make: Any) -> None:
    stack, dropout = make(), nn.Dropout(0.5)
    x = stack.asarray(np.ones((20, 20)))
    wanted = nn.apply(dropout, x, stack.key(3))[0].numpy()
    for key in (3, nn.key_of(3)):
        np.testing.assert_array_equal(nn.apply(dropout, x, key)[0].numpy(), wanted)
    with pytest.raises(ShapeError, match=r"a key is uint64\[2\], given float64"):
        nn.apply(dropout, x, 0.5)
    with pytest.raises(OperatorError, match=r"draws from a key that is a tensor, given array"):
        dropout(x, nn.Context(True, nn.key_of(3)))


@STACKS
def test_lengths_are_looked_at_where_they_are_known(make: Any) -> None:
    stack = make()
    layer, x = nn.LSTM(4).init(0, (None, 5, 3)), stack.asarray(RNG.normal(size=(2, 5, 3)).astype("float32"))
    wanted = layer(x, lengths=stack.asarray([5, 2])).numpy()
    for lengths in ([5, 2], np.array([5, 2], "int32")):
        np.testing.assert_array_equal(layer(x, lengths=lengths).numpy(), wanted)
    with pytest.raises(DTypeError, match="lengths are integers, given float64"):
        layer(x, lengths=[1.5, 2.0])
    with pytest.raises(OperatorError, match="over_lengths takes tensors, given 'ab'"):
        layer(x, lengths="ab")
    for rank in (1.0, [1.0]):
        with pytest.raises(ShapeError, match=r"wants sequences \(samples, steps, inputs\), given shape"):
            layer(stack.asarray(rank))
    with pytest.raises(OperatorError, match=r"runs from 2 states \(samples, 4\), given \(4, 4\)"):
        layer.run(x, 4, 4)
    for states in ((), (np.zeros((2, 4), "float32"), None)):
        with pytest.raises(OperatorError, match=r"runs from 2 states \(samples, 4\), given"):
            layer.run(x, *states)
    for out in ([9, 2], [2, -1]):
        with pytest.raises(ShapeError, match="lengths of 5 steps at most are given as"):
            layer(nnc.eager().asarray(x.numpy()), lengths=out)


@STACKS
@pytest.mark.parametrize("update", [nn.SGD(0.9), nn.Adagrad(), nn.RMSprop(), nn.Adam()])
def test_updates_take_what_gradients_give(make: Any, update: Any) -> None:
    stack = make()
    values = [RNG.normal(size=(2, 3)), RNG.normal(size=3)]
    slopes = [RNG.normal(size=(2, 3)), RNG.normal(size=3)]
    parameters, gradients = [*map(stack.asarray, values)], [*map(stack.asarray, slopes)]
    slots = update.init(values)
    wanted = [p.numpy() for p in update(gradients, slots, parameters, 0, 0.1)[0]]
    for given in (tuple(gradients), slopes, tuple(slopes)):
        for found, right in zip(update(given, slots, parameters, 0, 0.1)[0], wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), right, rtol=1e-12)
    tree = {"w": parameters[0], "b": [parameters[1]]}
    found = update(tuple(gradients[::-1]), update.init(tree), tree, 0, 0.1)[0]
    np.testing.assert_allclose(found["w"].numpy(), wanted[0], rtol=1e-12)
    with pytest.raises(OperatorError, match="takes tensors, given"):
        update(slopes, slots, values, 0, 0.1)
    with pytest.raises(OperatorError, match="given 1 gradients for 2 parameters, nested as"):
        update(gradients[:1], slots, parameters, 0, 0.1)


@pytest.mark.parametrize("kind", [nn.Step, nn.ImmediateStep])
def test_steps_take_lists(kind: Any) -> None:
    def losses(x: Any, y: Any) -> list[float]:
        step = kind(nnc.lazy(), nn.Dense(1).init(0, (None, 2)), nn.quadratic, nn.SGD())
        return [float(step(x, y, rate=0.1)[0]) for _ in range(2)]

    def array(rows: Any) -> np.ndarray:
        return np.array(rows, "float32")

    assert losses([[1.0, 2.0]], [[1.0]]) == losses(array([[1.0, 2.0]]), array([[1.0]]))
    for wrong, error, words in (([[1.0, 2.0], [1.0]], ShapeError, "one length"), ("ab", OperatorError, "given 'ab'")):
        with pytest.raises(error, match=words):
            losses(wrong, [[1.0]])


@nn.module
class Sum(nn.Module):
    """Of several inputs, in a tree."""

    dense: nn.Module

    def forward(self, x: Any, context: Any = None) -> Any:
        return self.dense(x["left"], context) + x["right"][0]


@pytest.mark.parametrize("kind", [nn.Step, nn.ImmediateStep])
def test_lists_within_trees_are_arrays(kind: Any) -> None:
    model = Sum(nn.Dense(1)).init(0, {"left": (None, 2), "right": ((None, 1),)})
    left, right, target = [[1.0, 2.0]], [[3.0]], [[1.0]]

    def loss(*given: Any) -> float:
        x = {"left": given[0], "right": (given[1],)}
        return float(kind(nnc.lazy(), model, nn.quadratic, nn.SGD())(x, given[2], rate=0.1)[0])

    arrays = [np.array(each, "float32") for each in (left, right, target)]
    assert loss(left, right, target) == loss(*arrays) == loss(arrays[0], right, target)


@attrs.frozen
class Pair:
    """A tree of a user's own."""

    is_tree = True
    left: Any
    right: Any


@STACKS
def test_arrays_beside_tensors_in_any_tree(make: Any) -> None:
    stack = make()
    x, y = np.ones((2, 3), "float32"), stack.asarray(np.ones((2, 3), "float32"))
    for given in (Pair(x, y), (x, y), {"left": x, "right": y}, [x, y]):
        leaves = flatten(in_tensors("a module", given))[0]
        assert [each.stack is stack and each.dtype == "float32" for each in leaves] == [True, True]
    deep: Any = x
    for _ in range(3000):
        deep = (deep,)
    assert flatten(in_tensors("a module", (deep, y)))[0][0].shape == (2, 3)
    for wrong in (None, 3, "x", (), [], {}, np.mean, (1.0, None)):
        with pytest.raises(OperatorError, match="a module takes tensors, given"):
            in_tensors("a module", wrong, y)


def test_statistics_keep_their_dtype() -> None:
    stack = nnc.eager()
    norm = nn.BatchNorm().init(0, (None, 3))
    _, after = nn.apply(norm, stack.asarray(np.ones((4, 3), "float64")))
    assert (after.mean.dtype, after.variance.dtype) == (np.float32, np.float32)
    step = nn.Step(nnc.lazy(), norm, nn.quadratic, nn.SGD())
    step(np.ones((4, 3)), np.ones((4, 3)), rate=0.1)
    assert step.state.model.mean.dtype == np.float32


@pytest.mark.parametrize("update", [nn.SGD(), nn.Adam()])
def test_rates_and_slots_are_looked_at(update: Any) -> None:
    p = {"w": nnc.eager().asarray(np.ones(3, "float32"))}
    slots = update.init(p)
    for more in ({"rate": [0.1]}, {"rate": None}, {"step": "a"}, {"rate": np.ones(2)}):
        with pytest.raises(OperatorError, match=r"takes a (rate|step) that is one number, given"):
            update(p, slots, p, **{"step": 0, "rate": 0.1, **more})
    for wrong in (None, {"mean": {}, "squares": {}}, {"mean": slots}):
        with pytest.raises(OperatorError, match="made by init"):
            update(p, wrong, p, 0, 0.1)


@STACKS
def test_what_takes_one_tensor_takes_a_list_of_several_and_no_other_tree(make: Any) -> None:
    """It had been a bare AttributeError."""
    stack = make()
    row = stack.asarray(RNG.normal(size=2))
    x = stack.asarray(np.stack([row.numpy()] * 2))
    for call in (
        nn.LayerNorm().init(0, (None, 2)), nn.Dense(3).init(0, (None, 2)), nn.relu, nn.softmax,
        nn.Sequential(nn.Dense(3), nn.relu).init(0, (None, 2)), lambda tree: nn.quadratic(tree, x),
        lambda tree: nn.quadratic(x, tree),
    ):  # fmt: skip
        wanted = call(x).numpy()
        for rows in ([row, row], (row, row), [row, [row[0], row[1]]]):
            np.testing.assert_array_equal(call(rows).numpy(), wanted)
        for tree in ({"a": row, "b": row}, Pair(row, row)):
            with pytest.raises(OperatorError, match=r"takes one tensor, given a (dict|Pair) of 2 .*test_arrays"):
                call(tree)


def test_a_layer_with_a_forward_of_its_own_may_take_a_tree() -> None:
    @nn.module
    class Joined(nn.Flatten):
        def forward(self, x: Any, context: Any = None) -> Any:
            return nn.Flatten.forward(self, x["a"] + x["b"], context)

    x = nnc.eager().asarray(np.ones((4, 2, 3)))
    assert Joined()({"a": x, "b": x}).shape == (4, 6)
    with pytest.raises(OperatorError, match="takes one tensor"):
        nn.Flatten()({"a": x, "b": x})


@STACKS
def test_an_update_of_narrow_parameters_is_computed_as_wide_as_its_gradients(make: Any) -> None:
    stack = make()
    for update in (nn.Adam(), nn.RMSprop(), nn.SGD(momentum=0.9)):
        for size in (1e-4, 1e5):
            p = [stack.asarray([1.0, 2.0], dtype="float16")]
            slots, g = update.init(p), [stack.asarray([size] * 2, dtype="float32")]
            for step in range(2):
                p, slots = update(g, slots, p, step, 1e-6)
            assert p[0].dtype == np.float16
            assert np.isfinite(p[0].numpy()).all()


def test_extents_of_a_gradient_may_be_known_later() -> None:
    lazy = nnc.lazy()
    p, g = lazy.input("p", ("n",), "float32"), lazy.input("g", ("m",), "float32")
    (new,), _ = nn.SGD()([g], {}, [p], 0, 0.5)
    found = lazy.compile([p, g], new)(np.ones(3, "float32"), np.full(3, 2, "float32"))
    np.testing.assert_array_equal(found, np.zeros(3))


@STACKS
def test_updates_take_one_real_number_and_gradients_like_the_parameters(make: Any) -> None:
    stack = make()
    w, sgd = stack.asarray([1.0, 2.0]), nn.SGD()
    for rate in (np.datetime64("2020"), np.complex64(1j), 1j, np.str_("a"), np.array("a"), [0.1], np.ones(1)):
        with pytest.raises(OperatorError, match=r"a rate that is one number, given .*test_arrays"):
            sgd([w], {}, [w], 0, rate)
    adam = nn.Adam()
    for step in (-1, -1.5, np.array(-1)):
        with pytest.raises(OperatorError, match=r"counts steps from 0 on, given"):
            adam([w], adam.init([np.ones(2)]), [w], step, 0.1)
    with pytest.raises(ShapeError, match=r"a gradient of the parameter's shape \(2,\), given \(\)"):
        sgd([stack.asarray(1.0)], {}, [w], 0, 0.1)
    with pytest.raises(ShapeError, match=r"slots of the parameter's shape \(\), given \(3,\)"):
        nn.SGD(momentum=0.9)([stack.asarray(1.0)], {"velocity": [np.ones(3)]}, [stack.asarray(1.0)], 0, 0.1)
    with pytest.raises(DTypeError, match="the gradient of a real parameter real"):
        sgd([stack.asarray([1j, 1j])], {}, [w], 0, 0.1)
    for rate in (0.5, np.float32(0.5), np.array(0.5), stack.asarray(0.5)):
        (found,), _ = sgd([w], {}, [stack.asarray([1.0, 2.0], dtype="float32")], 0, rate)
        assert found.dtype == np.float32  # as it was, beside a wider gradient
        np.testing.assert_array_equal(found.numpy(), [0.5, 1.0])


@STACKS
def test_statistics_of_a_model_of_arrays_keep_their_dtype(make: Any) -> None:
    """NumPy's bfloat16 beside a number is float32."""
    model = nn.BatchNorm().init(0, (None, 3), "bfloat16")
    x = make().asarray(np.ones((4, 3)), dtype="bfloat16")
    _, after = nn.apply(model, x)
    assert (after.mean.dtype, after.variance.dtype) == (x.dtype, x.dtype)
