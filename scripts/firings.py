"""Fire every rule of the library so many times, and write on how many graphs no counterexample was found.

python scripts/firings.py                        20,000 firings each, which takes hours; it goes on where it was
python scripts/firings.py merge_slices           some, again
python scripts/firings.py --least 3000 --seconds 600
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests" / "golden" / "firings.json"
LEAST = 20_000
START = 300  # firings that are asked for first: a family's instances, and classes, make more of them
MOST = 1 << 20


def judged(rule: Any, stack: Any, least: int) -> dict[str, Any]:
    """What the test kit says of a rule in so many firings at least, and of which text that is."""
    from nnc_func.testing.rules import examined

    wanted = min(START, least)
    while True:
        start = time.process_time()
        report = examined(rule, stack, examples=wanted, conditions=False)
        seconds = time.process_time() - start
        if report.faults or report.missing or report.fired >= least or wanted >= MOST:
            break
        wanted = min(MOST, math.ceil(1.1 * wanted * least / max(report.fired, 1)))
    found = {"rule": str(rule), "firings": report.fired, "classes": report.classes, "seconds": round(seconds, 1)}
    if report.faults or report.missing:
        found["verdict"] = str(report)
    return found


def results() -> dict[str, dict[str, Any]]:
    """What is committed."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def count(rule: Any, found: dict[str, dict[str, Any]]) -> int:
    """Firings of a rule without a counterexample; 0 where its text has changed since, or nothing is known."""
    entry = found.get(rule.name, {})
    return entry["firings"] if entry.get("rule") == str(rule) and "verdict" not in entry else 0


def written(found: dict[str, Any]) -> str:
    """The text of the file: an entry a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in sorted(found.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Of the command line."""
    sys.path.insert(0, str(ROOT))  # the list of rules is beside the tests
    import nnc_func as nnc
    from tests.graph.shipped import drawn_rules, stack_for

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--least", type=int, default=LEAST, help="firings of each rule")
    parser.add_argument("--seconds", type=float, default=math.inf, help="judge no further rule after that long")
    given = parser.parse_args()
    lazy, start, wrong = nnc.lazy(), time.monotonic(), []
    for rule in drawn_rules():
        found = results()
        again = rule.name in given.names if given.names else count(rule, found) < given.least
        if not again or time.monotonic() - start > given.seconds:
            continue
        entry = judged(rule, stack_for(rule, lazy), given.least)
        RESULTS.write_text(written(results() | {rule.name: entry}))
        print(f"{rule.name}: {entry.get('verdict', entry['classes'])} ({entry['seconds']} s)", flush=True)
        wrong += [rule.name] * ("verdict" in entry)
    print(f"{len(wrong)} refuted or not judged: {', '.join(wrong) or 'none'}")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
