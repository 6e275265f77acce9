"""The networks of the zoo as parameters of tests: the long ones, whose operators others have too, are nightly."""

from __future__ import annotations

from typing import Any

import pytest

from nnc_func import models

LONG = {"vgg-19", "resnet-50", "inception-v3", "darts", "randomly-wired", "mask-rcnn-768"}


def networks(trains: bool = False) -> Any:
    """A parameter ``name`` that is each network in turn, or each that trains."""
    names = [name for name in models.names() if models.get(name).trains or not trains]
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in names]
    )
