"""The command `rules`: listing, searching, checking, and what rules do to a model (`cli/rules`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import z3  # noqa: F401 - before `mine` puts a copy in the place of sys.modules, which it does not stand

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
    assert found["verdict"].startswith("no counterexample in")
    assert found["judged"] is False  # of forty firings
    assert found["fired"] > 0


@pytest.mark.parametrize("name", ["drop_transfer", "merge_transfers"])
def test_rules_that_move_values_are_checked_between_places(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no counterexample in" in asked(capsys, "--check", name, "--examples", "40")


MINE = """
import nnc_func as nnc
import beside_mine
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import partials
from nnc_func.facets.kernels import reference

print("imported")

@nnc.operator(shape=shapes.broadcast, dtype=dtypes.promote, derivative=partials(lambda o, y, x: o.multiply(2, x)),
              kernels=reference(lambda xp, x: xp.abs(x)))
def size_of(x, /):
    'The absolute value of each element.'

@nnc.rule
def absolute_twice(x):
    'The size of a size is the size.'
    return nnc.rewrite(size_of(size_of(x))).to(size_of(x))

@nnc.rule
def cancel(x, y):
    'What is added and subtracted again is gone.'
    return nnc.rewrite((x + y) - y).to(x)

MOST = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rules of one's own, where one works."""
    (tmp_path / "mine_of_test.py").write_text(MINE)
    (tmp_path / "beside_mine.py").write_text("")
    (tmp_path / "broken_of_test.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "unsaid_of_test.py").write_text(
        "import nnc_func as nnc\n@nnc.rule\ndef f(x): return nnc.rewrite(-x).to(x)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    return tmp_path


@pytest.mark.parametrize("where", ["mine_of_test.py", "{}/mine_of_test.py", "mine_of_test"])
def test_a_rule_of_ones_own_is_checked(where: str, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not where.endswith(".py"):
        sys.path.insert(0, str(mine))  # as it is where Python runs a module
    name = f"{where.format(mine)}:absolute_twice"
    assert main(["rules", "--check", name, "--examples", "40", "--json"]) == 0
    found = capsys.readouterr()
    assert json.loads(found.out)["name"] == "absolute_twice"
    assert found.err == "imported\n"  # what it prints is no part of the answer
    assert main(["rules", "--check", f"{where.format(mine)}:cancel", "--examples", "40"]) == 1
    assert "it is not sound" in capsys.readouterr().err


def test_a_rule_is_proved(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = json.loads(asked(capsys, "--prove", "drop_transpose", "--json"))["verdicts"]
    assert found["verdict"] == "proved"
    assert "unknown" in asked(capsys, "--prove", "mine_of_test.py:absolute_twice")
    assert main(["rules", "--prove", "mine_of_test.py:cancel"]) == 1
    assert "kernels give" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:cancel", "there is no module 'no_such_module'"),
        ("mine_of_test:cancel", "the file is mine_of_test.py:NAME"),
        ("no_such_file.py:cancel", "there is no file 'no_such_file.py'"),
        (":cancel", "names no module"),
        (
            "mine_of_test.py",
            "mine_of_test.py alone names no rule: wanted mine_of_test.py:NAME; its rules are: absolute",
        ),
        ("mine_of_test.py:", "alone names no rule"),
        ("mine_of_test.py:cancle", "there is no 'cancle' in mine_of_test.py; did you mean cancel?"),
        ("mine_of_test.py:MOST", "mine_of_test.py:MOST is no rule, but of type int; nnc.rule makes one"),
        ("beside_mine.py:cancel", "it has no rules"),
        ("broken_of_test.py:cancel", "broken_of_test.py cannot be imported: ModuleNotFoundError"),
        ("unsaid_of_test.py:f", "RuleError: rule f has no docstring"),
    ],
)
def test_what_is_no_rule_of_ones_own_is_told(
    name: str, said: str, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rules", "--check", name]) == 1
    assert said in capsys.readouterr().err


def test_a_module_that_imports_what_is_not_there(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sys.path.insert(0, str(mine))
    assert main(["rules", "--check", "broken_of_test:f"]) == 1
    assert "broken_of_test cannot be imported: ModuleNotFoundError: No module named 'nowhere" in capsys.readouterr().err


def test_known_numbers_are_shown_though_nothing_is_computed(capsys: pytest.CaptureFixture[str]) -> None:
    text = asked(capsys, "--explain", "lenet-5", "--training")
    assert "fold_constants: 1/1 -> 1 " in text
    assert "fold_constants: 1 full -> 1 constant" in text
    assert "[]" not in text
    assert "nothing -> nothing" not in text


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
        (["cast", "--check", "drop_cast"], "'cast' selects rules for the list: --check has none"),
        (["--phase", "simplify", "--stats", "lenet-5"], "--phase selects rules for the list: --stats has none"),
    ],
)
def test_what_is_not_there_is_told(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", *argv]) == 1
    assert said in capsys.readouterr().err
