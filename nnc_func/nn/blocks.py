"""Modules made of modules: branches that are added or put side by side, and the blocks of transformers."""

from __future__ import annotations

from typing import Any

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.nn.inputs import stack_of
from nnc_func.nn.layers import Activation, Dense, Dropout, Sequential, gelu
from nnc_func.nn.modules import Context, Module, module, static
from nnc_func.nn.norms import LayerNorm
from nnc_func.nn.sequences import MultiHeadAttention


@module
class Residual(Module):
    """``inner(x) + x``, or ``inner(x) + shortcut(x)`` where shapes differ; He et al., CVPR 2016.

    Examples
    --------
    >>> from nnc_func import nn
    >>> block = Residual(nn.Dense(8), shortcut=nn.Dense(8, biased=False)).init(seed=0, shape=(None, 3))
    >>> nn.count(block)
    56
    """

    inner: Module
    shortcut: Module | None = None

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The sum.

        Raises
        ------
        ShapeError
            The two have different shapes.
        """
        y = self.inner(x, context)
        other = x if self.shortcut is None else self.shortcut(x, context)
        if y.shape != other.shape:
            raise ShapeError(f"a residual block adds {y.shape} and {other.shape}: give it a shortcut that fits")
        return y + other


@module
class Concatenate(Module):
    """Several modules, functions and, as None, the input itself, applied to one input and put side by side.

    Szegedy et al., CVPR 2015, with modules; Huang et al., CVPR 2017, with the input: ``Concatenate(None, layers)``.

    Examples
    --------
    >>> from nnc_func import nn
    >>> block = Concatenate(None, nn.Dense(2), nn.Dense(3)).init(seed=0, shape=(None, 4))
    >>> block(nn.abstract.Abstract().tensor((None, 4), "float32")).shape[1]
    9
    """

    branches: tuple[Module | None, ...]
    axis: int = static(default=-1)

    def __init__(self, *branches: Any, axis: int = -1) -> None:
        for each in branches:
            if each is not None and not callable(each):
                raise OperatorError(f"Concatenate is made of modules, functions and None, given {each!r}")
        made = [each if each is None or isinstance(each, Module) else Activation(each) for each in branches]
        object.__setattr__(self, "branches", tuple(made))
        object.__setattr__(self, "axis", axis)

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """What all of them give, along the axis."""
        found = [x if each is None else each(x, context) for each in self.branches]
        return stack_of(found).ops.concat(*found, axis=self.axis)

    def __repr__(self) -> str:
        return f"Concatenate({', '.join(map(repr, self.branches))})"


def transformer_block(
    features: int,
    heads: int,
    hidden: int | None = None,
    *,
    causal: bool = False,
    norm_first: bool = True,
    dropout: float = 0.0,
    activation: Any = gelu,
    epsilon: float = 1e-5,
    initialiser: Any = None,
) -> Module:
    """Attention and two dense layers, each normalised and added to its input; Vaswani et al., NeurIPS 2017.

    Parameters
    ----------
    features
        Of the input and the result, ``(…, positions, features)``.
    hidden
        Units between the dense layers; four times the features unless given.
    causal
        Positions attend to themselves and those before them only.
    norm_first
        Normalise what goes into each part (Xiong et al., ICML 2020); else the sums, as in the paper.
    initialiser
        Of all weights.

    Examples
    --------
    >>> from nnc_func import nn
    >>> block = transformer_block(16, heads=4, causal=True).init(seed=0, shape=(None, 10, 16))
    >>> nn.count(block)  # 12 features², and 13 features
    3280
    """
    drawn = {} if initialiser is None else {"initialiser": initialiser}
    attention = MultiHeadAttention(heads, causal=causal, dropout=dropout, **drawn)
    dense = Sequential(Dense(hidden or 4 * features, **drawn), activation, Dense(features, **drawn))
    parts = [Sequential(each, Dropout(dropout)) if dropout else each for each in (attention, dense)]
    layers: list[Module] = []
    for part in parts:
        norm = LayerNorm(epsilon=epsilon)
        layers += [Residual(Sequential(norm, part))] if norm_first else [Residual(part), norm]
    return Sequential(*layers)
