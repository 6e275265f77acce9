"""Damaged ONNX models: read and run, or refused in words, in time and memory (`onnx`, `graph/onnx_export/metadata`)."""

from __future__ import annotations

import json
import math
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import nnc_func as nnc
from nnc_func.graph.onnx_export.metadata import ARRAYS, DIGEST, digest_of, embedded
from tests.damage import NUMBERS, changed_bytes
from tests.hostile import Tally, attempted
from tests.onnx.models import parsed
from tests.onnx.test_malformed import NAMES, small

MAX_BYTES = 1 << 24
PARTS = {
    "shapes": """c = Constant<value_ints = [2, 1]>() t = Tile(x, c) s = Shape(t) z = ConstantOfShape(s)
        e = Expand(one, s) a = Add(t, z) p = Pad(a, pads) y = Add(e, a)""",
    "ranges": """b = Constant<value_int = 5>() q = Constant<value_int = 0>() d = Constant<value_int = 2>()
        r = Range(q, b, d) v = Constant<value_floats = [0.0, 1.0]>() h = OneHot(r, b, v) y = ReduceSum(h)""",
    "images": """w = Constant<value = float[1, 1, 2, 2] {1.0, 2.0, 3.0, 4.0}>() i = Unsqueeze(x, two)
        j = Conv<pads = [1, 1, 1, 1], strides = [1, 2], dilations = [1, 1]>(i, w) s = Constant<value_ints = [6, 8]>()
        r = Resize<mode = "linear">(j, , , g) m = MaxPool<kernel_shape = [2, 2]>(r)
        y = DepthToSpace<blocksize = 1>(m)""",
    "loops": """n = Constant<value_int = 3>() yes = Constant<value = bool {1}>() l, o = Loop (n, yes, x) <body = b
        (int64 i, bool c, float[2, 3] v) => (bool d, float[2, 3] u, float[2, 3] f)
        { d = Identity(c) u = Tanh(v) f = Neg(v) }> y = Concat<axis = 0>(l, l)""",
    "sequences": """w = ConstantOfShape(wide) r = ConstantOfShape(deep) i = Unsqueeze(x, front)
        h, last = GRU<hidden_size = 2>(i, w, r) y = TopK<axis = 0, largest = 1>(x, k)""",
    "slices": """i = Constant<value_ints = [0, -1]>() t = Gather<axis = 1>(x, i) u = Slice(x, starts, ends)
        p, q = Split<axis = 1>(x, parts) e = Einsum<equation = "ij,ij->i">(x, x) v = Reshape(x, flat)
        y = Transpose<perm = [1, 0]>(x)""",
}
NUMBERED = {
    "pads": [0, 1, 1, 0], "two": [0, 1], "g": [1, 1, 6, 8], "wide": [1, 6, 3], "deep": [1, 6, 2], "front": [0],
    "k": [1], "starts": [0, 0], "ends": [2, 2], "parts": [1, 2], "flat": [3, -1],
}  # fmt: skip


@cache
def original(name: str) -> bytes:
    if name == "small":
        return bytes(small().SerializeToString())
    found = parsed(f"f (float[n, 3] x) => (float y) <float[1] one = {{1.0}}> {{ {PARTS[name]} }}", opset=18)
    found.graph.output[0].ClearField("type")
    for key, numbers in NUMBERED.items():
        found.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), key))
    return bytes(found.SerializeToString())


MODELS = ["small", *PARTS]


def case(number: int) -> tuple[str, bytes]:
    random = Random(number)
    name = MODELS[number % len(MODELS)]
    if random.random() < 0.2:
        what, content = changed_bytes(original(name), random)
        return f"{name}: {what}", content
    proto = type(small()).FromString(original(name))
    done = [_changed(proto, random) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    return f"{name}: {'; '.join(done)}", proto.SerializeToString()


def _changed(proto: Any, random: Random) -> str:
    """A field at any depth that is changed, repeated or taken away."""
    message, path = proto.graph, "graph"
    while True:
        fields = [(f, v) for f, v in message.ListFields() if f.name not in ("doc_string", "output")]
        if not fields:
            return f"{path} is empty"
        field, value = random.choice(fields)
        many = hasattr(value, "__len__") and not isinstance(value, (str, bytes))
        at = random.randrange(len(value)) if many and len(value) else 0
        path += f".{field.name}" + f"[{at}]" * many
        if many and random.random() < 0.05:
            if random.random() < 0.5:
                del value[at]
                return f"without {path}"
            value.extend([value[at]])
            return f"{path} twice"
        if field.type != field.TYPE_MESSAGE:
            return f"{path} is {_exchanged(message, field, value, many, at, random)!r:.60}"
        message = value[at] if many else value


def _exchanged(message: Any, field: Any, value: Any, many: bool, at: int, random: Random) -> Any:
    kind = field.cpp_type
    if field.type == field.TYPE_BYTES:
        new: Any = _bytes(value[at] if many else value, random)
    elif kind == field.CPPTYPE_STRING:
        new = random.choice(NAMES)
    elif kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        new = random.choice((0.0, -1.0, 1e38, math.inf, math.nan, 1e-30))
    else:
        new = random.choice(NUMBERS)
    try:
        if many:
            value[at] = new
        else:
            setattr(message, field.name, new)
    except (TypeError, ValueError):
        return "what the format does not hold"
    return new


def _bytes(value: bytes, random: Random) -> bytes:
    """A number of 64 bits among them is another, or they are of another length."""
    if len(value) >= 8 and random.random() < 0.8:
        at = 8 * random.randrange(len(value) // 8)
        number = random.choice([n for n in NUMBERS if -(2**63) <= n < 2**63])
        return value[:at] + number.to_bytes(8, "little", signed=True) + value[at + 8 :]
    return random.choice((b"", value[:-1], value * 2, b"\xff" * len(value)))


def attempt(content: bytes) -> None:
    for stack in (nnc.eager(), nnc.lazy()):
        model = nnc.from_onnx(content, stack, max_bytes=MAX_BYTES)
        shapes = [[n if isinstance(n, int) else 2 for n in i.shape or ()] for i in model.inputs]
        if sum(map(math.prod, shapes)) < 10**5:
            model(*(np.ones(shape, i.dtype) for shape, i in zip(shapes, model.inputs, strict=True)))


def check(tally: Tally) -> None:
    assert not tally.faults, str(tally)
    assert tally.refused > tally.accepted > 0


@pytest.mark.parametrize("name", MODELS)
def test_the_models_themselves_run(name: str) -> None:
    attempt(original(name))


def test_damaged_models_are_read_or_refused() -> None:
    check(attempted(case, attempt, range(300)))


@pytest.mark.slow
def test_many_damaged_models_are_read_or_refused() -> None:
    check(attempted(case, attempt, range(300, 6000)))


@pytest.mark.parametrize("arrays", ["[]", "{", '{"constants": 3}', '{"constants": {"a": "b"}, "variables": {}}'])
def test_names_of_arrays_that_are_none(arrays: str) -> None:
    """The digest is right: whoever wrote the file has computed it."""
    lazy = nnc.lazy()
    x = lazy.input("x", (2,), "float32")
    proto = lazy.graph.close([x.value], [(x * 2).value], name="twice").to_onnx()
    entries = {each.key: each.value for each in proto.metadata_props}
    assert json.loads(entries[ARRAYS]) == {"constants": {}, "variables": {}}
    entries[ARRAYS] = arrays
    entries[DIGEST] = digest_of(proto, entries, embedded)
    for each in proto.metadata_props:
        each.value = entries[each.key]
    found = nnc.from_onnx(proto)
    assert found.original is None
    assert found(np.ones(2, "float32")).tolist() == [2.0, 2.0]
