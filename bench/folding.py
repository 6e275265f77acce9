"""ResNet-50 at 224 x 224 with constant weights: batch norms folded into convolutions, against not folded, not fused.

python bench/folding.py [--threads 2] [--rounds 15] [--smallest]: prints a table, writes bench/results/folding.json. The
smallest size has fewer blocks, and images of 32 x 32, or the zoo's reduced network. "Not fused" rewrites by all rules
but those that fuse or fold, "fused" is the default stack, "folded" is the default stack with fast math, which folding
needs: lazy programs of one network. Then the zoo's ResNet-50, whose images have channels last: these, and "eager",
operator by operator. Bar: folded at least 1.15 times as fast as eager.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before NumPy loads its BLAS: where threadpoolctl is not installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

from typing import Any

import numpy as np
from measure import alternating, options, pinned, report
from resnet import SMALLEST, STAGES, Both

import nnc_func as nnc
from nnc_func import models
from nnc_func.tree import mapped

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


def programs(side: int, stages: Any) -> dict[str, Any]:
    """The network on each stack, channels first."""
    found = {}
    for name, stack in stacks().items():
        both = Both(stack, 1, side)
        result = both.resnet(stages)
        found[name] = stack.compile([both.input], result)
    return found


def of_the_zoo(model: Any) -> dict[str, Any]:
    """The zoo's network computed at once, and on each stack."""
    drawn, eager = model.network(1), nnc.eager()
    immediate = mapped(eager.asarray, drawn)
    found: dict[str, Any] = {"eager": lambda x: np.asarray(immediate(eager.asarray(x)))}
    for name, stack in stacks().items():
        given = stack.input("x", (1, *model.shape), model.dtype)
        found[name] = stack.compile([given], mapped(stack.asarray, drawn)(given))
    return found


def rows_of(network: str, made: dict[str, Any], x: Any, rounds: int) -> list[dict[str, Any]]:
    """Compare results with those of the first, then times."""
    first = next(iter(made))
    wanted = made[first](x)
    apart = {name: float(np.abs(p(x) - wanted).max() / np.abs(wanted).max()) for name, p in made.items()}
    taken = alternating({name: lambda p=p: p(x) for name, p in made.items()}, rounds)
    return [
        {
            "network": network,
            "program": name,
            "applications": made[name].graph.statistics["applications"] if name != "eager" else "",
            "ms": 1e3 * seconds,
            "times as fast as not fused": taken["not fused"] / seconds,
            "times as fast as eager": taken["eager"] / seconds if "eager" in taken else "",
            "relative difference": apart[name],
        }
        for name, seconds in taken.items()
    ]


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    side, stages, rounds = (*SMALLEST, 1) if given.smallest else (224, STAGES, given.rounds)
    model = models.get("resnet-50").reduced() if given.smallest else models.get("resnet-50")
    with pinned(given.threads):
        images = np.random.default_rng(1).standard_normal((1, 3, side, side)).astype("float32")
        rows = rows_of("channels first", programs(side, stages), images, rounds)
        images = np.random.default_rng(1).standard_normal((1, *model.shape)).astype("float32")
        rows += rows_of("channels last", of_the_zoo(model), images, rounds)
    report("folding", rows, smallest=given.smallest)
    print(f"bar: folded at least {BAR} times as fast as eager")


if __name__ == "__main__":
    main()
