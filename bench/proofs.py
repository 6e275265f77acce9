"""How long proofs of rules take: whole numbers, orders of axes, slices, reshapes.

python bench/proofs.py [--smallest]: prints a table, writes bench/results/proofs.json. It needs the extra `proofs`.
"""

from __future__ import annotations

import time

from measure import options, peer, report

from nnc_func.device.cpu import NumPy
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules import RULES

SMALLEST = ("add_negative", "merge_transposes", "drop_slice")
FULL = (
    *("add_negative", "drop_absorbed", "factor_out", "gather_constants"),  # integers of up to 64 bits
    *("merge_transposes", "merge_slices", "slice_before_pad", "merge_reshapes", "merge_pads", "merge_tiles"),
)


def rows(names: tuple[str, ...]) -> list[dict[str, object]]:
    """Of each rule how many instances are proved, in how many ways they fire, and the seconds."""
    from nnc_func.testing.proofs.equality import Prover
    from nnc_func.testing.proofs.rules import kind_of, prove_instance

    found = []
    for name in names:
        (rule,) = (r for r in RULES if r.name == name)
        prover, device = Prover(), NumPy()
        start = time.perf_counter()
        verdicts = [
            v for i in rule.instances(CATALOGUE) if kind_of(i) != "other" for v in prove_instance(i, prover, device)
        ]
        seconds = time.perf_counter() - start
        firings = sum(v.firings for v in verdicts)
        found.append({
            "rule": name, "proved": sum(v.verdict == "proved" for v in verdicts), "of": len(verdicts),
            "firings": firings, "seconds": round(seconds, 2), "ms a firing": round(1e3 * seconds / max(firings, 1), 2),
            "queries": prover.queries, "slowest query ms": round(1e3 * prover.slowest, 1),
        })  # fmt: skip
    return found


def main() -> None:
    """Print the table, and write it."""
    given = options(__doc__).parse_args()
    if peer("z3", "nothing is proved"):
        report("proofs", rows(SMALLEST if given.smallest else FULL), smallest=given.smallest)


if __name__ == "__main__":
    main()
