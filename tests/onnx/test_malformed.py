"""Models that are damaged, contradictory or ask too much are refused (`onnx/reading`, `onnx/tracing`, `onnx/types`).

The node is named where there is one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import nnc_func as nnc
from nnc_func.errors import NncError, OnnxError
from nnc_func.onnx import tracing
from tests.onnx.models import parsed

X = np.ones((2, 3), "float32")


def small() -> Any:
    """A model with most of what models have: constants, shapes, an inner graph, attributes of all kinds."""
    weights = "<float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] b = {0, 1, 2, 3}>"
    return parsed(f"""f (float[n, 3] x) => (float[n, m] y) {weights} {{
        [first] h = Gemm<alpha = 0.5>(x, w, b)
        [second] s = Shape(h)
        [third] r = Constant<value_ints = [0, -1]>()
        yes = Constant<value = bool {{1}}>()
        [fourth] c = Reshape(h, r)
        [fifth] d = If (yes) <
            then_branch = t () => (float[n, m] u) {{ [inner] u = Relu(c) }},
            else_branch = e () => (float[n, m] v) {{ v = Neg(c) }}
        >
        [sixth] y = Softmax<axis = 1>(d)
    }}""")


def test_the_model_itself_runs(stack: Any) -> None:
    h = 0.5 * X @ np.arange(1, 13, dtype="float32").reshape(3, 4) + np.arange(4, dtype="float32")
    wanted = np.exp(h - h.max(1, keepdims=True))
    np.testing.assert_allclose(nnc.from_onnx(small(), stack)(X), wanted / wanted.sum(1, keepdims=True), rtol=1e-5)


def changed(change: Callable[[Any], Any]) -> Any:
    proto = small()
    change(proto)
    return proto


def _node(proto: Any, name: str) -> Any:
    return next(n for n in proto.graph.node if n.name == name)


def _shaped(proto: Any, dims: list[int]) -> None:
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend(dims)


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a missing initialiser": (lambda p: p.graph.initializer.pop(0), "node 'first'.*reads 'w'"),
    "a cycle": (lambda p: _node(p, "first").input.__setitem__(0, "d"), "node 'first'.*reads 'd'"),
    "a node that reads itself": (lambda p: _node(p, "sixth").input.__setitem__(0, "y"), "node 'sixth'.*reads 'y'"),
    "an unknown operator": (lambda p: setattr(_node(p, "sixth"), "op_type", "Hard"), "not supported: Hard .*'sixth'"),
    "an unknown domain": (lambda p: setattr(_node(p, "sixth"), "domain", "x.y"), "not supported: Softmax .domain x.y"),
    "an unknown operator within": (
        lambda p: setattr(_node(p, "fifth").attribute[0].g.node[0], "op_type", "Relo"), "Relo .*node 'fifth/inner'",
    ),
    "shapes that contradict": (lambda p: _shaped(p, [4, 3]), "node 'first'"),
    "too few bytes": (lambda p: _shaped(p, [3, 5]), "'w'.*wants 15 elements, given 12"),
    "a huge initialiser": (lambda p: _shaped(p, [2**40, 2**20]), "'w'.*elements at most"),
    "a negative extent": (lambda p: _shaped(p, [-3, -4]), "'w'.*extents are from 0"),
    "a dtype that is none": (lambda p: setattr(p.graph.initializer[0], "data_type", 99), "element type 99"),
    "another dtype": (lambda p: setattr(p.graph.initializer[0], "data_type", 11), "'w'"),
    "an input of another dtype": (
        lambda p: setattr(p.graph.input[0].type.tensor_type, "elem_type", 11), "node 'first'.*have one dtype",
    ),
    "an input of strings": (lambda p: setattr(p.graph.input[0].type.tensor_type, "elem_type", 8), "'x'.*STRING"),
    "an output of another dtype": (
        lambda p: setattr(p.graph.output[0].type.tensor_type, "elem_type", 11), "output 'y' is float32.*float64",
    ),
    "an output of no node": (lambda p: setattr(p.graph.output[0], "name", "z"), "output 'z' is the result of no node"),
    "an attribute that is none": (
        lambda p: setattr(_node(p, "sixth").attribute[0], "name", "axes"), "node 'sixth'.*no attribute 'axes'",
    ),
    "an attribute of another type": (
        lambda p: _node(p, "sixth").attribute[0].CopyFrom(helper.make_attribute("axis", 1.0)), "'axis' is of type INT",
    ),
    "an attribute out of range": (lambda p: setattr(_node(p, "sixth").attribute[0], "i", 7), "node 'sixth'.*axis 7"),
    "too many inputs": (lambda p: _node(p, "sixth").input.extend(["x", "x"]), "node 'sixth'.*wants 1"),
    "too few inputs": (lambda p: _node(p, "first").input.__delitem__(slice(1, 3)), "node 'first'.*wants 2"),
    "too many results": (lambda p: _node(p, "sixth").output.append("more"), "node 'sixth'.*results"),
    "two results of one name": (lambda p: _node(p, "fourth").output.__setitem__(0, "h"), ""),
    "a newer operator set": (lambda p: setattr(p.opset_import[0], "version", 999), "operator set 999"),
    "a newer format": (lambda p: setattr(p, "ir_version", 999), "version 999"),
    "no operator set": (lambda p: p.opset_import.pop(), "not supported: Gemm"),
    "no outputs": (lambda p: p.graph.output.pop(), "no outputs"),
    "no graph": (lambda p: p.ClearField("graph"), "no graph"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_contradicts_itself_is_refused(what: str) -> None:
    change, told = CHANGES[what]
    with pytest.raises(OnnxError, match=f"(?s){told}"):
        nnc.from_onnx(changed(change), nnc.lazy())(X)


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    content = small().SerializeToString()
    for name, given_bytes in {
        "empty.onnx": b"", "text.onnx": b"no model at all\n" * 20, "cut.onnx": content[: len(content) // 2],
        "magic.onnx": b"\x7fELF" + content[4:],
    }.items():  # fmt: skip
        path = tmp_path / name
        path.write_bytes(given_bytes)
        with pytest.raises(OnnxError):
            nnc.from_onnx(path)(X)
        with pytest.raises(OnnxError):
            nnc.from_onnx(given_bytes)(X)
    with pytest.raises(OnnxError, match="cannot be read"):
        nnc.from_onnx(tmp_path / "missing.onnx")
    with pytest.raises(OnnxError, match="given int"):
        nnc.from_onnx(3)


def external(location: str, **more: str) -> tuple[Any, bytes]:
    proto = small()
    tensor = proto.graph.initializer[0]
    raw = numpy_helper.to_array(tensor).tobytes()
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    return proto, raw


def test_external_data_are_read_from_the_directory_of_the_model(tmp_path: Path, stack: Any) -> None:
    proto, raw = external("weights.bin", offset="8", length="48")
    (tmp_path / "weights.bin").write_bytes(b"\0" * 8 + raw)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    np.testing.assert_array_equal(nnc.from_onnx(path, stack)(X), nnc.from_onnx(small(), stack)(X))
    np.testing.assert_array_equal(nnc.from_onnx(proto, stack, directory=tmp_path)(X), nnc.from_onnx(small(), stack)(X))
    with pytest.raises(OnnxError, match="give the path of the model"):
        nnc.from_onnx(proto, stack)


@pytest.mark.parametrize(
    ("location", "more", "told"),
    [
        ("../secret.bin", {}, "outside of the model's directory"),
        ("/etc/passwd", {}, "outside of the model's directory"),
        ("link.bin", {}, "outside of the model's directory"),
        ("missing.bin", {}, "no file"),
        (".", {}, "no file"),
        ("", {}, "outside"),
        ("short.bin", {}, "ends before"),
        ("short.bin", {"length": "20"}, "wants 48 bytes"),
        ("short.bin", {"offset": "x"}, "cannot be read"),
        ("short.bin", {"offset": "-4"}, "wants 48 bytes"),
        ("a\0b", {}, "null|no file"),
    ],
)
def test_external_data_elsewhere_are_refused(tmp_path: Path, location: str, more: dict[str, str], told: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"\0" * 48)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "short.bin").write_bytes(b"\0" * 40)
    (folder / "model.onnx").write_bytes(external(location, **more)[0].SerializeToString())
    with pytest.raises(OnnxError, match=told):
        nnc.from_onnx(folder / "model.onnx")


def test_functions_that_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each calls the next one several times, and would be applied 8**12 times in all."""
    monkeypatch.setattr(tracing, "MOST_NODES", 1000)
    functions = [
        f'<domain: "local", opset_import: ["": 18, "local": 1]> f{i}(x0) => (x8) {{'
        + " ".join(f"x{k + 1} = local.f{i + 1}(x{k})" for k in range(8))
        + "}"
        for i in range(12)
    ]
    functions.append('<domain: "local", opset_import: ["": 18, "local": 1]> f12(x) => (y) { y = Neg(x) }')
    proto = parsed("f (float[2] x) => (float[2] y) { y = local.f0(x) }", functions=" ".join(functions))
    with pytest.raises(OnnxError, match="functions or loops repeat"):
        nnc.from_onnx(proto, nnc.eager())


# --- damage by chance ----------------------------------------------------------------------------------------


def survives(damaged: Any, name: str) -> None:
    """It is imported and runs, or is refused with an error of ours."""
    with contextlib.suppress(NncError):
        model = nnc.from_onnx(damaged, getattr(nnc, name)())
        shapes = [[n if isinstance(n, int) else 2 for n in i.shape or ()] for i in model.inputs]
        if all(math.prod(shape) < 10**6 for shape in shapes):
            model(*(np.ones(shape, i.dtype) for shape, i in zip(shapes, model.inputs, strict=True)))


CONTENT = small().SerializeToString()
STACKS = st.sampled_from(["eager", "lazy"])
FUZZ = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


@FUZZ
@given(
    edits=st.lists(st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.none() | st.integers(0, len(CONTENT)),
    name=STACKS,
)
@example(edits=[(28, 128)], cut=None, name="eager")  # an operator whose name is no text
def test_bytes_that_change_never_crash_it(edits: Any, cut: int | None, name: str) -> None:
    content = bytearray(CONTENT)
    for place, value in edits:
        content[place] = value
    survives(bytes(content[:cut]), name)


NUMBERS = st.sampled_from([-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 5, 64, 2**31, 2**40, 2**63 - 1])
NAMES = ["", "x", "w", "b", "h", "r", "c", "d", "y", "yes", "Shape", "Loop", "Add", "Expand", "Tile", "axis", "ai.onnx"]
WORDS = st.sampled_from(NAMES)


@st.composite
def mutated(draw: Any) -> Any:
    """The model with a few fields that are changed, repeated or taken away, at any depth."""
    proto = small()
    for _ in range(draw(st.integers(1, 4))):
        message: Any = proto
        while True:
            fields = [f for f, _ in message.ListFields()]
            if not fields:
                break
            field = draw(st.sampled_from(fields))
            value = getattr(message, field.name)
            many = hasattr(value, "__len__") and not isinstance(value, (str, bytes))
            if many and draw(st.integers(0, 5)) == 0:
                place = draw(st.integers(0, len(value) - 1))
                if draw(st.booleans()):
                    del value[place]
                else:
                    value.extend([value[place]])
                break
            if field.type == field.TYPE_MESSAGE:
                message = value[draw(st.integers(0, len(value) - 1))] if many else value
                continue
            _replace(draw, message, field, value, many)
            break
    return proto


def _replace(draw: Any, message: Any, field: Any, value: Any, many: bool) -> None:
    kind = {field.CPPTYPE_STRING: WORDS, field.CPPTYPE_FLOAT: st.floats(width=32), field.CPPTYPE_DOUBLE: st.floats()}
    made = draw(kind.get(field.cpp_type, NUMBERS))
    if field.type == field.TYPE_BYTES:
        made = made.encode()
    try:
        if many:
            value[draw(st.integers(0, len(value) - 1))] = made
        else:
            setattr(message, field.name, made)
    except (TypeError, ValueError):
        return  # the format does not hold it


@FUZZ
@given(proto=mutated(), name=STACKS)
def test_fields_that_change_never_crash_it(proto: Any, name: str) -> None:
    survives(proto, name)
    survives(proto.SerializeToString(), name)
