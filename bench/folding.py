"""ResNet-50 at 224 x 224 with constant weights: batch norms folded into convolutions, against not folded, not fused.

python bench/folding.py [--threads 2] [--rounds 15]: prints a table, writes bench/results/folding.json. All three are
lazy programs of one network: "not fused" rewrites by all rules but those that fuse or fold, "fused" is the default
stack, "folded" is the default stack with fast math, which folding needs.
Bar: folded at least 1.15 times as fast as not fused.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before NumPy loads its BLAS: where threadpoolctl is not installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import argparse
from typing import Any

import numpy as np
from measure import alternating, pinned, report
from resnet import Both

import nnc_func as nnc

BAR = 1.15
BY = ("fuse", "fold_scale", "fold_batch_norm")  # rules whose names begin so fuse or fold


def stacks() -> dict[str, Any]:
    """What is compared."""
    lazy = nnc.lazy()
    plain = [rule.name for rule in lazy.optimiser.rules if rule.name.startswith(BY)]
    return {
        "not fused": lazy.swap(optimiser=lazy.optimiser.without_rules(*plain)),
        "fused": lazy,
        "folded": lazy.swap(optimiser=lazy.optimiser.with_numerics(lazy.optimiser.numerics, fast_math=True)),
    }


def programs() -> dict[str, Any]:
    """The network on each stack."""
    found = {}
    for name, stack in stacks().items():
        both = Both(stack, 1)
        result, _ = both.resnet()
        found[name] = stack.compile([both.input], result)
    return found


def main() -> None:
    """Compare results, then times; print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    x = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype("float32")
    made = programs()
    with pinned(given.threads):
        wanted = made["not fused"](x)
        apart = {name: float(np.abs(p(x) - wanted).max() / np.abs(wanted).max()) for name, p in made.items()}
        taken = alternating({name: lambda p=p: p(x) for name, p in made.items()}, given.rounds)
    report("folding", [
        {
            "program": name,
            "applications": made[name].graph.statistics["applications"],
            "ms": 1e3 * seconds,
            "times as fast as not fused": taken["not fused"] / seconds,
            "relative difference": apart[name],
        }
        for name, seconds in taken.items()
    ])  # fmt: skip
    print(f"bar: folded at least {BAR} times as fast as not fused")


if __name__ == "__main__":
    main()
