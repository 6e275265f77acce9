"""The character model of Owl's article on computation graphs: examples/lazy_lstm.ml; Wang and Zhao, 2018.

A long short-term memory (Hochreiter and Schmidhuber, 1997) over a window of 100 characters that tells the next one;
188,521 parameters for 65 different characters. Its steps are one loop, forward and backward.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn


def char_lstm(classes: int = 65, features: int = 40, hidden: int = 128, units: int = 512) -> Any:
    """Characters as vectors, a long short-term memory, a dense layer, scores of the next character.

    Examples
    --------
    >>> nn.count(char_lstm().init(0, (None, 100), "int64"))
    188521
    """
    return nn.Sequential(
        nn.Embedding(classes, features), nn.LSTM(hidden, sequences=False),
        nn.Dense(units), nn.relu, nn.Dense(classes),
    )  # fmt: skip
