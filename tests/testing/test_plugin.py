"""The pytest plugin in a project of somebody else's: fixtures, settings, option, failures (`testing/plugin`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def run(folder: Path, *options: str) -> str:
    """The output of pytest in the folder, with the plugin whether or not the library is installed."""
    command = [sys.executable, "-m", "pytest", "-p", "nnc_func.testing.plugin", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), "PYTEST_ADDOPTS": ""}
    environment.pop("NNC_SPEC", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_project_of_the_documentation(tmp_path: Path) -> None:
    for name, text in re.findall(r"```(?:python|ini)\n# (\S+\.(?:py|ini))\n(.*?)```", PAGE, re.S):
        (tmp_path / name).write_text(text)
    found = run(tmp_path, "-q")
    assert "12 passed" in found, found  # three stacks, and three programs on each


def test_a_failure_shows_its_program_and_the_option_sets_the_level(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from nnc_func.config import config\n"
        "def test_level(): assert config.spec == 2\n"
        "def test_program(program): assert not program.steps\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nnnc_programs = 2\n")
    found = run(tmp_path, "--nnc-spec", "2", "--tb=short")
    assert "2 failed, 1 passed" in found, found
    assert "nnc_func: the program" in found
    assert "program = stack.compile(" in found


def test_fixtures_can_be_overridden_and_nothing_is_imported_for_those_who_use_none(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys, pytest\n"
        "@pytest.fixture\n"
        "def stack(): return 7\n"
        "def test_mine(stack): assert stack == 7\n"
        "def test_nothing():\n"
        "    assert not {'numpy', 'nnc_func.stacks', 'nnc_func.testing.program'} & {*sys.modules}\n"
    )
    assert "2 passed" in run(tmp_path, "-q")


@pytest.mark.parametrize(
    ("setting", "said"),
    [("nnc_stacks = nowhere:mine", "neither eager nor lazy"), ("nnc_programs = few", "is a number")],
)
def test_settings_that_are_wrong_are_told(setting: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(stack): pass\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{setting}\n")
    assert said in run(tmp_path)
