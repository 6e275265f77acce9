"""Settings that are read from the environment once: how much the library checks itself and says, where tests draw."""

from __future__ import annotations

import os

from attrs import define, field


def _number(name: str) -> int:
    text = os.environ.get(name, "0")
    return int(text) if text.isdigit() else 0


@define
class Config:
    """What can be turned up.

    Attributes
    ----------
    spec
        ``NNC_SPEC``: 1 verifies every plan when it is made, 2 computes both sides of every rewrite as well and
        compares them, 3 runs programs with poisoned memory as well.
    debug
        ``NNC_DEBUG``: 1 tells of each compilation, 2 of each kernel in a checked run as well, 3 of the optimiser's
        rules as well. It goes to standard error.
    seed
        ``NNC_SEED``: where the test kit begins to draw programs and arguments; 0 unless it is set.
    """

    spec: int = field(factory=lambda: _number("NNC_SPEC"))
    debug: int = field(factory=lambda: _number("NNC_DEBUG"))
    seed: int = field(factory=lambda: _number("NNC_SEED"))


config = Config()
