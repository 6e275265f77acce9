"""The corpus that judges the kit: unsound rules are wrong on their witnesses, sound ones are not (`testing/rules`)."""

from __future__ import annotations

import numpy as np
import pytest

from nnc_func.graph.rules.rule import Rule
from tests.testing.corpus import fresh_sound, fresh_unsound, sound, unseen_sound, unseen_unsound, unsound
from tests.testing.corpus.cases import Case
from tests.testing.corpus.sides import agree, fires

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

UNSOUND = (*unsound.CASES, *fresh_unsound.CASES, *unseen_unsound.CASES)
SOUND = (*sound.CASES, *fresh_sound.CASES, *unseen_sound.CASES)


@pytest.mark.parametrize("case", [*UNSOUND, *SOUND], ids=str)
def test_a_rule_fires_on_its_example(case: Case) -> None:
    assert fires(case)


@pytest.mark.parametrize("case", UNSOUND, ids=str)
def test_an_unsound_rule_is_wrong_on_its_witness(case: Case) -> None:
    assert not agree(case)


@pytest.mark.parametrize("case", SOUND, ids=str)
def test_a_sound_rule_is_right_on_its_example(case: Case) -> None:
    assert agree(case)


@pytest.mark.parametrize(
    ("cases", "count"),
    [
        (unsound.CASES, 60),
        (sound.CASES, 60),
        (fresh_unsound.CASES, 40),
        (fresh_sound.CASES, 40),
        (unseen_unsound.CASES, 40),
        (unseen_sound.CASES, 40),
    ],
    ids=["unsound", "sound", "fresh unsound", "fresh sound", "unseen unsound", "unseen sound"],
)
def test_there_are_as_many_of_each_as_wanted(cases: tuple[Case, ...], count: int) -> None:
    assert len(cases) == count
    assert all(isinstance(case.rule, Rule) for case in cases)


def test_each_rule_has_a_name_of_its_own() -> None:
    assert len({case.rule.name for case in (*UNSOUND, *SOUND)}) == len(UNSOUND) + len(SOUND)


def test_witnesses_are_small() -> None:
    """At most 16 elements, but where the left side has none of a smaller image."""
    least = {"pool_in_steps": 7 * 7}
    for case in UNSOUND:
        size = sum(value.size for value in case.example.values() if isinstance(value, np.ndarray))
        assert size <= least.get(case.rule.name, 16), case
