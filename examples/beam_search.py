"""Beam search as one loop that ends when its data say so: the same on every stack, and in one graph.

A decoder gives scores of the next word for each of k beams. Of all k times as many candidates the k best go on; a beam
that has ended is kept as it is. The search ends once all have, or at the most words; the best beam is that of the
largest score divided by its length to a power (Wu et al., Google's neural machine translation system, 2016).

python examples/beam_search.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nnc_func as nnc

END, WIDTH, MOST, POWER = 0, 3, 12, 0.7
WORDS, UNITS = 9, 5
Weights = tuple[np.ndarray[Any, Any], ...]


def drawn(seed: int) -> Weights:
    """Random weights of a recurrent decoder: of words, of its state, of scores."""
    draw = np.random.default_rng(seed)
    return tuple(draw.normal(size=shape) * 1.5 for shape in ((WORDS, UNITS), (UNITS, UNITS), (UNITS, WORDS)))


def search(stack: Any, weights: Weights, start: Any) -> tuple[Any, Any, Any]:
    """The words of the best beam, how many there are, and its score; `start` is the decoder's state, (units,)."""
    ops = stack.ops
    table, recurrent, out = map(stack.asarray, weights)
    places = stack.asarray(np.arange(MOST))
    only_end = stack.asarray(np.where(np.arange(WORDS) == END, 0.0, -np.inf))

    def goes_on(beams: Any) -> Any:
        return ops.logical_and(beams["n"] < MOST, ops.logical_not(beams["done"].all()))

    def step(beams: Any) -> Any:
        state = ops.tanh(ops.take(table, beams["word"], axis=0) + beams["state"] @ recurrent)
        scores = ops.where(beams["done"][:, None], only_end, ops.log_softmax(state @ out, axis=-1))
        best, chosen = ops.top_k((beams["score"][:, None] + scores).reshape((WIDTH * WORDS,)), k=WIDTH, axis=0)
        parent, word = chosen // WORDS, chosen % WORDS
        ended = ops.take(beams["done"], parent, axis=0)
        words = ops.where(places == beams["n"], word[:, None], ops.take(beams["words"], parent, axis=0))
        return None, {
            "word": word, "words": words, "score": best, "state": ops.take(state, parent, axis=0),
            "length": ops.take(beams["length"], parent, axis=0) + ops.where(ended, 0, 1),
            "done": ops.logical_or(ended, word == END), "n": beams["n"] + 1,
        }  # fmt: skip

    first = {
        "word": np.zeros(WIDTH, "int64"), "words": np.zeros((WIDTH, MOST), "int64"),
        "score": np.where(np.arange(WIDTH) == 0, 0.0, -np.inf),  # all begin alike: one counts
        "state": ops.broadcast_to(start, shape=(WIDTH, UNITS)), "length": np.zeros(WIDTH, "int64"),
        "done": np.zeros(WIDTH, bool), "n": 0,
    }  # fmt: skip
    _, beams, _ = stack.while_loop(goes_on, step, first, max_iterations=MOST)
    score = beams["score"] / beams["length"].astype("float64") ** POWER
    best = ops.argmax(score, axis=0)
    return beams["words"][best], beams["length"][best], score[best]


def by_hand(weights: Weights, start: Any) -> tuple[list[int], float]:
    """The same in plain Python: lists of beams, sorted."""
    table, recurrent, out = weights
    beams: list[tuple[float, list[int], Any, bool]] = [(0.0, [], start, False)]
    for _ in range(MOST):
        if all(done for *_, done in beams):
            break
        found: list[tuple[float, list[int], Any, bool]] = []
        for score, words, state, done in beams:
            if done:
                found.append((score, words, state, True))
                continue
            state = np.tanh(table[words[-1] if words else 0] + state @ recurrent)
            logits = state @ out
            logits = logits - logits.max()
            chances = logits - np.log(np.exp(logits).sum())
            found += [(score + chances[w], [*words, w], state, w == END) for w in range(WORDS)]
        beams = sorted(found, key=lambda beam: -beam[0])[:WIDTH]
    words, score = max(((b[1], b[0] / len(b[1]) ** POWER) for b in beams), key=lambda pair: pair[1])
    return words, score


def main() -> None:
    """Search with several weights by two stacks, and by hand."""
    eager, lazy = nnc.eager(), nnc.lazy()
    weights = drawn(0)
    start = lazy.input("start", (UNITS,), "float64")
    program: Callable[..., Any] = lazy.compile([start], list(search(lazy, weights, start)))
    for seed in range(8):
        state = np.random.default_rng(seed).normal(size=UNITS)
        wanted, best = by_hand(weights, state)
        at_once = [x.numpy() for x in search(eager, weights, eager.asarray(state))]
        for words, length, score in (at_once, program(state)):
            assert words[:length].tolist() == wanted
            np.testing.assert_allclose(score, best)
        print(f"{best:8.4f}  {' '.join(map(str, wanted))}")


if __name__ == "__main__":
    main()
