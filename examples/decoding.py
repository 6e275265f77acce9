"""Greedy decoding with a cache that gets a row a token: traced once, planned seven times, of any length."""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc

SIZE, WIDTH, TOKENS = 32, 16, 1000


def by_hand(w: dict[str, Any], token: int, tokens: int) -> list[int]:
    """The same in plain NumPy."""
    keys, values, found = np.empty((0, WIDTH)), np.empty((0, WIDTH)), list[int]()
    for _ in range(tokens):
        x = w["table"][token]
        keys, values = np.concatenate([keys, [x @ w["k"]]]), np.concatenate([values, [x @ w["v"]]])
        shares = np.exp(keys @ (x @ w["q"]))
        token = int(np.argmax(w["table"] @ (shares / shares.sum() @ values + x @ w["o"])))
        found.append(token)
    return found


def main() -> None:
    """Decode on both engines; and let a loss flow back through all times."""
    draw = np.random.default_rng(0)
    w = {name: draw.normal(0, 0.5, (SIZE if name == "table" else WIDTH, WIDTH)) for name in ("table", *"qkvo")}
    for stack in (nnc.eager(), nnc.lazy()):
        ops, own = stack.ops, {name: stack.asarray(array) for name, array in w.items()}

        def step(token: Any, keys: Any, values: Any, ops: Any = ops, own: Any = own) -> Any:
            x = ops.take(own["table"], token, axis=0)
            keys = ops.concat(keys, (x @ own["k"])[None], axis=0)
            values = ops.concat(values, (x @ own["v"])[None], axis=0)
            found = ops.softmax(keys @ (x @ own["q"]), axis=0) @ values
            token = ops.argmax(own["table"] @ (found + x @ own["o"]), axis=0)
            return token, (token, keys, values)

        empty = np.zeros((0, WIDTH))
        for tokens in (10, TOKENS):  # of any number: nothing is traced or planned anew for it
            found, (_, keys, _), times = stack.while_loop(
                lambda token, keys, values: token >= 0, step, (stack.asarray(1), empty, empty), max_iterations=tokens,
                dynamic=True,
            )  # fmt: skip
            assert found.numpy().tolist() == by_hand(w, 1, tokens)
            print(f"{times.item()} tokens, a cache of {keys.shape}")

    rows = stack.jit(lambda x: x[x[:, 0] > 0].sum(axis=0), dynamic=True)  # as many rows as are true, under jit
    x = draw.normal(size=(6, 2))
    np.testing.assert_allclose(rows(x).numpy(), x[x[:, 0] > 0].sum(axis=0))
    print(rows.program(x))


if __name__ == "__main__":
    main()
