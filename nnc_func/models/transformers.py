"""Transformers: an encoder, BERT-base, and a stack of decoder blocks of GPT-2's size.

Vaswani et al., "Attention is all you need", NeurIPS 2017; Devlin et al., "BERT", NAACL 2019: 109,482,240 parameters,
and 1,538 of a classifier of two; Radford et al., "Language models are unsupervised multitask learners", 2019:
124,439,808.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn
from nnc_func.nn.modules import Context, Module, module, parameter, static

DRAWN = nn.Normal(0.02)


@module
class Segments(Module):
    """A learned vector for each of several segments, added to sequences: here to all positions that of the first.

    Examples
    --------
    >>> Segments(2).init(0, (None, 5, 8))
    Segments(count=2, weight=float32[2, 8])
    """

    count: int = static()
    weight: Any = parameter(default=None)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """The vectors, for the features of the aval."""
        return {"weight": DRAWN(key, (self.count, aval.shape[-1]), aval.dtype)}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The sum."""
        return x + self.weight[0]


@module
class First(Module):
    """The first position of sequences.

    Examples
    --------
    >>> First()(nn.abstract.Abstract().tensor((2, 5, 8), "float32")).shape
    (2, 8)
    """

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """What is there."""
        return x[:, 0]


def encoder(
    classes: int = 2, vocabulary: int = 30_522, positions: int = 512, features: int = 768, heads: int = 12,
    layers: int = 12, dropout: float = 0.1,
) -> Any:  # fmt: skip
    """BERT with a classifier of whole sequences, whose segments are all the first.

    Examples
    --------
    >>> nn.count(encoder().init(None, (None, 128), "int64"))
    109483778
    """
    blocks = [
        nn.transformer_block(
            features, heads, norm_first=False, dropout=dropout, epsilon=1e-12, initialiser=DRAWN
        )
        for _ in range(layers)
    ]  # fmt: skip
    return nn.Sequential(
        nn.Embedding(vocabulary, features, initialiser=DRAWN), Segments(2), nn.Positions(positions),
        nn.LayerNorm(epsilon=1e-12), nn.Dropout(dropout), *blocks,
        First(), nn.Dense(features, initialiser=DRAWN), nn.tanh, nn.Dropout(dropout),
        nn.Dense(classes, initialiser=DRAWN),
    )  # fmt: skip


@module
class Decoder(Module):
    """Blocks of causal attention between a table of tokens and scores by the same table.

    Examples
    --------
    >>> nn.count(decoder().init(None, (None, 1024), "int64"))
    124439808
    """

    tokens: Module
    body: Module

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The scores of the token after each position."""
        found = self.body(self.tokens(x, context), context)
        return self.tokens.scores(found, context)  # type: ignore[attr-defined]


def decoder(
    classes: int = 50_257, positions: int = 1024, features: int = 768, heads: int = 12, layers: int = 12,
    dropout: float = 0.1,
) -> Decoder:  # fmt: skip
    """GPT-2: normalisation before each part, gelu by tanh, scores by the table of tokens."""
    blocks = [
        nn.transformer_block(
            features, heads, causal=True, dropout=dropout, activation=nn.gelu_tanh, initialiser=DRAWN
        )
        for _ in range(layers)
    ]  # fmt: skip
    body = nn.Sequential(nn.Positions(positions), nn.Dropout(dropout), *blocks, nn.LayerNorm())
    return Decoder(nn.Embedding(classes, features, initialiser=DRAWN), body)
