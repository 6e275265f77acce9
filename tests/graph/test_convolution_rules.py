"""Convolutions and what follows them: fused, channels innermost (`graph/rules/fuse_conv`, `graph/rules/channels`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.graph.node import topological
from nnc_func.tree import flatten

LAZY = nnc.lazy()
OPS = LAZY.ops
RNG = np.random.default_rng(0)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def names(tensors: Any) -> list[str]:
    roots = LAZY.optimiser.optimise([t.value for t in tensors]).roots
    return [n.op.name for n in topological(roots) if n.args]


def image(data_format: str = "NHWC", channels: int = 16) -> Any:
    return LAZY.input("x", (1, 8, 8, channels) if data_format == "NHWC" else (1, channels, 8, 8))


def equal_to_eager(inputs: Any, outputs: Any) -> Any:
    """The program, compared with the eager engine on the graph as it was written."""
    program = LAZY.compile(inputs, outputs)
    program.plan.verify()
    given = [array(*i.shape) for i in inputs]
    eager = nnc.eager().swap(type=LAZY.type)
    leaves, structure = flatten(outputs)
    wanted = LAZY.graph.close([i.value for i in inputs], [o.value for o in leaves], (), "wanted", structure)
    for found, like in zip(program(*given), eager.engine.compile(wanted.to(eager))(*given), strict=True):
        np.testing.assert_allclose(found, like, rtol=1e-4, atol=1e-4)
    return program


def test_what_follows_a_convolution_is_done_with_it() -> None:
    x, shortcut = image(), LAZY.input("s", (1, 8, 8, 4))
    y = OPS.conv2d(x, LAZY.asarray(array(3, 3, 16, 4)), padding="SAME")
    y = OPS.relu(OPS.batch_norm(y, array(4), abs(array(4)) + 1, array(4), array(4)) + shortcut)
    assert names([y]) == ["conv2d_blockwise"]
    equal_to_eager([x, shortcut], [y])


@pytest.mark.parametrize("biased", [False, True])
def test_what_is_pooled_is_rectified_where_it_is_computed(biased: bool) -> None:
    x, b = image(), LAZY.input("b", (16,))
    kernel = LAZY.asarray(array(3, 3, 16, 16))
    y = OPS.conv2d(x, kernel) + b if biased else OPS.conv2d(x, kernel)
    pooled = OPS.max_pool2d(OPS.relu(y), window=2)
    inputs = [x, b] if biased else [x]
    assert names([pooled]) == ["conv2d_blockwise", "max_pool2d"]
    equal_to_eager(inputs, [pooled])
    assert "relu" in names([pooled, OPS.max_pool2d(y, window=2)])  # what is pooled is read by others


def test_an_operand_that_is_used_twice_joins() -> None:
    x = image()
    y = OPS.conv2d(x, LAZY.asarray(array(1, 1, 16, 4)))
    assert names([y * OPS.sigmoid(y)]) == ["conv2d_blockwise"]
    equal_to_eager([x], [y * OPS.sigmoid(y)])


def test_what_is_asked_for_or_used_elsewhere_is_not_swallowed() -> None:
    x = image()
    y = OPS.conv2d(x, LAZY.asarray(array(1, 1, 16, 4)))
    assert names([y, OPS.relu(y)]).count("conv2d_blockwise") == 0
    assert names([OPS.relu(y) + 1, OPS.sum(OPS.relu(y))]).count("conv2d_blockwise") == 1
    equal_to_eager([x], [OPS.relu(y) + 1, OPS.sum(OPS.relu(y), axis=(1, 2)), y])


def test_two_convolutions_that_are_added_are_not_one() -> None:
    x = image()
    one, two = (OPS.conv2d(x, LAZY.asarray(array(1, 1, 16, 4))) for _ in range(2))
    assert sorted(names([OPS.relu(one + two)])) == ["conv2d", "conv2d_blockwise"]
    equal_to_eager([x], [OPS.relu(one + two)])


def test_an_operand_that_depends_on_the_convolution_by_another_way_ends_the_group() -> None:
    x = image()
    y = OPS.conv2d(x, LAZY.asarray(array(1, 1, 16, 4)))
    z = (y + 1) * OPS.mean(y, axis=(1, 2), keepdims=True)
    equal_to_eager([x], [z])
    equal_to_eager([x], [OPS.relu(y) * OPS.mean(OPS.exp(OPS.relu(y)), axis=(1, 2), keepdims=True)])


@pytest.mark.parametrize("shape", [(3, 3, 2, 4), (3, 3, 1, 32)])
def test_a_convolution_that_blocks_do_not_suit_stays(shape: Any) -> None:
    groups = 16 if shape[2] == 1 else 1
    x = image(channels=16 if groups > 1 else 2)
    y = OPS.relu(OPS.conv2d(x, LAZY.asarray(array(*shape)), groups=groups))
    assert names([y]) == ["conv2d", "relu"]


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_channels_that_are_groups_are_done_in_blocks(data_format: str) -> None:
    x = y = image(data_format)
    for _ in range(9):
        y = OPS.conv2d(y, LAZY.asarray(array(3, 3, 1, 16) / 4), groups=16, padding="SAME", data_format=data_format)
        y = OPS.relu(y + 1)
    assert names([y]).count("conv2d_blockwise") == 9
    equal_to_eager([x], [y])


def test_what_is_put_together_lies_as_its_parts_do() -> None:
    x = y = image("NCHW")
    for _ in range(8):
        z = OPS.relu(OPS.conv2d(y, LAZY.asarray(array(3, 3, y.shape[1], 8) / 8), padding="SAME", data_format="NCHW"))
        y = OPS.concat(y, z, axis=1)
    assert names([y]).count("relayout") == 2
    equal_to_eager([x], [y])


# --- layout ----------------------------------------------------------------------------------------------


def network(x: Any, depth: int = 9) -> Any:
    """Residual blocks of the format NCHW."""
    for i in range(depth):
        y = OPS.conv2d(x, LAZY.asarray(array(3, 3, x.shape[1], 16) / 8), padding="SAME", data_format="NCHW")
        y = OPS.batch_norm(y, array(16), abs(array(16)) + 1, array(16), array(16), axis=1)
        x = OPS.relu(y + x) if i else y
    return OPS.max_pool2d(x, window=2, data_format="NCHW")


def test_channels_lie_innermost_from_the_first_convolution_to_the_last() -> None:
    x = image("NCHW")
    y = network(x)
    found = names([y])
    assert found.count("relayout") == 2
    assert found.count("conv2d_blockwise") == 9
    program = equal_to_eager([x], [y, OPS.mean(y, axis=(2, 3)), OPS.reshape(y, shape=(-1, 4))])
    kernels = {i.kernel for i in program.plan.instructions if i.op.name.startswith(("conv2d", "max_pool"))}
    assert kernels == {"rows of windows", "axis by axis, reordered"}
    assert program.graph.outputs[0].aval.layout is None


def test_blocks_are_rounded_otherwise_and_the_rule_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "spec", 2)  # both sides of every rewrite are computed
    y = LAZY.input("x", (1, 20, 7, 5))
    for _ in range(6):
        kernel = np.random.default_rng(0).standard_normal((3, 3, y.shape[1], 16)).astype("float32") / 8
        y = OPS.relu(OPS.conv2d(y, LAZY.asarray(kernel), padding="SAME", data_format="NCHW") + 1)
    assert names([y]).count("conv2d_blockwise") == 6


def test_few_convolutions_stay_as_they_are() -> None:
    x = image("NCHW")
    assert "relayout" not in names([network(x, 3)])
    apart = x
    for _ in range(5):  # between them all lies row by row
        apart = OPS.conv2d(apart, LAZY.asarray(array(1, 1, 16, 16)), data_format="NCHW")
        apart = OPS.reshape(OPS.flip(OPS.reshape(apart, shape=(16, 64)), axis=1), shape=(1, 16, 8, 8))
    assert "relayout" not in names([apart])
    equal_to_eager([x], [apart])


def test_images_of_the_other_format_and_other_kernels_stay() -> None:
    x = LAZY.input("x", (1, 2, 8, 8), "int32")
    y = x
    for _ in range(6):
        y = OPS.conv2d(y, LAZY.asarray(np.ones((3, 3, 2, 2), "int32")), padding="SAME", data_format="NCHW")
    found = names([y])
    assert found.count("conv2d") == 6
    assert np.array_equal(LAZY.compile([x], y)(np.ones((1, 2, 8, 8), "int32")).shape, (1, 2, 8, 8))


def test_transposed_convolutions_have_channels_innermost_with_their_neighbours() -> None:
    x = y = image("NCHW")
    for _ in range(5):
        y = OPS.conv2d(y, LAZY.asarray(array(3, 3, 16, 16) / 8), padding="SAME", data_format="NCHW")
    y = OPS.conv_transpose2d(y, LAZY.asarray(array(2, 2, 16, 16)), stride=2, data_format="NCHW")
    y = OPS.conv2d(y, LAZY.asarray(array(3, 3, 16, 16) / 8), padding="SAME", data_format="NCHW")
    cpu = nnc.lazy(nnc.CPU())
    graph = LAZY.graph.close([x.value], [OPS.relu(y).value]).to(cpu)
    found = cpu.engine.compile(graph)
    assert [i.op.name for i in found.plan.instructions].count("relayout") == 2
    given = array(*x.shape)
    np.testing.assert_allclose(found(given), LAZY.compile([x], OPS.relu(y))(given), rtol=1e-4, atol=1e-3)
