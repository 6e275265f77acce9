"""The command `rules`: listing, searching, checking, and what rules do to a model."""

from __future__ import annotations

import json

import pytest

from nnc_func.cli import main
from nnc_func.graph.rules import PHASES, RULES


def asked(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    code = main(["rules", *argv])
    found = capsys.readouterr()
    assert code == 0, found.err
    return found.out


def test_all_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [each["name"] for each in json.loads(asked(capsys, "--json"))] == [rule.name for rule in RULES]
    assert f"{len(RULES)} of {len(RULES)} rules" in asked(capsys)


def test_rules_are_found_by_words_and_phase(capsys: pytest.CaptureFixture[str]) -> None:
    assert "drop_cast" in asked(capsys, "cast", "dropped")
    names = {each["name"] for each in json.loads(asked(capsys, "--phase", PHASES[-1].name, "--json"))}
    assert names == {rule.name for rule in PHASES[-1].rules}


def test_a_rule_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(asked(capsys, "--check", "drop_cast", "--examples", "40", "--json"))
    assert found["sound"] is True
    assert found["fired"] > 0


@pytest.mark.parametrize("name", ["drop_transfer", "merge_transfers"])
def test_rules_that_move_values_are_checked_between_places(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "every condition needed" in asked(capsys, "--check", name, "--examples", "40")


def test_what_rules_do_to_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(asked(capsys, "--stats", "lenet-5", "--training", "--json"))
    assert found["applications_after"] < found["applications_before"]
    assert "mostly not since" in asked(capsys, "--stats", "lenet-5")
    steps = json.loads(asked(capsys, "--explain", "lenet-5", "--training", "--json"))["steps"]
    assert len(steps) == found["rewrites"]
    text = asked(capsys, "--explain", "lenet-5", "--training", "--top", "2")
    assert f"… and {len(steps) - 2:,} more" in text


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--check", "drop_cas"], "there is no rule 'drop_cas'; did you mean drop_cast"),
        (["no-such-word"], "no rule has 'no-such-word' in its name or sentence"),
        (["--stats", "lenet"], "did you mean lenet-5"),
    ],
)
def test_what_is_not_there_is_told(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", *argv]) == 1
    assert said in capsys.readouterr().err
