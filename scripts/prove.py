"""Prove every rule of the library, and write what is proved where documents and tests read it.

python scripts/prove.py                 elementwise instances and movement, which takes a quarter of an hour
python scripts/prove.py merge_slices    some, the others staying as they are
python scripts/prove.py --of other      instances of that kind: elementwise, movement or other (hours)
python scripts/prove.py --check         say what is proved no longer, and write nothing (nightly)
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests" / "golden" / "proofs.json"
KINDS = ("elementwise", "movement", "other")


def proved(name: str, kinds: Any, before: Any, prover: Any, device: Any) -> list[dict[str, Any]]:
    """Of each instance of a rule what is proved, by dtype, and why the others are not; of other kinds as it was."""
    from nnc_func.graph.ops import CATALOGUE
    from nnc_func.graph.rules import RULES
    from nnc_func.testing.proofs.rules import kind_of, prove_instance

    (rule,) = (r for r in RULES if r.name == name)
    found = []
    had = {entry["instance"]: entry for entry in before}
    for instance in rule.instances(CATALOGUE):
        if kind_of(instance) not in kinds:
            found += [had[str(instance)]] if str(instance) in had else []
            continue
        verdicts = prove_instance(instance, prover, device)
        entry: dict[str, Any] = {"instance": str(instance), "of": kind_of(instance)}
        for v in verdicts:
            cases = entry.setdefault(v.verdict, {} if v.verdict != "proved" else [])
            if v.verdict == "proved":
                cases.append(v.case)
            else:
                cases[v.case] = v.reason
        if min((v.ranks for v in verdicts), default=4) < 4:
            entry["ranks"] = min(v.ranks for v in verdicts)
        entry["firings"] = sum(v.firings for v in verdicts)
        found.append(entry)
    return found


def results() -> dict[str, list[dict[str, Any]]]:
    """What is committed."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def written(found: dict[str, Any]) -> str:
    """The text of the file: an entry a line."""
    lines = []
    for name, entries in sorted(found.items()):
        inside = ",\n".join(f"  {json.dumps(e, ensure_ascii=False)}" for e in entries)
        lines.append(f'"{name}": [\n{inside}\n]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Of the command line."""
    from nnc_func.device.cpu import NumPy
    from nnc_func.graph.rules import RULES, Family, Rule
    from nnc_func.testing.proofs.equality import Prover

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--of", choices=KINDS, action="append")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    names = given.names or [r.name for r in RULES if isinstance(r, (Rule, Family))]
    before, prover, device = results(), Prover(), NumPy()
    found = {name: entries for name, entries in before.items() if name in {r.name for r in RULES}}
    worse = []
    for name in names:
        found[name] = proved(name, given.of or KINDS[:2], before.get(name, ()), prover, device)
        counts = Counter(what for e in found[name] for what in e if what in ("proved", "unknown", "vacuous", "refuted"))
        print(f"{name}: {dict(counts)}", flush=True)
        had = {(e["instance"], case) for e in before.get(name, ()) for case in e.get("proved", ())}
        have = {(e["instance"], case) for e in found[name] for case in e.get("proved", ())}
        worse += sorted(had - have)
        if not given.check:
            RESULTS.write_text(written(found))
    if given.check and worse:
        raise SystemExit("\n".join([f"{len(worse)} were proved, and are not:", *map(str, worse)]))


if __name__ == "__main__":
    main()
