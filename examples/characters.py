"""Characters by a long short-term memory: trained by one loop forward and one backward, then sampled by a third.

The text is this file's own first lines. Each character that is sampled depends on the one before, so that sampling is a
loop, too; its randomness is that of a key into which the number of the character is folded: the same on every stack.

python examples/characters.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func import nn

TEXT = (__doc__ or "").replace("\n", " ")
KINDS = sorted(set(TEXT))
FEATURES, UNITS, WINDOW, MOST = 8, 24, 20, 60


def made() -> Any:
    """Characters as vectors, a long short-term memory, scores of the next character."""
    layers = nn.Embedding(len(KINDS), FEATURES), nn.LSTM(UNITS), nn.Dense(len(KINDS))
    return nn.Sequential(*layers).init(0, (None, WINDOW), "int64")


def pairs() -> tuple[Any, Any]:
    """Windows of the text, and the characters after each of theirs."""
    numbers = np.array([KINDS.index(c) for c in TEXT])
    starts = np.arange(0, len(numbers) - WINDOW - 1, 5)[:, None] + np.arange(WINDOW)
    return numbers[starts], numbers[starts + 1]


def loss(stack: Any, model: Any, given: Any, wanted: Any) -> Any:
    """Mean cross-entropy of the next character."""
    chances = stack.ops.log_softmax(model(given), axis=-1)
    hits = stack.ops.take_along_axis(chances, wanted[:, :, None], axis=2)
    return -hits.mean()


def sampled(stack: Any, model: Any, first: Any, key: Any) -> Any:
    """MOST characters after a first one, each drawn by its chances: the largest of scores with Gumbel's noise."""
    ops = stack.ops
    embedding, memory, scores = model.layers

    def step(carried: Any, _: Any) -> Any:
        number, kind, *states = carried
        states = ops.lstm_cell(
            ops.take(embedding.weight, kind, axis=0)[None], *states, memory.weight, memory.recurrent, memory.bias
        )
        uniform = ops.random_uniform(ops.random_fold_in(key, number), shape=(len(KINDS),), low=1e-6, high=1.0)
        noise = -ops.log(-ops.log(uniform))
        kind = ops.argmax(scores(states[0])[0] + noise, axis=0)
        return (number + 1, kind, *states), kind

    zeros = stack.asarray(np.zeros((1, UNITS), "float32"))
    return stack.scan(step, (0, first, zeros, zeros), None, length=MOST)[1]


def main() -> None:
    """Train on a lazy stack, and sample on both."""
    eager, lazy, model = nnc.eager(), nnc.lazy(), made()
    given, wanted = pairs()
    weights, rest, merge = nn.partition(model)

    def step(given: Any, wanted: Any, *weights: Any) -> Any:
        value, slopes = lazy.value_and_grad(
            lambda *weights: loss(lazy, merge(weights, rest), given, wanted), argnums=tuple(range(len(weights)))
        )(*weights)
        return value, [w - 2.0 * g for w, g in zip(weights, slopes, strict=True)]

    trained, values = lazy.jit(step), []
    for _ in range(60):
        value, weights = trained(given, wanted, *weights)
        values.append(value.item())
    assert values[-1] < 0.75 * values[0]
    print(f"cross-entropy {values[0]:.2f}, then {values[-1]:.2f}")
    arrays = [w.numpy() for w in weights]
    texts = []
    for stack in (eager, lazy):
        own = merge([*map(stack.asarray, arrays)], rest)
        texts.append(sampled(stack, own, stack.asarray(np.int64(0)), stack.key(1)).numpy())
    assert (texts[0] == texts[1]).all()
    print("".join(KINDS[n] for n in texts[0]))


if __name__ == "__main__":
    main()
