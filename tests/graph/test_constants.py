"""Constants: equal elements are one; nobody else can change any (`graph/constants`, `graph/symbol`, `graph/leaves`)."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any
from weakref import ref

import array_api_strict as strict
import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.rewriting.building import Builder
from nnc_func.graph.rules.folding import folded

LAZY, OPS = nnc.lazy(), nnc.lazy().ops
N = 200
STACKS = {"numpy": LAZY, "null": nnc.lazy(nnc.Null()), "strict": nnc.lazy(nnc.Strict())}


def constants(tensor: Any, stack: Any = LAZY) -> int:
    graph = stack.graph.close([], [tensor.value])
    return sum(n.op is CONSTANT for n in graph.nodes)


def matrix(dtype: str = "float64") -> Any:
    return np.random.default_rng(3).standard_normal((N, N)).astype(dtype)


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_an_array_that_is_used_twice_is_one_constant(stack: Any) -> None:
    a = matrix()
    x = stack.asarray(matrix() + 1)
    assert constants(x * a + a, stack) == 2
    assert stack.asarray(a).value is stack.asarray(a).value is stack.asarray(a.copy()).value
    assert stack.asarray(a).value is not stack.asarray(a.astype("float32")).value
    assert stack.asarray(a).value is not stack.asarray(a.reshape(-1)).value


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_what_differs_in_one_bit_anywhere_is_another(stack: Any) -> None:
    a = np.zeros(5000)
    first = stack.asarray(a)
    kept = [first]
    for at in (0, 1, 77, 2500, 4999):
        a[at] = -0.0
        other = stack.asarray(a)
        assert all(other.value is not each.value for each in kept)
        kept.append(other)
    if stack is LAZY:
        for flipped, tensor in enumerate(kept):
            assert np.signbit(tensor.numpy()).sum() == flipped


def test_what_is_changed_between_two_uses_is_two_constants() -> None:
    a = matrix()
    x = LAZY.asarray(a)
    first = x + a
    a[7, 9] = 1e9
    second = x + a
    np.testing.assert_array_equal(first.numpy(), 2 * matrix())
    assert second.numpy()[7, 9] == 1e9 + matrix()[7, 9]
    assert first.numpy()[7, 9] == 2 * matrix()[7, 9]


@pytest.mark.parametrize("order", ["C", "F", "K"])
def test_in_whatever_order_it_lies(order: Any) -> None:
    a = np.asarray(matrix(), order=order) if order != "K" else matrix().reshape(N, 20, 10).transpose(1, 2, 0)
    twice = LAZY.asarray(a).value
    assert twice is LAZY.asarray(a.copy(order="K")).value
    part = a[::2]
    assert LAZY.asarray(part).value is LAZY.asarray(part).value
    np.testing.assert_array_equal(LAZY.asarray(part).numpy(), part)
    np.testing.assert_array_equal(LAZY.asarray(a).numpy(), a)


def test_a_fold_over_one_matrix_holds_it_once() -> None:
    a = matrix()

    def folded() -> Any:
        x = LAZY.asarray(np.ones(N))
        for _ in range(50):
            x = OPS.tanh(a @ x)
        return x

    folded()
    gc.collect()
    tracemalloc.start()
    found = folded()
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert constants(found) == 2
    assert used < 2 * a.nbytes, used


def test_it_goes_with_its_last_use() -> None:
    a = matrix()
    uses = [LAZY.asarray(a) * 2, LAZY.asarray(a) * 3]
    node = ref(uses[0].value.args[0])
    del uses[0]
    assert node() is uses[0].value.args[0]
    uses.clear()
    gc.collect()
    assert node() is None


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, lambda: nnc.eager().swap(device=nnc.lazy())])
def test_read_only_for_a_while_is_not_read_only(make: Any) -> None:
    """An array that owns its memory is made writable again; a view of memory of bytes is not."""
    stack = make()
    a = np.zeros(1000)
    a.flags.writeable = False
    other = np.frombuffer(held := bytearray(8000))
    other.flags.writeable = False
    tensors = [stack.asarray(a), stack.asarray(other)]
    x = stack.input("x", (1000,), "float64")
    program = stack.compile([x], x + a)
    a.flags.writeable = True
    a[:], held[:] = 7, b"\x40" * 8000
    for tensor in tensors:
        np.testing.assert_array_equal(tensor.numpy(), 0.0)
    np.testing.assert_array_equal(np.asarray(program(np.ones(1000))), 1.0)


def test_bytes_are_not_copied() -> None:
    shown = np.frombuffer(bytes(range(250)) * 8, np.uint8)
    assert np.may_share_memory(LAZY.asarray(shown).value.data, shown)


def test_many_that_look_alike_are_told_apart() -> None:
    """More than are remembered under one look: those beyond are constants of their own, never another's."""
    arrays = []
    for i in range(40):
        arrays.append(np.zeros(50_000))
        arrays[-1][i + 1] = 1  # where nobody looks at first
    tensors = [LAZY.asarray(a) for a in arrays]
    assert len({id(t.value) for t in tensors}) == 40
    for tensor, a in zip(tensors, arrays, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), a)
    assert LAZY.asarray(arrays[3]).value is tensors[3].value


# --- arrays of devices --------------------------------------------------------------------------------------

TAKEN: dict[str, Any] = {
    "asarray": lambda stack, a: stack.asarray(a),
    "operand": lambda stack, a: stack.asarray(np.zeros(a.shape[0], "float32")) + a,
    "view": lambda stack, a: stack.ops.reshape(a, shape=(a.shape[0], 1)),
    "views": lambda stack, a: stack.ops.split(a, sections=2, axis=0)[0],
    "cast": lambda stack, a: stack.ops.cast(a, dtype="float32"),
    "variable": lambda stack, a: stack.variable("v", a) * 1,
    "variable itself": lambda stack, a: stack.variable("v", a),
    "assigned": lambda stack, a: assigned(stack.variable("v", np.ones(a.shape[0], "float32")), a),
    "result": lambda stack, a: stack.asarray(identity(stack, a)(a)[0]),
    "result of a view": lambda stack, a: stack.asarray(identity(stack, a)(a)[1]),
    "jitted": lambda stack, a: stack.jit(lambda x: x)(a),
}


def assigned(variable: Any, a: Any) -> Any:
    variable.value.assign(a)
    return variable


def identity(stack: Any, a: Any) -> Any:
    x = stack.input("x", tuple(a.shape), "float32")
    return stack.compile([x], [x, x[::2]])


DEVICES: dict[str, Any] = {
    "numpy": (nnc.NumPy(), np),
    "strict": (nnc.Strict(), strict),
    "places": (nnc.Places(one=nnc.Strict(), two=nnc.Strict("device1")), strict),
}


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("take", TAKEN)
@pytest.mark.parametrize("size", [4, 5000])
def test_nothing_changes_with_an_array_of_the_device(make: Any, device: str, take: str, size: int) -> None:
    kind, namespace = DEVICES[device]
    stack = make(kind)
    a = namespace.zeros(size, dtype=namespace.float32)
    found = TAKEN[take](stack, a)
    a[...] = 7
    assert not found.numpy().any()


class Marked(np.ndarray):
    """A subclass of NumPy's arrays."""


def test_subclasses_of_numpys_arrays_are_their_elements() -> None:
    for stack in (nnc.eager(), LAZY):
        for kind in (Marked, np.ma.MaskedArray, np.matrix):
            a = np.zeros((2, 3))
            found = stack.ops.reshape(a.view(kind), shape=(6,))
            double = np.add(stack.asarray(np.zeros((2, 3))), a.view(kind))
            a[...] = 7
            assert type(found.numpy()) is type(double.numpy()) is np.ndarray
            assert found.shape == (6,)
            assert not found.numpy().any() | double.numpy().any()


@pytest.mark.parametrize("name", ["reshape", "expand_dims", "squeeze"])
def test_a_large_constant_in_another_shape_is_one(name: str) -> None:
    """So a kernel that puts weights into order once sees that they stay the same."""
    params: Any = {"reshape": {"shape": (-1,)}, "expand_dims": {"axis": 1}, "squeeze": {"axis": 0}}[name]
    array = matrix()[None]
    x = LAZY.input("x", (N, 1), "float64")
    program = LAZY.compile([x], x + getattr(OPS, name)(LAZY.asarray(array), **params))
    assert sum(not node.args for node in program.graph.nodes) == 2
    assert [node.op.name for node in program.graph.nodes if node.args] == ["add"]
    transposed = LAZY.compile([x], x + OPS.permute_dims(LAZY.asarray(array), axes=(0, 2, 1)))
    assert "permute_dims" in [node.op.name for node in transposed.graph.nodes]  # it would be there twice


def test_what_is_made_of_parts_of_a_constant_is_folded() -> None:
    """Operators of several results stand on the way."""
    x = LAZY.input("x", (2, 2), "float64")
    first, second = OPS.split(LAZY.asarray(np.array([1.0, 2, 3, 5])), sections=2)
    found = folded((second - first).value, Builder(LAZY.operator))
    assert found is not None
    assert found.node.data.tolist() == [2, 3]
    assert folded(first.value, Builder(LAZY.operator)) is None
    assert folded((x + first).value, Builder(LAZY.operator)) is None
