"""Allocators beside each other: ratios, means, profiles, what is wrong or missing (`engine/comparing/comparison`)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

import pytest

from nnc_func.engine.allocators import ALLOCATORS, FREE, BestFit, Gap, NoReuse, Problem, arena_size
from nnc_func.engine.allocators.base import lower_bound
from nnc_func.engine.comparing import compare
from nnc_func.engine.drawing.comparison import Answer, comparison_page
from nnc_func.errors import PlanError

EASY = Problem([64, 64, 64], [0, 1, 2], [2, 3, 4])
LARGE = Problem([128, 64, 64], [0, 1, 2], [2, 3, 4])
BOTH = {"easy": EASY, "large": LARGE}


def overlapping(problem: Problem) -> Sequence[int]:
    return [0] * len(problem)


def silent(problem: Problem) -> Sequence[int]:
    raise PlanError("it has no idea")


def test_ratios_and_means() -> None:
    found = compare(BOTH, {n: ALLOCATORS[n] for n in ("best_fit", "no_reuse")}, repeat=3)
    assert [t.ratio for t in found.of("no_reuse")] == [1.5, 256 / 192]
    assert found.means["no_reuse"] == pytest.approx(math.sqrt(1.5 * 256 / 192))
    assert found.means["best_fit"] == 1.0
    assert all(t.is_optimal for t in found.of("best_fit"))
    assert all(t.seconds > 0 for t in found.trials)
    assert found.best("large").by == "best_fit"


def test_a_profile_says_how_often_one_is_near_the_best() -> None:
    profile = compare(BOTH, {n: ALLOCATORS[n] for n in ("best_fit", "no_reuse")}).profile((1.0, 1.4, 1.5))
    assert profile == {"best_fit": {1.0: 1.0, 1.4: 1.0, 1.5: 1.0}, "no_reuse": {1.0: 0.0, 1.4: 0.5, 1.5: 1.0}}


def test_a_wrong_answer_is_a_row_and_the_others_go_on() -> None:
    def raising(problem: Problem) -> Sequence[int]:
        raise ValueError("too bad")

    asked = {"overlapping": overlapping, "raising": raising, "none": lambda _: None, "best_fit": ALLOCATORS["best_fit"]}
    found = compare(BOTH, asked)
    assert [t.kind for t in found.trials] == ["wrong", "raised", "wrong", "answered"] * 2
    assert "buffers 0 and 1 overlap" in found.of("overlapping")[0].error
    assert re.match(r"ValueError: too bad \(.*test_comparing.py:\d+, in raising\)", found.of("raising")[0].error)
    assert next((row["allocator"], row["failures"]) for row in found.summary()) == ("best_fit", 0)
    assert all(row["failures"] == 2 for row in found.summary()[1:])


def test_ratios_are_to_what_pins_leave_possible() -> None:
    pinned = Problem([64, 64, 64], [0, 1, 0], [2, 3, 2], pins=[192, FREE, FREE])
    (trial,) = compare({"pinned": pinned}, {"best_fit": ALLOCATORS["best_fit"]}).trials
    assert (trial.bound, trial.value, trial.is_optimal) == (256, 256, True)
    apart = Problem([64, 64, 32], [0, 0, 0], [1, 1, 1], 1, pins=[FREE, 64, 0], groups=[4, -1, -1], spaces=[0, 0, 1])
    assert lower_bound(apart) == 128 + 32


def test_what_draws_is_asked_once_a_seed_and_a_problem_counts_once() -> None:
    problem = Problem([5, 4, 4, 3, 4], [10, 3, 7, 5, 1], [11, 5, 12, 11, 8], alignment=1)
    asked = {name: ALLOCATORS[name] for name in ("hill_climb", "no_reuse")}
    found = compare({"five": problem, "easy": EASY}, asked, seeds=(0, 1, 2))
    assert [t.seed for t in found.of("hill_climb")] == [0, 1, 2] * 2
    assert [t.seed for t in found.of("no_reuse")] == [None, None]
    assert found.profile((1e9,)) == {"hill_climb": {1e9: 1.0}, "no_reuse": {1e9: 1.0}}
    assert [r["pairs"] for r in found.against("hill_climb")] == [2]
    with pytest.raises(PlanError, match="no trial is of 'best'; there are trials of: hill_climb, no_reuse"):
        found.against("best")
    for seeds in ((), (1, 1), (-1,), (0.5,)):
        with pytest.raises(PlanError, match="wanted one seed or more"):
            compare(BOTH, asked, seeds=seeds)  # type: ignore[arg-type]


def test_no_answer_is_told() -> None:
    found = compare(BOTH, {"silent": silent, "best_fit": ALLOCATORS["best_fit"]})
    assert {t.error for t in found.of("silent")} == {"it has no idea"}
    assert [row["allocator"] for row in found.summary()] == ["best_fit", "silent"]  # the last, whatever its mean
    assert math.isnan(found.means["silent"])
    with pytest.raises(PlanError, match="no allocator has an answer for 'easy'"):
        compare({"easy": EASY}, {"silent": silent}).best("easy")


def test_a_comparison_is_data() -> None:
    found = json.loads(compare(BOTH, {"best_fit": ALLOCATORS["best_fit"]}).to_json())
    assert set(found) == {"summary", "profile", "trials"}
    assert "offsets" not in found["trials"][0]


def test_a_page_has_each_problem_once() -> None:
    answers = [
        Answer(EASY, [0, 64, 0], 128, "one"),
        Answer(EASY, [0, 64, 128], 192, "<b>two</b>"),
        Answer(LARGE, [0, 128, 0], 192, "three", 0.5, ["a", "b", "c"], ["</script>", "", ""]),
    ]
    page = comparison_page("Plans", answers)
    data = json.loads(page.split('id="data">')[1].split("</script>")[0].replace("<\\/", "</"))
    assert [len(p["size"]) for p in data["problems"]] == [3, 3]
    assert [a["problem"] for a in data["answers"]] == [0, 0, 1]
    assert "<b>two</b>" not in page.split("<script")[0]


def test_a_page_draws_what_is_alive_and_one_space_above_another() -> None:
    problem = Problem(
        [64, 64, 32], [0, 1, 0], [6, 4, 6], 1, gaps=[Gap(0, 2, 4), Gap(1, 2, 3, (0, 16))], spaces=[0, 0, 1]
    )
    page = comparison_page("Gaps", [Answer(problem, [0, 64, 0], arena_size(problem, [0, 64, 0]), "one")])
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    (drawn,), (answer,) = data["problems"], data["answers"]
    assert [*zip(drawn["name"], drawn["lower"], drawn["upper"], drawn["size"], answer["offset"], strict=True)] == [
        ("0", 0, 2, 64, 0),
        ("0", 4, 6, 64, 0),
        ("1", 1, 2, 64, 64),
        ("1", 2, 3, 16, 64),
        ("1", 3, 4, 64, 64),
        ("2", 0, 6, 32, 128),
    ]
    assert answer["arena"] == 160


def test_what_is_too_large_for_an_allocator_is_not_asked() -> None:
    both = {"few": Problem([64, 64], [0, 1], [2, 3]), "more": Problem([64] * 3, [0, 1, 2], [2, 3, 4])}
    found = compare(both, {"fit": BestFit(), "none": NoReuse()}, most={"none": 2})
    assert [(t.problem, t.error) for t in found.of("none")] == [("few", ""), ("more", "more than 2 buffers")]
    assert [t.is_optimal for t in found.of("fit")] == [True, True]
    assert found.summary()[-1]["answers"] == 1
