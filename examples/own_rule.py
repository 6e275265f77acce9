"""A rewrite of one's own: both sides are data, a stack is given it, and the graph shows what it gained."""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE as OPS

logsumexp, log, total, exp = OPS["logsumexp"], OPS["log"], OPS["sum"], OPS["exp"]


@nnc.rule
def stable_log_of_sum(x):
    """The logarithm of a sum of exponentials is one operator, which does not overflow."""
    return nnc.rewrite(log(total(exp(x), axis=None))).to(logsumexp(x, axis=None)).up_to("rounding").with_fast_math()


def energy(x: Any) -> Any:
    """Written as in a textbook: it overflows where an element is above 88 in float32."""
    return log(total(exp(x), axis=None))


def main() -> None:
    """The same function with and without the rule."""
    plain = nnc.lazy()
    allowing = type(plain.optimiser)(plain.operator, fast_math=True)  # it changes where infinities appear
    mine = plain.swap(optimiser=allowing.with_rules(stable_log_of_sum))
    print(stable_log_of_sum)
    for stack in (plain, mine):
        x = stack.input("x", (3,), "float32")
        program = stack.compile(inputs=[x], outputs=energy(x))
        print(program.graph)
        with np.errstate(over="ignore"):
            print(program(np.float32([1, 100, 100])), end="\n\n")


if __name__ == "__main__":
    main()
