"""Texts where one operator has other parameters or operands: read or refused in words (`graph/text`, `graph/ops`)."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.text.writing import parsed, printed
from nnc_func.testing.samples import arguments
from tests.damage import changed_text
from tests.hostile import Tally, attempted

NAMES = sorted(name for name, op in CATALOGUE.items() if op.pure)


@cache
def texts(name: str) -> tuple[str, ...]:
    """Some graphs of that operator alone."""
    found: list[str] = []

    @settings(max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(arguments(CATALOGUE[name]))
    def collect(drawn: Any) -> None:
        arrays, params = drawn
        lazy = nnc.lazy()
        inputs = [lazy.symbol.input(f"x{at}", Aval(a.shape, a.dtype)) for at, a in enumerate(arrays)]
        results = lazy.operator.bind(CATALOGUE[name], *inputs, **params)
        found.append(printed(lazy.graph.close(inputs, results if isinstance(results, tuple) else (results,))))

    collect()
    return tuple(found)


def case(number: int) -> tuple[str, bytes]:
    random = Random(number)
    name = NAMES[number % len(NAMES)]
    text = random.choice(texts(name)).encode()
    done = []
    for _ in range(random.choice((1, 1, 2, 3))):
        what, text = changed_text(text, random)
        done.append(what)
    return f"{name}: {'; '.join(done)}", text


def attempt(content: bytes) -> None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    printed(parsed(text, nnc.lazy()))


def check(tally: Tally) -> None:
    assert not tally.faults, str(tally)
    assert tally.refused > tally.accepted > 0


def test_an_operator_with_other_parameters_is_read_or_refused() -> None:
    check(attempted(case, attempt, range(2 * len(NAMES))))


@pytest.mark.slow
def test_many_operators_with_other_parameters_are_read_or_refused() -> None:
    check(attempted(case, attempt, range(2 * len(NAMES), 40 * len(NAMES))))
