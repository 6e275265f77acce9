"""A sequence told as another one: a recurrent encoder, and a decoder that goes on until it says that it has ended.

Of the form of g2p-en (Park and Kim, 2019), which tells letters as sounds: gated recurrent units whose reset gate acts
after the product, weights in rows (outputs, inputs), a greedy decoder that begins with a symbol of its own. The letters
may be any number: both loops are operators, and there is one graph for all.

python examples/sequence_decoder.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc

LETTERS, SOUNDS, UNITS, MOST = 29, 17, 16, 20
FIRST, LAST = 2, 3  # sounds that begin and end
NAMES = (
    "enc_emb", "enc_w_ih", "enc_w_hh", "enc_b_ih", "enc_b_hh", "dec_emb", "dec_w_ih", "dec_w_hh", "dec_b_ih",
    "dec_b_hh", "fc_w", "fc_b",
)  # fmt: skip


def drawn(seed: int) -> dict[str, Any]:
    """Random weights."""
    draw, gates = np.random.default_rng(seed), 3 * UNITS
    shapes: dict[str, tuple[int, ...]] = {"enc_emb": (LETTERS, UNITS), "dec_emb": (SOUNDS, UNITS)}
    shapes |= {f"{part}_w_{of}": (gates, UNITS) for part in ("enc", "dec") for of in ("ih", "hh")}
    shapes |= {f"{part}_b_{of}": (gates,) for part in ("enc", "dec") for of in ("ih", "hh")}
    shapes |= {"fc_w": (SOUNDS, UNITS), "fc_b": (SOUNDS,)}
    return {name: (draw.normal(size=shapes[name]) * 0.9).astype("float32") for name in NAMES}


def told(stack: Any, weights: dict[str, Any], letters: Any) -> tuple[Any, Any]:
    """The sounds of letters, (letters,) integers: MOST of them, of which as many count as the second result says."""
    ops = stack.ops
    w = {name: stack.asarray(weights[name]) for name in NAMES}
    w |= {name: ops.matrix_transpose(w[name]) for name in NAMES if "_w" in name}
    enc = [w[f"enc_{n}"] for n in ("w_ih", "w_hh", "b_ih", "b_hh")]
    dec = [w[f"dec_{n}"] for n in ("w_ih", "w_hh", "b_ih", "b_hh")]
    begin = stack.asarray(np.zeros((1, UNITS), "float32"))
    _, state = ops.gru(ops.take(w["enc_emb"], letters, axis=0)[None], begin, *enc)

    def step(sound: Any, state: Any) -> Any:
        state = ops.gru_cell(ops.take(w["dec_emb"], sound, axis=0)[None], state, *dec)
        sound = ops.argmax((state @ w["fc_w"] + w["fc_b"])[0], axis=0)
        return sound, (sound, state)

    sounds, (last, _), times = stack.while_loop(
        lambda sound, state: sound != LAST, step, (stack.asarray(np.int64(FIRST)), state), max_iterations=MOST
    )
    return sounds, times - (last == LAST).astype("int64")  # the end is no sound


def by_hand(weights: dict[str, Any], letters: Any) -> list[int]:
    """The same in NumPy, written as the formulas are, gate by gate."""

    def unit(x: Any, h: Any, part: str) -> Any:
        w_ih, w_hh, b_ih, b_hh = (weights[f"{part}_{n}"] for n in ("w_ih", "w_hh", "b_ih", "b_hh"))

        def rows(gate: int) -> slice:
            return slice(gate * UNITS, (gate + 1) * UNITS)

        def sums(gate: int) -> tuple[Any, Any]:
            at = rows(gate)
            return w_ih[at] @ x + b_ih[at], w_hh[at] @ h + b_hh[at]

        reset, update = (1 / (1 + np.exp(-sum(sums(gate)))) for gate in (0, 1))
        given, kept = sums(2)
        new = np.tanh(given + reset * kept)
        return (1 - update) * new + update * h

    h = np.zeros(UNITS, "float32")
    for letter in letters:
        h = unit(weights["enc_emb"][letter], h, "enc")
    found, sound = list[int](), FIRST
    for _ in range(MOST):
        h = unit(weights["dec_emb"][sound], h, "dec")
        sound = int(np.argmax(weights["fc_w"] @ h + weights["fc_b"]))
        if sound == LAST:
            break
        found.append(sound)
    return found


def main() -> None:
    """Words of several lengths by one program, at once, and by hand."""
    eager, lazy = nnc.eager(), nnc.lazy()
    weights = drawn(4)
    letters = lazy.input("letters", ("n",), "int64")
    program = lazy.compile([letters], list(told(lazy, weights, letters)))
    for seed in range(8):
        draw = np.random.default_rng(seed)
        word = draw.integers(3, LETTERS, draw.integers(1, 9))
        wanted = by_hand(weights, word)
        at_once = [x.numpy() for x in told(eager, weights, eager.asarray(word))]
        for sounds, count in (at_once, program(word)):
            assert sounds[:count].tolist() == wanted
        print(f"{''.join(chr(ord('a') + n - 3) for n in word):9} {' '.join(map(str, wanted))}")


if __name__ == "__main__":
    main()
