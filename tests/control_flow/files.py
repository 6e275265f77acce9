"""Programs that go through a file, and compute what they did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func.tree import flatten


def same_from_a_file(stack: Any, inputs: Sequence[Any], outputs: Any, arrays: Sequence[Any], folder: Path) -> list[Any]:
    """The outputs of a program, which a file of it gives too, and whose plan is verified and is its own text."""
    program = stack.compile([*inputs], flatten(outputs)[0])
    if program.plan is not None:  # there is one for each extent, when extents are symbolic
        program.plan.verify()
        assert type(program.plan).parse(program.plan.text()) == program.plan
    wanted = several(program(*arrays))
    program.save(folder / "program.nnc")
    found = several(nnc.load_program(folder / "program.nnc", stack)(*arrays))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    return wanted


def several(found: Any) -> list[Any]:
    """Outputs as a list, of however many."""
    return [*found] if isinstance(found, (tuple, list)) else [found]
