"""Verdicts of `check_rule` at its default settings on a corpus of rules: unsound ones missed, sound ones objected to.

python bench/verdicts.py [--unsound MODULE] [--sound MODULE] [--name NAME] [--smallest]: prints what is to be looked at,
and a table, and writes bench/results/NAME.json. The smallest size is the first rule of each module, which has `CASES`,
or rules. Bars: >= 98 % of unsound rules refuted, median <= 1 s, counterexamples of at most max(4, those of the left
side) nodes, each of which runs as printed; of sound rules none refuted, no condition called not needed, <= 5 % not
judged.
"""

from __future__ import annotations

import ast
import importlib
import signal
import statistics
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from measure import options, pinned, report

sys.path.insert(0, str(Path(__file__).parents[1]))  # the corpus is beside the tests

import nnc_func as nnc
from nnc_func.errors import RuleError
from nnc_func.graph.rules import Rule
from nnc_func.graph.rules.pattern import Apply, parts
from nnc_func.graph.rules.signs import subtract_negative
from nnc_func.testing import check_rule

LIMIT = 120  # seconds of processor time a rule
SAID = {  # what a verdict says, in words of the kit; the first that is found counts
    "not sound": "refuted",
    "not judged": "not judged",
    "graphs made from its own left side": "not judged",  # it fires on too few of them
    "is not needed": "not needed",
}


class OutOfTime(BaseException):
    """No error of what is checked, so that nobody takes it for one."""


@contextmanager
def limited() -> Iterator[None]:
    """Stop what takes longer than the limit."""

    def stop(*_: Any) -> None:
        raise OutOfTime

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def judged(rule: Rule, subject: str) -> dict[str, Any]:
    """The verdict on a rule: what the kit says of it, how long that took, and what its counterexample is worth."""
    start = process_time()
    try:
        with limited():
            text, raised = str(check_rule(rule, nnc.eager())), False
    except RuleError as error:
        text, raised = str(error), True
    except OutOfTime:
        text, raised = f"not judged: stopped after {LIMIT} s", True
    except Exception as error:  # the kit must not fail, whatever the rule is
        text, raised = f"{type(error).__name__}: {error}", True
    seconds = process_time() - start
    verdict = next((v for words, v in SAID.items() if words in text), "objected" if raised else "sound")
    found = {"rule": rule.name, "subject": subject, "verdict": verdict, "seconds": round(seconds, 3)}
    found["left"] = sum(isinstance(part, Apply) for part in parts(rule.lhs))
    if verdict == "refuted":
        found |= counterexample(text)
    elif verdict != "sound":
        found["said"] = text.splitlines()[1] if "\n" in text else text
    return found


def counterexample(text: str) -> dict[str, Any]:
    """How many operators the first counterexample in a message has, and whether it runs, and shows a difference."""
    code = printed(text)
    names: dict[str, Any] = {}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exec(code, names)
    except Exception as error:
        if "before" in names and "the program fails" in text:  # that is what it shows
            return {"nodes": nodes(code), "runs": True, "differs": True}
        return {"nodes": nodes(code), "runs": False, "why": f"{type(error).__name__}: {error}"}
    if "before" not in names:
        return {"nodes": nodes(code), "runs": False, "why": "it prints no code"}
    return {"nodes": nodes(code), "runs": True, "differs": "after" not in names or differ(*map(names.get, SIDES))}


SIDES = ("before", "after")


def printed(text: str) -> str:
    """The first program in a message: from its import to the last line with which it is Python."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if line == "import nnc_func as nnc"]
    if not starts:
        return ""
    rest = lines[starts[0] :]
    return next(code for n in range(len(rest), 0, -1) if is_python(code := "\n".join(rest[:n])))


def is_python(code: str) -> bool:
    """Whether it can be parsed."""
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def nodes(code: str) -> int:
    """The operators that are applied up to the left side's value."""
    count = 0
    for line in ast.parse(code).body:
        calls = (each.func for each in ast.walk(line) if isinstance(each, ast.Call))
        count += sum(isinstance(f, ast.Attribute) and getattr(f.value, "id", "") == "ops" for f in calls)
        if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == "before":
            break
    return count


def differ(before: Any, after: Any) -> bool:
    """Whether two results differ in shape, dtype or a bit; NaN is like NaN."""
    one, other = (np.asarray(x.numpy() if hasattr(x, "numpy") else x) for x in (before, after))
    if one.dtype != other.dtype or one.shape != other.shape:
        return True
    if one.dtype.kind == "c":
        one, other = (np.stack([x.real, x.imag]) for x in (one, other))
    same = np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return not same or (one.dtype.kind == "f" and bool(np.any((np.signbit(one) != np.signbit(other)) & (one == one))))


def cases(module: str) -> list[tuple[Rule, str]]:
    """The rules of a module, by its `CASES` or as its members, each with its subject."""
    found = importlib.import_module(module)
    if hasattr(found, "CASES"):
        return [(case.rule, case.subject) for case in found.CASES]
    return [(each, "") for each in vars(found).values() if isinstance(each, Rule)]


def summary(kind: str, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of the verdicts on rules of one kind, and what they took."""
    counted = {v: sum(row["verdict"] == v for row in verdicts) for v in (*dict.fromkeys(SAID.values()), "objected")}
    seconds = [row["seconds"] for row in verdicts]
    refuted = [row for row in verdicts if row["verdict"] == "refuted"]
    shown = [row["nodes"] for row in refuted]
    return {
        "rules": kind,
        "judged": len(verdicts),
        "sound": sum(row["verdict"] == "sound" for row in verdicts),
        **counted,
        "median s": statistics.median(seconds or [0]),
        "largest s": max(seconds, default=0),
        "median nodes": statistics.median(shown or [0]),
        "largest nodes": max(shown, default=0),
        "too many nodes": sum(row["nodes"] > max(4, row["left"]) for row in refuted),
        "do not run": sum(not row["runs"] for row in refuted),
        "show nothing": sum(row["runs"] and not row["differs"] for row in refuted),
    }


def main() -> None:
    """Judge both kinds of rules, and print what is to be looked at, and the counts."""
    parser = options(__doc__)
    parser.add_argument("--unsound", default="tests.testing.corpus.unsound", help="module of rules that are wrong")
    parser.add_argument("--sound", default="tests.testing.corpus.sound", help="module of rules that are right")
    parser.add_argument(
        "--name", default="verdicts", choices=("verdicts", "verdicts_before", "verdicts_fresh", "verdicts_unseen")
    )
    given = parser.parse_args()
    rows, details = [], []
    with pinned(1):
        check_rule(subtract_negative, nnc.eager())  # imports are not measured
        for kind, wanted in (("unsound", "refuted"), ("sound", "sound")):
            verdicts = [judged(*case) for case in cases(getattr(given, kind))[: 1 if given.smallest else None]]
            for row in verdicts:
                if row["verdict"] != wanted or row.get("runs") is False:
                    print(f"{kind} {row['rule']}: {row['verdict']}: {row.get('said') or row.get('why', '')}")
            rows.append(summary(kind, verdicts))
            details += [{"kind": kind, **row} for row in verdicts]
    report(given.name, rows, details, smallest=given.smallest)


if __name__ == "__main__":
    main()
