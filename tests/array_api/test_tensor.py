"""Tensors have the methods and attributes of the standard, and write by rebinding (`graph/tensors`, `array_api`)."""

from __future__ import annotations

import inspect
import operator
import pickle
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
import nnc_func.array_api as default
from nnc_func.errors import DTypeError, ExtentError, GraphError, OperatorError, ShapeError, TracingError, UnboundError
from tests.array_api.cases import ANY, array

STACKS = (nnc.eager(), nnc.lazy())
BOTH = pytest.mark.parametrize("stack", STACKS, ids=["eager", "lazy"])
METHODS = [
    n
    for n in dir(type(strict.asarray(1)))
    if n.startswith("__") and n not in dir(object) and callable(getattr(type(strict.asarray(1)), n))
]
THEIRS = {
    "__annotate_func__",  # of Python 3.14
    "__buffer__",
}  # of their class, not the standard's
IN_PLACE = {
    n for n in METHODS if n.startswith("__i") and f"__{n[3:]}" in METHODS
}  # Python rebinds the name without them


def test_every_method_of_the_standards_arrays_is_there() -> None:
    missing = [n for n in METHODS if n not in THEIRS | IN_PLACE and not hasattr(nnc.Tensor, n)]
    assert missing == []
    assert {"T", "mT", "device", "dtype", "ndim", "shape", "size", "to_device"} <= {*dir(nnc.Tensor)}
    assert len(METHODS) > 50
    assert len(IN_PLACE) == 13


SIGNED = [n for n in METHODS if n not in THEIRS | IN_PLACE | {"__array__", "__iter__"}]


@pytest.mark.parametrize("name", SIGNED)
def test_methods_have_the_standards_parameters(name: str) -> None:
    ours, theirs = (
        [p for p in inspect.signature(getattr(of, name)).parameters.values() if p.name != "self"]
        for of in (nnc.Tensor, type(strict.asarray(1)))
    )
    assert len(ours) == len(theirs)
    for mine, wanted in zip(ours, theirs, strict=True):
        if wanted.kind is wanted.POSITIONAL_ONLY:
            assert mine.kind in (mine.POSITIONAL_ONLY, mine.POSITIONAL_OR_KEYWORD)
        else:
            assert (mine.name, mine.kind) == (wanted.name, wanted.kind)
        assert (mine.default is mine.empty) is (wanted.default is wanted.empty)


@pytest.mark.parametrize("name", ["capabilities", "default_device", "default_dtypes", "devices", "dtypes"])
def test_what_is_asked_of_the_namespace_has_the_standards_parameters(name: str) -> None:
    ours, theirs = (
        [
            (p.name, p.kind, p.default)
            for p in inspect.signature(getattr(xp.__array_namespace_info__(), name)).parameters.values()
        ]
        for xp in (STACKS[0].array_api, strict)
    )
    assert ours == theirs


@BOTH
@pytest.mark.parametrize(
    "name",
    ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift", "matmul"],
)
def test_operators_of_two_in_either_order_and_in_place(stack: nnc.Stack, name: str) -> None:
    whole = name in ("and_", "or_", "xor", "lshift", "rshift")
    a = np.array([1, 2, 6] if whole else [1.0, 2.5, 6.0])
    b = np.array([1, 0, 3] if whole else [3.0, 0.5, 2.0])
    x, apply = stack.asarray(a), getattr(operator, name)
    for ours, theirs in [
        (apply(x, stack.asarray(b)), apply(a, b)), (apply(x, b), apply(a, b)), (apply(b, x), apply(b, a)),
        *(() if name == "matmul" else [(apply(x, 2), apply(a, 2)), (apply(2, x), apply(2, a))]),
    ]:  # fmt: skip
        assert type(ours) is nnc.Tensor
        assert ours.numpy().tolist() == theirs.tolist()
    alias = x
    changed = getattr(operator, "i" + name.strip("_"))(x, stack.asarray(b))
    assert changed.numpy().tolist() == apply(a, b).tolist()
    assert alias.numpy().tolist() == a.tolist()


@BOTH
def test_operators_of_one_and_of_booleans(stack: nnc.Stack) -> None:
    x, b = stack.asarray([1, -2]), stack.asarray([True, False])
    assert [(+x).numpy().tolist(), (-x).numpy().tolist(), abs(x).numpy().tolist(), (~x).numpy().tolist()] == [
        [1, -2], [-1, 2], [1, 2], [-2, 1],
    ]  # fmt: skip
    assert [(~b).numpy().tolist(), (b & True).numpy().tolist(), (False | b).numpy().tolist()] == [
        [False, True], [True, False], [True, False],
    ]  # fmt: skip
    assert [v.numpy().tolist() for v in divmod(stack.asarray([7, -7]), 3)] == [[2, -3], [1, 2]]
    assert [v.numpy().tolist() for v in divmod(7, stack.asarray([2, 3]))] == [[3, 2], [1, 1]]


@BOTH
def test_pythons_numbers_of_a_tensor(stack: nnc.Stack) -> None:
    x = stack.asarray(3)
    assert (int(x), float(x), complex(x), bool(x), operator.index(x), [5, 6, 7, 8][x]) == (3, 3.0, 3 + 0j, True, 3, 8)
    assert complex(stack.asarray(1j)) == 1j
    for wrong in (stack.asarray(3.0), stack.asarray(True)):
        with pytest.raises(DTypeError, match="an index is an integer"):
            operator.index(wrong)
    with pytest.raises(ShapeError, match="one element"):
        float(stack.asarray([1.0, 2.0]))
    assert 2 in stack.asarray([1, 2])
    assert 5 not in stack.asarray([1, 2])
    assert [int(v) for v in stack.asarray([4, 5])] == [4, 5]
    assert len(stack.asarray([[1], [2]])) == 2


@BOTH
def test_a_tensor_without_a_value_says_which_input_it_waits_for(stack: nnc.Stack) -> None:
    x = stack.input("speed", (2,)) + stack.input("time", (2,))
    for ask in (bool, float, int, complex, np.asarray, np.from_dlpack, operator.index):
        with pytest.raises(UnboundError, match=r"'speed'.*'time'"):
            ask(x)
    assert "not computed" in repr(x)
    assert not hasattr(x, "__array_interface__")
    xp = stack.array_api
    for ask in (xp.nonzero, xp.unique_values, lambda v: v[v > 0]):
        with pytest.raises((UnboundError, ExtentError), match="speed"):
            ask(x)
    with pytest.raises((TracingError, ExtentError), match="argument 0"):
        stack.jit(xp.unique_values)(np.ones(2))
    assert stack.grad(lambda v: xp.sum(xp.unique_values(v) ** 2))(np.array([3.0, 1.0])).numpy().tolist() == [6, 2]


def test_a_lazy_tensor_of_values_shows_its_value() -> None:
    x = STACKS[1].asarray([1.0, 2.0])
    assert repr(x + 1) == "Tensor(float64[2], [2., 3.])"
    assert "not computed" in repr(STACKS[1].array_api.zeros((2000,)) + 1)


@BOTH
@settings(max_examples=max(5, settings().max_examples // 3))
@given(data=st.data())
def test_writing_is_as_numpys_and_others_keep_the_old_value(stack: nnc.Stack, data: Any) -> None:
    a = array(data.draw, ANY, least=1, side=1)
    kind = data.draw(st.sampled_from(["number", "slices", "mask", "list", "tensor"]))
    n = a.shape[0]
    mask = array(data.draw, "b", a.shape)
    at = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=3, unique_by=lambda i: i % n))
    key: Any = {
        "number": data.draw(st.integers(-n, n - 1)),
        "slices": (slice(None, None, data.draw(st.sampled_from([1, 2, -1]))), ...),
        "mask": mask,
        "list": at,
        "tensor": np.array(at),
    }[kind]
    value: Any = a.dtype.type(1).item()
    if data.draw(st.booleans()) and kind != "mask":
        value = np.broadcast_to(np.ones((), a.dtype), a[key].shape).copy()
    x = stack.asarray(a)
    before, view, outside = stack.ops.flip(x), x[...], np.asarray(x)
    held = nnc.Tensor(stack, x.value)
    wanted = a.copy()
    wanted[key] = value
    given = stack.asarray(key) if kind in ("mask", "tensor") and data.draw(st.booleans()) else key
    x[given] = stack.asarray(value) if isinstance(value, np.ndarray) else value
    same = {"equal_nan": a.dtype.kind in "fc"}
    assert x.dtype == a.dtype
    assert np.array_equal(x.numpy(), wanted, **same)
    for old in (view.numpy(), held.numpy(), outside, np.flip(before.numpy())):
        assert np.array_equal(old, a, **same)


@BOTH
def test_writing_in_functions_that_are_differentiated_or_compiled(stack: nnc.Stack) -> None:
    def f(x: Any) -> Any:
        x[0] = x[1] * 3
        x[x > 5] = 0.0
        return (x * x).sum()

    given = np.array([1.0, 2.0, 3.0])
    assert stack.grad(f)(stack.asarray(given)).numpy().tolist() == [0, 4, 6]
    assert stack.jit(f)(given).item() == 13
    assert given.tolist() == [1, 2, 3]
    with pytest.raises(GraphError, match="name for a place"):
        stack.variable("w", given)[0] = 1


@BOTH
@settings(max_examples=max(5, settings().max_examples // 3))
@given(data=st.data())
def test_reading_by_keys_of_the_standard(stack: nnc.Stack, data: Any) -> None:
    a = array(data.draw, ANY, least=1, side=1)
    key: list[Any] = []
    for n in a.shape:
        some = st.integers(-n, n - 1)
        key.append(data.draw(st.one_of(some, st.slices(n), st.just(slice(None)))))
        if data.draw(st.integers(0, 4)) == 0:
            key.append(None)
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(key)))
        key[cut:] = [...]
    found = stack.asarray(a)[tuple(key)]
    assert np.array_equal(found.numpy(), a[tuple(key)], equal_nan=a.dtype.kind in "fc")


@BOTH
def test_namespaces_are_values(stack: nnc.Stack) -> None:
    xp = stack.array_api
    x = xp.asarray([1.0])
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2023.12") is xp
    assert xp == type(stack)(stack.top).array_api
    assert len({xp, pickle.loads(pickle.dumps(xp)), STACKS[0].array_api, STACKS[1].array_api}) == 2
    assert pickle.loads(pickle.dumps(xp.linalg)).det(xp.eye(2)).item() == 1
    with pytest.raises(OperatorError, match="versions of the standard"):
        x.__array_namespace__(api_version="1999.01")


def test_the_module_is_the_default_stacks_namespace() -> None:
    from nnc_func.array_api import linalg, sum

    assert linalg is default.linalg
    assert sum(default.asarray([1, 2])).item() == 3
    assert default.__array_api_version__ == "2024.12"
    assert {"sum", "linalg", "float32", "pi"} <= {*dir(default)}
    with pytest.raises(AttributeError, match="no_such"):
        _ = default.no_such


@BOTH
def test_what_a_namespace_says_of_itself_is_so(stack: nnc.Stack) -> None:
    xp = stack.array_api
    info = xp.__array_namespace_info__()
    for name, dtype in info.dtypes().items():
        assert xp.zeros((2,), dtype=dtype).dtype == dtype == getattr(xp, name)
    assert info.dtypes(kind="bool") == {"bool": np.dtype(bool)}
    theirs = strict.__array_namespace_info__()
    for kind in ("integral", "real floating", "complex floating", "numeric", ("bool", "signed integer")):
        assert {*info.dtypes(kind=kind)} == {*theirs.dtypes(kind=kind)}
    defaults = info.default_dtypes()
    assert xp.asarray(1.0).dtype == defaults["real floating"]
    assert xp.asarray(1).dtype == defaults["integral"]
    assert xp.asarray(1j).dtype == defaults["complex floating"]
    assert xp.argmax(xp.asarray([1.0])).dtype == defaults["indexing"]
    assert info.devices() == [info.default_device()] == [xp.asarray(1).device] == ["cpu"]
    can = info.capabilities()
    x = xp.asarray([1, 0, 2])
    assert can["boolean indexing"]
    assert x[x > 0].shape == (2,)
    assert can["data-dependent shapes"]
    assert xp.nonzero(x)[0].shape == (2,)
    most = can["max dimensions"]
    assert (xp.ones((1,) * most) + 1).numpy().ndim == most
    with pytest.raises(ValueError, match="64"):
        np.ones((1,) * (most + 1))


@BOTH
def test_devices(stack: nnc.Stack) -> None:
    x = stack.asarray([1.0])
    assert x.to_device("cpu") is x
    with pytest.raises(RuntimeError, match=r"the devices of .* are cpu, given 'tpu'"):
        x.to_device("tpu")
    with pytest.raises(RuntimeError, match="no stream"):
        x.to_device("cpu", stream=1)
    places = stack.swap(device=nnc.Places(one=nnc.NumPy(), two=nnc.NumPy()))
    xp = places.array_api
    y = xp.ones((2,), device="two")
    assert (xp.ones(2).device, y.device, xp.zeros_like(y).device, y.to_device("one").device) == (
        "one",
        "two",
        "two",
        "one",
    )
    assert (y + 1).to_device("one").numpy().tolist() == [2, 2]


@BOTH
def test_transposed(stack: nnc.Stack) -> None:
    x = stack.asarray(np.arange(6.0).reshape(1, 2, 3))
    assert (x.mT.shape, x.T.shape, x.size, x.ndim) == ((1, 3, 2), (3, 2, 1), 6, 3)
    assert x.mT.numpy().tolist() == np.arange(6.0).reshape(1, 2, 3).mT.tolist()
    with pytest.raises(ShapeError, match="mT wants matrices"):
        _ = stack.asarray([1.0]).mT
