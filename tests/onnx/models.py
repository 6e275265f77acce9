"""Models for tests, from ONNX's text form."""

from __future__ import annotations

from typing import Any

import onnx


def parsed(body: str, opset: int = 18, functions: str = "") -> Any:
    """A model of a graph's text, and of functions'."""
    imports = f'"": {opset}' + (', "local": 1' if functions else "")
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> {body} {functions}")
