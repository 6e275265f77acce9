"""Einstein's summation is NumPy's, in the fewest products (`graph/composites/contraction`, `facets/subscripts`).

It is that for any expression, and takes as few products as it must.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import NncError, OperatorError, ShapeError
from nnc_func.facets.subscripts import parsed

EAGER, LAZY = nnc.eager(), nnc.lazy()


@st.composite
def _expressions(draw: Any) -> tuple[str, list[np.ndarray]]:
    """An expression and tensors of small integers, so that every order of additions is exact."""
    sizes = {label: draw(st.integers(0, 3)) for label in "ijkl"}
    dots = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, arrays = [], []
    for _ in range(draw(st.integers(1, 4))):
        letters = draw(st.lists(st.sampled_from("ijkl"), max_size=3))
        shape = [sizes[c] if letters.count(c) > 1 or draw(st.integers(0, 5)) else 1 for c in letters]
        term = "".join(letters)
        if dots and draw(st.booleans()):
            at, span = draw(st.integers(0, len(letters))), draw(st.integers(0, len(dots)))
            term = f"{term[:at]}...{term[at:]}"
            wide = [n if draw(st.integers(0, 3)) else 1 for n in dots[len(dots) - span :]]
            shape = [*shape[:at], *wide, *shape[at:]]
        size = int(np.prod(shape))
        values = draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
        terms.append(term)
        arrays.append(np.array(values, draw(st.sampled_from(("float64", "int64", "int32")))).reshape(shape))
    text = ",".join(terms)
    if draw(st.booleans()):
        used = sorted({c for c in text if c.isalpha()})
        kept = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
        text += "->" + "..." * ("..." in text) + "".join(kept)
    return text, arrays


@given(_expressions(), st.sampled_from((EAGER, EAGER, LAZY)))
def test_it_is_numpys(drawn: Any, stack: Any) -> None:
    text, arrays = drawn
    try:
        wanted = np.einsum(text, *arrays)
    except ValueError:
        with pytest.raises(NncError):
            stack.ops.einsum(*map(stack.asarray, arrays), subscripts=text)
        return
    found = stack.ops.einsum(*map(stack.asarray, arrays), subscripts=text)
    np.testing.assert_array_equal(found.numpy(), wanted, strict=True)


def _nodes(text: str, *shapes: tuple[int, ...]) -> list[str]:
    inputs = [LAZY.input(f"x{i}", shape, "float64") for i, shape in enumerate(shapes)]
    graph = LAZY.compile(inputs, LAZY.ops.einsum(*inputs, subscripts=text)).graph
    return sorted(n.op.name for n in graph.nodes if n.args)


@pytest.mark.parametrize(
    ("text", "shapes", "nodes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], ["matmul"]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)], ["matmul"]),
        ("ij->ji", [(2, 3)], ["permute_dims"]),
        ("ij->j", [(2, 3)], ["sum"]),
        ("ij,ij->ij", [(2, 3), (2, 3)], ["multiply"]),
    ],
)
def test_what_is_one_operator_is_one(text: str, shapes: Any, nodes: list[str]) -> None:
    assert _nodes(text, *shapes) == nodes


def test_one_product_for_two_tensors_and_two_for_three() -> None:
    assert _nodes("abcd,bedf->acef", (2, 3, 4, 5), (3, 2, 5, 6)).count("matmul") == 1
    assert _nodes("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)).count("matmul") == 2


def test_the_order_is_the_cheap_one() -> None:
    inputs = [LAZY.input(f"x{i}", shape, "float64") for i, shape in enumerate([(50, 50), (50, 50), (50, 1)])]
    graph = LAZY.compile(inputs, LAZY.ops.einsum(*inputs, subscripts="ij,jk,kl->il")).graph
    assert all(n.avals[0].size <= 50 for n in graph.nodes if n.args)  # vectors only


def test_unknown_extents() -> None:
    a, b = LAZY.input("a", ("n", "m"), "float64"), LAZY.input("b", ("m", 3), "float64")
    program = LAZY.compile([a, b], LAZY.ops.einsum(a, b, a, subscripts="nm,mk,nl->kl"))
    x, y = np.arange(8.0).reshape(2, 4), np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(program(x, y), np.einsum("nm,mk,nl->kl", x, y, x))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ij,jk->ik", "is for 2 tensors, given 1"),
        ("i", "is for a tensor of rank 1, given one of 2"),
        ("ij->ik", "'k' of the result is in no term"),
        ("ij->ii", "'i' of the result is there twice"),
        ("i1", "no expression for einsum"),
        ("i......", "no expression for einsum"),
        ("...j->j", "axes of '...' are kept"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    with pytest.raises(OperatorError, match=words.replace(".", r"\.")):
        EAGER.ops.einsum(EAGER.asarray(np.ones((2, 3))), subscripts=text)


def test_extents_that_differ_are_refused() -> None:
    x = EAGER.asarray(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="'i' has extents 2 and 3"):
        EAGER.ops.einsum(x, x, subscripts="ij,ki")
    with pytest.raises(ShapeError, match="'i' has extents 2 and 3"):
        EAGER.ops.einsum(x, subscripts="ii")


def test_an_expression_is_data() -> None:
    assert parsed("b...,...a", (2, 2)).result == ("0", "a", "b")
