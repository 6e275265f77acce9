"""Strict equals NumPy over the whole catalogue, and refuses what the array API standard lacks (`device/strict`)."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import DeviceError, RunError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op, operator
from nnc_func.testing.laws import equal, results
from nnc_func.testing.samples import arguments
from tests.nn.models import images, leaves, small_cnn

EXAMPLES = max(5, settings.default.max_examples // 5) if settings.default else 5


def is_standard(found: Any) -> bool:
    """Whether the standard has these dtypes: it lacks float16."""
    arrays, params = found
    return all(np.dtype(d) != np.float16 for d in (*(a.dtype for a in arrays), params.get("dtype") or "bool"))


@pytest.mark.parametrize("op", CATALOGUE.values(), ids=CATALOGUE)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_it_equals_numpy(op: Op, data: Any) -> None:
    arrays, params = data.draw(arguments(op).filter(is_standard))
    host, strict = nnc.NumPy(), nnc.Strict(data.draw(st.sampled_from(["CPU_DEVICE", "device1"])))
    there = [strict.asarray(a) for a in arrays]
    found, wanted = results(op, strict.bind(op, *there, **params)), results(op, host.bind(op, *arrays, **params))
    for one, other in zip(found, wanted, strict=True):
        assert strict.owns(one)
        equal(strict.to_numpy(one), other, op.tolerance.ulps, f"{op} on {strict!r}")


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    derivative=NOT_DIFFERENTIABLE("a test"),
    kernels=Kernel("NumPy's", compute=lambda xp, x: xp.copy(x), namespaces=frozenset({"numpy"})),
)
def only_numpy(x: Any, /) -> Any:
    """An operator that has a kernel for NumPy only."""


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    derivative=NOT_DIFFERENTIABLE("a test"),
    kernels=reference(lambda xp, x: xp.fabs(x)),
)
def not_standard(x: Any, /) -> Any:
    """An operator whose reference kernel asks for what the standard lacks."""


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_what_the_standard_lacks_is_refused(make: Any) -> None:
    stack = make(nnc.Strict())
    stack = stack.swap(type=stack.type.with_ops(only_numpy, not_standard))
    x = stack.asarray([1.0, -2.0])
    with pytest.raises(DeviceError, match=r"only_numpy has no kernel on array_api_strict for \(float64\[2\]\)"):
        stack.bind(only_numpy, x).numpy()
    with pytest.raises(RunError, match=r"not_standard\(float64\[2\]\) failed.*fabs"):
        stack.bind(not_standard, x).numpy()
    with pytest.raises(DeviceError, match=r"Strict\(\).*float16"):
        stack.asarray(np.float16([1]))


def test_the_pretended_devices_are_known() -> None:
    with pytest.raises(DeviceError, match=r"no device 'motor'; it has: CPU_DEVICE, device1"):
        nnc.eager(nnc.Strict("motor")).asarray([1.0])


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, *_: Any) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", absent)
    stack = nnc.eager(nnc.Strict())
    with pytest.raises(DeviceError, match=r"array_api_strict.*pip install 'nnc_func\[test\]'"):
        stack.asarray([1.0])


def test_a_host_array_is_copied() -> None:
    mine = np.float64([1, 2])
    there = nnc.Strict().asarray(mine)
    mine[0] = 5
    np.testing.assert_array_equal(nnc.Strict().to_numpy(there), [1, 2])


def test_a_program_runs_interpreted_and_frees_what_is_dead() -> None:
    stack = nnc.lazy(nnc.Strict())
    x = stack.input("x", (4,), "float32")
    program = stack.compile(inputs=[x], outputs=[stack.ops.exp(x) * 2])
    assert program.plan is None
    assert "interpreted" in repr(program)
    np.testing.assert_allclose(np.asarray(program(np.ones(4, "float32"))[0]), 2 * np.exp(np.ones(4)), rtol=1e-6)


@pytest.mark.parametrize("place", ["CPU_DEVICE", "device1"])
def test_it_trains_as_numpy_does(place: str) -> None:
    """A whole step, convolutions, batch norm, dropout and all, on every engine: nothing leaves the device unasked."""
    x, y = images(8)
    trained = [
        nn.train(
            stack,
            small_cnn(dropout=0.2),
            nn.softmax_cross_entropy,
            nn.SGD(momentum=0.9),
            nn.Batches(x, y, 4),
            rate=0.01,
            steps=3,
            progress=False,
            seed=3,
        )
        for stack in (nnc.eager(), nnc.eager(nnc.Strict(place)), nnc.lazy(nnc.Strict(place)))
    ]
    for one in trained[1:]:
        np.testing.assert_allclose(one.losses, trained[0].losses, rtol=1e-4)
        for found, wanted in zip(leaves(one.model), leaves(trained[0].model), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


def test_labels_may_be_integers_beside_floating_scores() -> None:
    """Promotion is NumPy's: the standard's namespace refuses this pair."""
    stack = nnc.eager(nnc.Strict())
    found = stack.ops.softmax_cross_entropy(np.float64([[0.0, 0.0]]), np.int64([[1, 0]]))
    np.testing.assert_allclose(found.numpy(), [np.log(2)])
