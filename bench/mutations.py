"""Mutations of the shipped rules: how many of them `check_rule` refutes, and which survive.

python bench/mutations.py [--rules NAME ...] [--seconds N] [--claims] [--smallest]: prints a table, writes
bench/results/mutations.json. Rules judged as they are today are not judged again, so it can be stopped, and goes on
where it was. The smallest size is one rule. Bars: >= 0.97 of all mutations refuted, the others explained in
bench/survivors.json as equivalent; medians <= 2 s and <= 4 nodes a counterexample. Mutations that say less of a rule
than it keeps (kind "claim") are sound: counted apart.
"""

from __future__ import annotations

import json
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from measure import earlier, options, report, write

sys.path.insert(0, str(Path(__file__).parents[1]))  # what alters rules is beside the tests

import nnc_func as nnc
from nnc_func.graph.rules import RULES
from tests.graph.mutations import judged, mutations
from tests.graph.shipped import drawn_rules, stack_for

MEMBERS = 3  # of a family of rules, spread over it
EXAMPLES = (60, 300, 1000)  # firings: a mutation that survives is looked at again; one that is explained, twice
LIMIT = 90  # seconds of processor time a mutation: one of which nothing is known then counts as a survivor
SURVIVORS = Path(__file__).parent / "survivors.json"
SMALLEST = ["drop_unit"]


def explained() -> dict[str, str]:
    """Each mutation that survives because it is equivalent, and why it is."""
    return {each: why for why, listed in json.loads(SURVIVORS.read_text()).items() for each in listed}


class OutOfTime(BaseException):
    """No error of what is checked, so that nobody takes it for one."""


def _stop(*_: Any) -> None:
    raise OutOfTime


def timed(mutation: Any, operator: Any) -> dict[str, Any] | None:
    """What became of a mutation; None where it changes nothing."""
    row = {"mutation": str(mutation), "kind": mutation.kind}
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        found = []
        for examples in EXAMPLES[: 2 if str(mutation) in explained() else None]:
            found.append(judged(mutation, operator, examples))
            if found[-1] is None or found[-1].how:
                break
    except OutOfTime:
        return row | {"how": "", "nodes": 0, "seconds": LIMIT, "stopped": True}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    last = found[-1]
    if last is None:
        return None
    return row | {"how": last.how, "nodes": last.nodes, "seconds": round(sum(f.seconds for f in found if f), 2)}


def verdicts(rule: Any, claims: bool) -> list[dict[str, Any]]:
    """Of every mutation of a rule."""
    stack = stack_for(rule, nnc.lazy())
    each = (timed(m, stack.operator) for m in mutations(rule, stack.type.ops, MEMBERS) if claims or m.kind != "claim")
    return [verdict for verdict in each if verdict is not None]


def tables(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Counts of each kind, and of all that say no less than the rule."""
    rows = [row for each in record.values() for row in each["verdicts"]]
    kinds = sorted({row["kind"] for row in rows})
    listed = [(kind, [r for r in rows if r["kind"] == kind]) for kind in kinds]
    known = explained()
    found = []
    for kind, own in [*listed, ("all but claim", [r for r in rows if r["kind"] != "claim"])]:
        refuted = [r for r in own if r["how"]]
        survivors = [r["mutation"] for r in own if not r["how"]]
        nodes = [r["nodes"] for r in refuted if r["nodes"]]
        found.append(
            {
                "kind": kind,
                "rules": len(record),
                "mutations": len(own),
                "refuted": len(refuted),
                "score": len(refuted) / max(1, len(own)),
                "explained": sum(s in known for s in survivors),
                "unexplained": sum(s not in known for s in survivors),
                "median s": statistics.median([r["seconds"] for r in refuted] or [0]),
                "median nodes": statistics.median(nodes or [0]),
                "largest nodes": max(nodes, default=0),
            }
        )
    return found


def main() -> None:
    """Judge what is not recorded, and print the table."""
    parser = options(__doc__)
    parser.add_argument("--rules", nargs="*", help="only these")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="judge no further rule after that long")
    parser.add_argument("--claims", action="store_true", help="those that say less of a rule than it keeps, too")
    given = parser.parse_args()
    record, wanted = ({}, SMALLEST) if given.smallest else (earlier("mutations_of_rules", {}), given.rules)
    record = {r.name: record[r.name] for r in RULES if record.get(r.name, {}).get("rule") == str(r)}
    start = time.perf_counter()
    for rule in drawn_rules():
        if rule.name in record or (wanted and rule.name not in wanted):
            continue
        if time.perf_counter() - start > given.seconds:
            break
        record[rule.name] = {"rule": str(rule), "verdicts": verdicts(rule, given.claims)}
        write("mutations_of_rules", json.dumps(record, indent=1), smallest=given.smallest)
    report("mutations", tables(record), smallest=given.smallest)


if __name__ == "__main__":
    main()
