"""Libraries that know nothing of this one work on its tensors, because they know the standard (`array_api`)."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import ShapeError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
BOTH = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
M = np.array([[1.0, -2.5, 3.0], [0.5, 4.0, -1.0]])

SCIPY = """
import numpy as np
import scipy.special, scipy.stats
import nnc_func as nnc
m = np.array([[1.0, -2.5, 3.0], [0.5, 4.0, -1.0]])
for stack in (nnc.eager(), nnc.lazy()):
    x = stack.asarray(m)
    for ours, theirs in [
        (scipy.special.logsumexp(x), scipy.special.logsumexp(m)),
        (scipy.special.logsumexp(x, axis=1), scipy.special.logsumexp(m, axis=1)),
        (scipy.special.logsumexp(x, axis=0, b=x * x), scipy.special.logsumexp(m, axis=0, b=m * m)),
        (scipy.stats.zscore(x), scipy.stats.zscore(m)),
        (scipy.stats.zscore(x, axis=1, ddof=1), scipy.stats.zscore(m, axis=1, ddof=1)),
    ]:
        assert type(ours) is nnc.Tensor and ours.stack == stack, type(ours)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12)
print("well")
"""


def test_scipy() -> None:
    """In a process of its own: SciPy asks for the standard once, when it is imported."""
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(Path(nnc.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", SCIPY], env=environment, capture_output=True, text=True)
    assert done.stdout == "well\n", done.stderr


@BOTH
def test_array_api_compat(stack: nnc.Stack) -> None:
    x = stack.asarray(M)
    assert array_api_compat.is_array_api_obj(x)
    assert array_api_compat.array_namespace(x, x + 1, 2.0) is stack.array_api
    assert array_api_compat.device(x) == "cpu"
    assert array_api_compat.to_device(x, "cpu") is x
    assert array_api_compat.size(x) == 6
    assert not array_api_compat.is_lazy_array(x)
    with pytest.raises(TypeError, match="Multiple namespaces"):
        array_api_compat.array_namespace(x, M)


def test_array_api_compat_knows_what_has_no_value() -> None:
    x = STACKS["lazy"].input("x", (2, 3))
    assert array_api_compat.is_lazy_array(x)


@BOTH
def test_unknown_extents_are_seen_by_who_asks_for_none(stack: nnc.Stack) -> None:
    for x in (stack.input("x", (None, 3)), stack.input("y", ("n", 3)) * 2):
        assert None in x.shape
        assert (x.shape.count(None), x.shape.count(3)) == (1, 1)
        assert array_api_compat.size(x) is None
        assert stack.ops.reshape(x, shape=(3, x.shape[0])).shape == (3, x.shape[0])
        assert pickle.loads(pickle.dumps(stack.input("y", ("n", 3)).shape)).count(None) == 1
        with pytest.raises(ShapeError, match="is not known yet; bind the input first"):
            x.shape[0] > 2  # noqa: B015 - comparing is what raises
    known = stack.input("z", (2, 3))
    assert None not in known.shape
    assert array_api_compat.size(known) == 6


@BOTH
@pytest.mark.parametrize("module", ["einops", "einops.array_api"])
def test_einops(stack: nnc.Stack, module: str) -> None:
    import einops

    ours = importlib.import_module(module)
    given = np.arange(24.0).reshape(2, 3, 4)
    x = stack.asarray(given)
    for found, wanted in [
        (ours.rearrange(x, "a b c -> c (a b)"), einops.rearrange(given, "a b c -> c (a b)")),
        (ours.rearrange(x, "a b (c d) -> (a c) d b", d=2), einops.rearrange(given, "a b (c d) -> (a c) d b", d=2)),
        (ours.rearrange(x, "a ... -> ... a"), einops.rearrange(given, "a ... -> ... a")),
        (ours.reduce(x, "a b c -> a c", "mean"), einops.reduce(given, "a b c -> a c", "mean")),
        (ours.reduce(x, "a b c -> b", "max"), einops.reduce(given, "a b c -> b", "max")),
        (ours.reduce(x, "a b (c d) -> a d", "prod", d=2), einops.reduce(given, "a b (c d) -> a d", "prod", d=2)),
        (ours.repeat(x, "a b c -> a b c d", d=2), einops.repeat(given, "a b c -> a b c d", d=2)),
        (ours.repeat(x, "a b c -> (d a) b c", d=2), einops.repeat(given, "a b c -> (d a) b c", d=2)),
        (ours.rearrange([x, x], "n a b c -> a (n b) c"), einops.rearrange([given, given], "n a b c -> a (n b) c")),
    ]:
        assert type(found) is nnc.Tensor
        assert np.array_equal(found.numpy(), wanted)
    assert ours.asnumpy(x).tolist() == given.tolist()
    packed, shapes = ours.pack([x, stack.asarray(given[:, 0])], "a * c")
    assert [a.shape for a in ours.unpack(packed, shapes, "a * c")] == [(2, 3, 4), (2, 4)]


@BOTH
def test_einops_einsum_and_what_it_refuses(stack: nnc.Stack) -> None:
    import einops

    given = np.arange(6.0).reshape(2, 3)
    x = stack.asarray(given)
    found = einops.einsum(x, x, "row inner, column inner -> row column")
    assert np.array_equal(found.numpy(), given @ given.T)
    assert einops.parse_shape(x, "a _") == {"a": 2}
    with pytest.raises(einops.EinopsError, match="can't divide axis of length 3"):
        einops.rearrange(x, "a (b c) -> a b c", b=2)
    with pytest.raises(NotImplementedError, match="reduce_mean is not available for non-floating tensors"):
        einops.reduce(stack.asarray([1, 2]), "a -> ", "mean")


def test_einops_with_unknown_extents() -> None:
    import einops

    stack = STACKS["lazy"]
    x = stack.input("x", ("n", 4, 3), "float64")
    y = einops.reduce(einops.rearrange(x, "n (a b) c -> (n b) a c", b=2), "m a c -> m c", "sum")
    program = stack.compile([x], y)
    given = np.arange(60.0).reshape(5, 4, 3)
    wanted = einops.reduce(einops.rearrange(given, "n (a b) c -> (n b) a c", b=2), "m a c -> m c", "sum")
    assert np.array_equal(program(given), wanted)


@pytest.mark.parametrize("first", ["einops", "nnc_func"])
def test_einops_works_whichever_is_imported_first(first: str) -> None:
    second = {"einops": "nnc_func", "nnc_func": "einops"}[first]
    code = (
        f"import {first}\nimport {second}\nimport sys\n"
        "assert 'nnc_func.array_api' not in sys.modules or 'einops' in sys.modules\n"
        "x = nnc_func.eager().asarray([[1.0, 2.0]])\nprint(einops.rearrange(x, 'a b -> (a b)').shape)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(nnc.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "(2,)\n", done.stderr


@BOTH
def test_einops_in_functions_that_are_differentiated_or_compiled(stack: nnc.Stack) -> None:
    import einops

    def f(x: Any) -> Any:
        return (einops.reduce(x, "a b -> b", "sum") ** 2).sum()

    np.testing.assert_allclose(stack.grad(f)(M).numpy(), np.broadcast_to(2 * M.sum(0), M.shape))
    np.testing.assert_allclose(stack.jit(f)(M).item(), (M.sum(0) ** 2).sum())


@BOTH
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_xarray(stack: nnc.Stack) -> None:
    import xarray

    x = xarray.DataArray(stack.asarray(M), dims=("a", "b"))
    theirs = xarray.DataArray(M, dims=("a", "b"))
    for ours, wanted in [
        (x.mean(), theirs.mean()), (x.mean("a"), theirs.mean("a")), (x.sum("b"), theirs.sum("b")),
        (x + x.mean("a"), theirs + theirs.mean("a")), (x.transpose("b", "a") * 2, theirs.transpose("b", "a") * 2),
        (x.isel(a=0), theirs.isel(a=0)), (x.isel(b=[2, 0]), theirs.isel(b=[2, 0])), (x.max(), theirs.max()),
        (np.exp(x), np.exp(theirs)), (x.where(x > 0, 0.0), theirs.where(theirs > 0, 0.0)),
        (xarray.concat([x, x], "a"), xarray.concat([theirs, theirs], "a")), (x.std("a"), theirs.std("a")),
    ]:  # fmt: skip
        assert type(ours.data) is nnc.Tensor
        np.testing.assert_allclose(ours.data.numpy(), wanted.data)
    assert "Tensor" in repr(x)


@BOTH
def test_array_api_extra_style_functions(stack: nnc.Stack) -> None:
    """Code written for any namespace: gradients go through it, and it is compiled."""

    def softmax(x: Any) -> Any:
        xp = array_api_compat.array_namespace(x)
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    wanted = softmax(M)
    np.testing.assert_allclose(softmax(stack.asarray(M)).numpy(), wanted)
    np.testing.assert_allclose(stack.jit(softmax)(M).numpy(), wanted)
    gradient = stack.grad(lambda x: softmax(x)[0, 0])(M).numpy()
    np.testing.assert_allclose(gradient[0], wanted[0, 0] * (np.eye(3)[0] - wanted[0]), atol=1e-12)
