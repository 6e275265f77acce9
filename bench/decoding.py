"""Greedy decoding by attention with a cache that grows by a row a token: plans made, and milliseconds a doubling.

`while_loop(..., dynamic=True)` carries the keys and the values of all tokens so far. Attention reads them all, so that
its own cost grows with the square of the number of tokens: it is the same products and softmax in bare NumPy, on slices
of arrays that are as long as they will be. What is beyond that ought to double with the number of tokens. First is the
time of the first call, with all its plans; then it is called again, in turns with the bare attention.

python bench/decoding.py [--smallest]: prints a table, writes bench/results/decoding.json.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
from measure import alternating, options, pinned, report

import nnc_func as nnc

SIZE, WIDTH = 64, 64  # tokens, and features of each


def weights() -> dict[str, Any]:
    """Of one layer of attention with one head."""
    draw = np.random.default_rng(0)
    return {name: draw.normal(0, 1, (SIZE if name == "table" else WIDTH, WIDTH)) / 8 for name in ("table", *"qkvo")}


def decoder(stack: Any) -> Any:
    """A function from a first token and a number of tokens to tokens."""
    w, ops = {name: stack.asarray(array) for name, array in weights().items()}, stack.ops

    def step(token: Any, keys: Any, values: Any) -> Any:
        x = ops.take(w["table"], token, axis=0)
        keys = ops.concat(keys, x[None] @ w["k"], axis=0)
        values = ops.concat(values, x[None] @ w["v"], axis=0)
        shares = ops.softmax(keys @ (x @ w["q"]), axis=0)
        token = ops.argmax(w["table"] @ ((shares @ values) @ w["o"] + x), axis=0)
        return token, (token, keys, values)

    def decode(first: int, most: int) -> Any:
        empty = np.zeros((0, WIDTH))
        start = (stack.asarray(np.int64(first)), empty, empty)
        tokens, _, _ = stack.while_loop(
            lambda token, keys, values: token >= 0, step, start, max_iterations=most, dynamic=True
        )
        return tokens.numpy()

    return decode


def by_hand(first: int, most: int) -> list[int]:
    """The same tokens, in NumPy."""
    w, token, found = weights(), first, list[int]()
    keys, values = np.empty((most, WIDTH)), np.empty((most, WIDTH))
    for n in range(1, most + 1):
        x = w["table"][token]
        keys[n - 1], values[n - 1] = x @ w["k"], x @ w["v"]
        token = int(np.argmax(w["table"] @ ((attention(x @ w["q"], keys[:n]) @ values[:n]) @ w["o"] + x)))
        found.append(token)
    return found


def attention(query: Any, keys: Any) -> Any:
    """Shares of the rows."""
    scores = keys @ query
    scores -= scores.max()
    np.exp(scores, out=scores)
    scores /= scores.sum()
    return scores


def bare(most: int) -> None:
    """Attention over one row, two rows … and nothing else."""
    draw = np.random.default_rng(1)
    keys, values, query = draw.normal(size=(most, WIDTH)), draw.normal(size=(most, WIDTH)), draw.normal(size=WIDTH)
    for n in range(1, most + 1):
        attention(query, keys[:n]) @ values[:n]


def row(most: int, rounds: int) -> dict[str, Any]:
    """One number of tokens."""
    lazy = nnc.lazy()
    decode, start = decoder(lazy), time.perf_counter()
    found = decode(1, most)
    first = time.perf_counter() - start
    assert found.tolist() == by_hand(1, most)
    taken = alternating({"ours": lambda: decode(1, most), "bare": lambda: bare(most)}, rounds)
    return {
        "tokens": most,
        "plans": sum(step.plans for step in lazy.engine.growing.values()),
        "first ms": 1e3 * first,
        "ms": 1e3 * taken["ours"],
        "attention ms": 1e3 * taken["bare"],
        "beyond ms": 1e3 * (taken["ours"] - taken["bare"]),
        "µs a token beyond": 1e6 * (taken["ours"] - taken["bare"]) / most,
    }


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    with pinned(1):
        rows = [row(most, 3 if given.smallest else 11) for most in ((8,) if given.smallest else (250, 500, 1000, 2000))]
    for one, two in pairwise(rows):
        two["a doubling"] = two["beyond ms"] / one["beyond ms"]
    report("decoding", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
