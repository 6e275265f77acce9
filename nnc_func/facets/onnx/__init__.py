"""What operators are in ONNX: the vocabulary of the facet `onnx`, by family.

The facet is a name, of the ONNX operator with the same signature (its arguments are brought to the dtype of the
result, or, of a question, to the one that they have in common); or a function of this package, ``(g, *tensors,
**parameters)``, which gives what stands for the result; or a `Refused` with the reason.

`g` is an algebra. A capitalised name is an ONNX operator, ``g.ReduceSum(x, g.integers(axes), keepdims=0)``: its
operands are brought to a wider dtype where it does not take theirs. Any other name is an operator of ours, ``g.add(x,
1)``, written by its own facet. ``g.result`` is what is known of the result; what is given has that dtype afterwards.
Only results of our operators, and arguments, know their shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def describe_as(what: str) -> Callable[[Any], Any]:
    """Give a function of the vocabulary a docstring: what one that is made for an operator stands for.

    Examples
    --------
    >>> describe_as("Floor, of floats.")(lambda g, x: g.Floor(x)).__doc__
    'Floor, of floats.'
    """

    def decorate(function: Any) -> Any:
        function.__doc__ = what
        return function

    return decorate
