"""Allocators beside each other: ratios, means, profiles, and answers that are wrong or missing (`engine/comparing`)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest

from nnc_func.engine.allocators import ALLOCATORS, BestFit, Gap, NoReuse, Problem, arena_size
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
    assert found.best("large").allocator == "best_fit"


def test_a_profile_says_how_often_one_is_near_the_best() -> None:
    profile = compare(BOTH, {n: ALLOCATORS[n] for n in ("best_fit", "no_reuse")}).profile((1.0, 1.4, 1.5))
    assert profile == {"best_fit": {1.0: 1.0, 1.4: 1.0, 1.5: 1.0}, "no_reuse": {1.0: 0.0, 1.4: 0.5, 1.5: 1.0}}


def test_a_wrong_answer_is_a_fault() -> None:
    with pytest.raises(PlanError, match=r"the allocator .* is wrong about .*overlap"):
        compare(BOTH, {"overlapping": overlapping})


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
