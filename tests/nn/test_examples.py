"""Examples run, and say what they should (`device`, `graph/rules`, `engine/allocators`, `engine/rematerialising`)."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHOWN = {
    "five.py": "2.760923",
    "decoding.py": "1000 tokens, a cache of (1000, 16)",
    "own_operator.py": "softplus",
    "own_rule.py": "100.693",
    "own_allocator.py": "largest_first",
    "own_device.py": "bytes in a file",
    "own_strategy.py": "keep_the_dearest",
}


@pytest.mark.parametrize(("name", "words"), SHOWN.items(), ids=SHOWN)
def test_an_example_runs(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert words in capsys.readouterr().out
