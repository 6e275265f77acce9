"""Trained models out of packages, by our stacks and by onnxruntime (`onnx`, `graph`, `engine`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OnnxError, OnnxWarning
from tests.onnx.wheels import model

RAPIDOCR = ("rapidocr-onnxruntime", "1.4.4")
SILERO = ("silero-vad", "6.2.3")
SPEECHMOS = ("speechmos", "0.0.1.1")
DDDDOCR = ("ddddocr", "1.6.1")
RATES = {16000: 576, 8000: 288}


def _noise(*shape: int) -> Any:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype("float32")


def _spoken(batch: int, rate: int) -> dict[str, Any]:
    return {"input": _noise(batch, RATES[rate]), "state": _noise(2, batch, 128), "sr": np.array(rate, "int64")}


def _of_one_rate(batch: int) -> dict[str, Any]:
    found = _spoken(batch, 16000)
    found.pop("sr")
    return found


def _sequence(steps: int) -> dict[str, Any]:
    return {"input": _noise(steps, 576), "h": _noise(1, 1, 128), "c": _noise(1, 1, 128)}


def _file(batch: int) -> dict[str, Any]:
    return {"bytes": np.random.default_rng(1).integers(0, 257, (batch, 2048)).astype("int32")}


Inputs = list[Callable[[], dict[str, Any]]]
_OCR, _VAD = "rapidocr_onnxruntime/models/ch_", "silero_vad/data/silero_vad"
CASES: list[tuple[tuple[str, str], str, Inputs]] = [
    (RAPIDOCR, f"{_OCR}PP-OCRv4_det_infer.onnx",
     [lambda: {"x": _noise(1, 3, 64, 96)}, lambda: {"x": _noise(2, 3, 96, 32)}]),
    (RAPIDOCR, f"{_OCR}PP-OCRv4_rec_infer.onnx",
     [lambda: {"x": _noise(1, 3, 48, 64)}, lambda: {"x": _noise(2, 3, 48, 32)}]),
    (RAPIDOCR, f"{_OCR}ppocr_mobile_v2.0_cls_infer.onnx", [lambda: {"x": _noise(1, 3, 48, 192)}]),
    (SILERO, f"{_VAD}.onnx", [lambda: _spoken(1, 16000), lambda: _spoken(2, 8000)]),
    (SILERO, f"{_VAD}_16k_op15.onnx", [lambda: _spoken(3, 16000)]),
    (SILERO, f"{_VAD}_16k_sequence.onnx", [lambda: _sequence(4), lambda: _sequence(7)]),
    (SILERO, f"{_VAD}_half.onnx", [lambda: _of_one_rate(2)]),
    (SILERO, f"{_VAD}_op18_ifless.onnx", [lambda: _spoken(1, 16000), lambda: _spoken(1, 8000)]),
    (SILERO, f"{_VAD}_openvino_16k.onnx", [lambda: _of_one_rate(1)]),
    (("magika", "1.0.3"), "magika/models/standard_v3_3/model.onnx", [lambda: _file(1), lambda: _file(2)]),
    (("basic-pitch", "0.4.0"), "basic_pitch/saved_models/icassp_2022/nmp.onnx",
     [lambda: {"serving_default_input_2:0": _noise(1, 43844, 1)}]),
]  # fmt: skip
QUICK = {"lazy": CASES, "eager": [c for c in CASES if c[0] == SILERO]}
_MOS = "speechmos/{}mos_models/{}.onnx".format
_ECHO: Inputs = [lambda: {"input": _noise(1, 3, 20, 160), "h0": _noise(4, 1, 64)}]
LARGE: list[tuple[tuple[str, str], str, Inputs]] = [
    (SPEECHMOS, _MOS("dns", "model_v8"), [lambda: {"input_1": _noise(2, 900, 120)}]),
    (SPEECHMOS, _MOS("dns", "sig_bak_ovr"), [lambda: {"input_1": _noise(1, 144160)}]),
    (SPEECHMOS, _MOS("plc", "plcmos_v2"),
     [lambda: {"degraded_audio": _noise(1, 1, 40, 257), "rater_embed": _noise(1, 64)}]),
    (SPEECHMOS, _MOS("aec", "Run_1663829550_Stage_0"), _ECHO),
    (SPEECHMOS, _MOS("aec", "Run_1663915512_Stage_0"), _ECHO),
    (DDDDOCR, "ddddocr/common_det.onnx", [lambda: {"images": _noise(1, 3, 416, 416)}]),
]  # fmt: skip


def agrees(stack: Any, package: tuple[str, str], name: str, inputs: Inputs) -> None:
    """Results are those of onnxruntime, as large as the largest of them."""
    import onnxruntime

    content = model(*package, name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    ours = nnc.from_onnx(content, stack)
    for made in inputs:
        given = made()
        wanted = session.run(None, given)
        found = ours(*(given[i.name] for i in ours.inputs))
        for mine, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(theirs).max())))


def named(case: Any) -> str:
    return str(case[1].rpartition("/")[2].removesuffix(".onnx"))


@pytest.mark.parametrize("case", QUICK["lazy"], ids=named)
def test_a_trained_model(case: Any) -> None:
    agrees(nnc.lazy(), *case)


@pytest.mark.parametrize("case", QUICK["eager"], ids=named)
def test_a_trained_model_at_once(case: Any) -> None:
    agrees(nnc.eager(), *case)


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE, ids=named)
def test_a_large_trained_model(case: Any) -> None:
    agrees(nnc.lazy(), *case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES + LARGE if c not in QUICK["eager"]], ids=named)
def test_a_larger_trained_model_at_once(case: Any) -> None:
    agrees(nnc.eager(), *case)


@pytest.mark.slow
def test_operators_of_other_domains_are_refused() -> None:
    with pytest.raises(OnnxError, match=r"DynamicQuantizeLSTM \(domain com.microsoft, opset 1\), node"):
        nnc.from_onnx(model(*DDDDOCR, "ddddocr/common_old.onnx"))


@pytest.mark.slow
def test_a_model_that_misstates_the_rank_of_a_result_is_warned_of() -> None:
    wrong = nnc.from_onnx(model(*DDDDOCR, "ddddocr/common.onnx"))
    with pytest.warns(OnnxWarning, match=r"output '387' has shape .*, and the model says \[1, seqlen\]"):
        wrong(_noise(1, 1, 64, 160))


@pytest.mark.parametrize("case", [c for c in CASES if c[0] != SILERO], ids=named)
def test_one_program_serves_all_extents(case: Any) -> None:
    assert nnc.from_onnx(model(*case[0], case[1]), nnc.eager()).program is not None
