"""Damaged files of allocation problems are read, or refused in words (`engine/allocators/problems`)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest

from nnc_func.engine.allocators.problems.fields import Gap
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.errors import PlanError
from tests.damage import changed_json, changed_text
from tests.hostile import Tally, attempted

PROBLEM = Problem(
    [64, 32, 7, 100], [0, 2, 1, 5], [9, 4, 3, 6], [64, 1, 8, 4], pins=[0, -1, -1, -1],
    gaps=[Gap(0, 1, 2, (0, 16)), Gap(0, 4, 5)], names=["a", "b", "c", "d"],
)  # fmt: skip
GROUPED = Problem([64, 64, 7], [0, 2, 1], [9, 4, 3], 1, groups=[-1, 0, 0], spaces=[0, 1, 1], capacity=1000)


def case(number: int) -> tuple[str, bytes]:
    random = Random(number)
    if number % 2:
        text, change = random.choice((PROBLEM, GROUPED)).to_json(), changed_json
    else:
        text, change = PROBLEM.to_csv([0, 64, 128, 192]), changed_text
    content, done = text.encode(), []
    for _ in range(random.choice((1, 1, 2))):
        what, content = change(content, random)
        done.append(what)
    return f"{change.__name__}: {'; '.join(done)}", content


def attempt(content: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        is_json = content.lstrip()[:1] == b"{"
        problem = Problem.from_json(Path(file.name)) if is_json else Problem.from_csv(Path(file.name))
    assert problem.max_load >= 0


def check(tally: Tally) -> None:
    assert not tally.faults, str(tally)
    assert tally.refused > tally.accepted > 0


def test_damaged_problems_are_read_or_refused() -> None:
    check(attempted(case, attempt, range(600)))


@pytest.mark.slow
def test_many_damaged_problems_are_read_or_refused() -> None:
    check(attempted(case, attempt, range(600, 10_000)))


@pytest.mark.parametrize("gap", ["1" * 5000 + "-2", "1-2@0:" + "1" * 5000, "١-٢"])
def test_gaps_of_numbers_that_are_none(gap: str) -> None:
    with pytest.raises(PlanError, match="line 2, column gaps: wanted lower-upper"):
        Problem.from_csv(f"id,lower,upper,size,gaps\na,0,9,64,{gap}\n")


@pytest.mark.parametrize("fields", ['"sizes": [1], "sizes": [2]', '"sizes": [' * 100, '"sizes": [1e999]'])
def test_json_that_is_none_of_ours(fields: str) -> None:
    with pytest.raises(PlanError, match="this is no JSON of ours"):
        Problem.from_json(f'{{\n"lower": [0], "upper": [1], {fields}}}')
