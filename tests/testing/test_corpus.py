"""The corpus of rules that judges the test kit: unsound ones are wrong on their witnesses, sound ones are not."""

from __future__ import annotations

import numpy as np
import pytest

from nnc_func.graph.rules.rule import Rule
from tests.testing.corpus import sound, unsound
from tests.testing.corpus.cases import Case
from tests.testing.corpus.sides import agree, fires

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("case", [*unsound.CASES, *sound.CASES], ids=str)
def test_a_rule_fires_on_its_example(case: Case) -> None:
    assert fires(case)


@pytest.mark.parametrize("case", unsound.CASES, ids=str)
def test_an_unsound_rule_is_wrong_on_its_witness(case: Case) -> None:
    assert not agree(case)


@pytest.mark.parametrize("case", sound.CASES, ids=str)
def test_a_sound_rule_is_right_on_its_example(case: Case) -> None:
    assert agree(case)


@pytest.mark.parametrize("cases", [unsound.CASES, sound.CASES], ids=["unsound", "sound"])
def test_there_are_sixty_of_each_with_names_of_their_own(cases: tuple[Case, ...]) -> None:
    assert len({case.rule.name for case in cases}) == len(cases) == 60
    assert all(isinstance(case.rule, Rule) for case in cases)


def test_witnesses_are_small() -> None:
    for case in unsound.CASES:
        assert sum(value.size for value in case.example.values() if isinstance(value, np.ndarray)) <= 16, case
