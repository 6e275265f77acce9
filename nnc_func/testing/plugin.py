"""The pytest plugin: fixtures `stack` and `program`, and the option ``--nnc-spec``.

It is an entry point of pytest, wherever this library is installed; it imports no more of the library than itself until
a test asks for a fixture.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from functools import cache
from importlib import import_module
from typing import Any

import pytest

USUAL = ("eager", "lazy")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option and the settings."""
    group = parser.getgroup("nnc_func")
    group.addoption(
        "--nnc-spec", type=int, choices=range(4), default=None, metavar="LEVEL",
        help="nnc_func checks itself: 1 verifies plans, 2 computes both sides of rewrites, 3 poisons memory",
    )  # fmt: skip
    parser.addini(
        "nnc_stacks", type="args", default=list(USUAL),
        help="what the fixture `stack` is, in turn: eager, lazy, or module:name of a stack or of what makes one",
    )  # fmt: skip
    parser.addini("nnc_programs", default="5", help="how many random programs the fixture `program` is, in turn")


def pytest_configure(config: pytest.Config) -> None:
    """Set the level for the run, and make the fixtures that the settings ask for."""
    level = config.getoption("--nnc-spec")
    if level is not None:
        os.environ["NNC_SPEC"] = str(level)  # for a library that has not been imported yet, and processes of the run
        if "nnc_func.config" in sys.modules:
            sys.modules["nnc_func.config"].config.spec = level
    config.pluginmanager.register(_fixtures(config.getini("nnc_stacks"), config.getini("nnc_programs")), "nnc_fixtures")


def _fixtures(stacks: list[str], programs: str) -> Any:
    if not programs.isdigit():
        raise pytest.UsageError(f"nnc_programs is a number, given {programs!r}")

    class Fixtures:
        """Fixtures that may be overridden as any other: define one of that name."""

        @pytest.fixture(params=stacks)
        def stack(self, request: pytest.FixtureRequest) -> Any:
            """Each stack of the setting ``nnc_stacks``: what a test says of a stack holds on every one."""
            return _stack(request.param)

        @pytest.fixture(params=range(int(programs)))
        def program(self, request: pytest.FixtureRequest) -> Any:
            """Random programs, always the same ones: as many as the setting ``nnc_programs`` says."""
            return _programs(int(programs))[request.param]

    return Fixtures()


def _stack(name: str) -> Any:
    if name in USUAL:
        return getattr(import_module("nnc_func.stacks"), name)()
    module, _, member = name.partition(":")
    try:
        found = getattr(import_module(module), member)
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(
            f"nnc_stacks names {name!r}, which is neither {' nor '.join(USUAL)} nor module:name: {error}"
        ) from error
    return found if hasattr(found, "swap") else found()


@cache
def _programs(count: int) -> list[Any]:
    from nnc_func.testing.agreement import drawn
    from nnc_func.testing.strategies import programs

    found: list[Any] = []
    drawn(programs().filter(lambda program: len(program.steps) > 0), found.append, count)
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Where a test fails that was given a program, the program as code."""
    report: Any = yield
    program = getattr(item, "funcargs", {}).get("program")
    if report.failed and type(program).__module__ == "nnc_func.testing.program":
        report.sections.append(("nnc_func: the program", str(program)))
    return report
