"""What mypy says of good.py and bad.py, line by line (`stacks`, `layer_protocols`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ERROR = re.compile(r"^(?P<file>.*?\.py):(?P<line>\d+): error: (?P<text>.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """File name to line to message: one run of mypy --strict for all tests of this file."""
    from mypy import api

    out, err, _ = api.run(
        [
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "--cache-dir",
            str(tmp_path_factory.mktemp("mypy")),
            "--follow-imports",
            "silent",  # the library itself is checked by .ci/run
            "--no-error-summary",
            "--hide-error-context",
            "--no-pretty",
            "--strict",
            str(HERE / "good.py"),
            str(HERE / "bad.py"),
        ]
    )
    assert err == "", err
    found: dict[str, dict[int, str]] = {"good.py": {}, "bad.py": {}}
    for match in ERROR.finditer(out):
        found.setdefault(Path(match["file"]).name, {})[int(match["line"])] = match["text"]
    return found


def _marked() -> list[tuple[int, str]]:
    lines = (HERE / "bad.py").read_text(encoding="utf-8").splitlines()
    return [(number, line.split("#")[0].strip()) for number, line in enumerate(lines, 1) if line.endswith("# E")]


def test_mypy_accepts_every_good_composition(errors: dict[str, dict[int, str]]) -> None:
    assert errors["good.py"] == {}


@pytest.mark.parametrize(("number", "text"), _marked(), ids=[text for _, text in _marked()])
def test_mypy_refuses_a_bad_composition(number: int, text: str, errors: dict[str, dict[int, str]]) -> None:
    assert number in errors["bad.py"], f"{text} is accepted"


def test_mypy_refuses_nothing_else(errors: dict[str, dict[int, str]]) -> None:
    marked = {number for number, _ in _marked()}
    assert {line: text for line, text in errors["bad.py"].items() if line not in marked} == {}


def test_messages_say_what_was_wanted(errors: dict[str, dict[int, str]]) -> None:
    number = next(n for n, text in _marked() if text == "Shape(device)")
    assert 'incompatible type "NumPy"; expected "TypeSignature' in errors["bad.py"][number]
