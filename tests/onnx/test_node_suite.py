"""ONNX's own tests of single nodes, on the lazy stack and the eager one."""

from __future__ import annotations

from typing import Any

import pytest

import nnc_func as nnc
from nnc_func.testing.onnx_backend import Case, node_cases

PARTS = 16
DRAWN = ("test_bernoulli", "test_training_dropout")
"""They compare with what another generator draws."""


def part(number: int) -> list[Case]:
    """Every sixteenth case."""
    return [c for c in node_cases() if c.plain][number::PARTS]


@pytest.mark.parametrize("number", range(PARTS))
@pytest.mark.parametrize("name", ["lazy", "eager"])
def test_nodes(name: str, number: int) -> None:
    stack: Any = getattr(nnc, name)()
    found = {c.name: why for c in part(number) if (why := c.failure(stack))}
    wrong = {n: why for n, why in found.items() if "not supported" not in why and not n.startswith(DRAWN)}
    assert not wrong
