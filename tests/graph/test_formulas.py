"""Formulas in text and LaTeX, and symbolic mathematics with them (`graph/formulas`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import GraphError
from nnc_func.graph.formulas.formula import MOST, formula

LAZY = nnc.lazy()
O = LAZY.ops  # noqa: E741
x, y = (LAZY.input(name, (), "float64") for name in "xy")
w = LAZY.input("w", (3, 3), "float64")

READ: list[tuple[Any, str, str]] = [
    (O.sin(x) ** 2 - x * 3, "sin(x)**2 - 3*x", r"\sin^{2}\left(x\right) - 3 x"),
    (
        (x + 1) * (y - 2) / (x * y), "(x + 1)*(y - 2)/(x*y)",
        r"\frac{\left(x + 1\right) \left(y - 2\right)}{x y}",
    ),
    (-(x + y) * 2, "-2*(x + y)", r"-2 \left(x + y\right)"),
    (x ** (y + 1), "x**(y + 1)", "x^{y + 1}"),
    ((x + y) ** 2, "(x + y)**2", r"\left(x + y\right)^{2}"),
    (O.exp(-(x**2) / 2), "exp(-x**2/2)", r"e^{-\frac{x^{2}}{2}}"),
    (O.sqrt(1 - x * x), "sqrt(1 - x**2)", r"\sqrt{1 - x^{2}}"),
    (x - (y - x), "x - (y - x)", r"x - \left(y - x\right)"),
    (x - -y, "x + y", "x + y"),
    (2 / x / y, "2/x/y", r"\frac{\frac{2}{x}}{y}"),
    (2 / (x / y), "2/(x/y)", r"\frac{2}{\frac{x}{y}}"),
    (x * -3 + 1e-7, "-3*x + 1e-07", "-3 x + 10^{-7}"),
    (x * (2 * y) * x, "2*x**2*y", "2 x^{2} y"),
    (O.abs(x) * O.maximum(x, 0.5), "abs(x)*maximum(x, 0.5)", r"\left|x\right| \max\left(x, 0.5\right)"),
    ((w.T @ w).sum(), "sum(permute_dims(w) @ w)", r"\sum \left(w^{\mathsf{T}} w\right)"),
    (O.where(x >= 0, x, O.expm1(x)), "where(x >= 0, x, expm1(x))",
     r"\operatorname{where}\left(x \geq 0, x, \operatorname{expm1}\left(x\right)\right)"),
    (w.sum(axis=0), "sum(w, axis=0)", r"\sum_{\mathrm{axis}=\mathrm{0}} w"),
    (w.max(axis=0), "max(w, axis=0)", r"\max\left(w, \mathrm{axis}=\mathrm{0}\right)"),
    (w.sum() * (w + 1).sum(), "sum(w)*sum(w + 1)", r"\left(\sum w\right) \left(\sum \left(w + 1\right)\right)"),
    (O.split(w, sections=3)[1], "split(w, sections=3)[1]",
     r"\operatorname{split}\left(w, \mathrm{sections}=\mathrm{3}\right)_{1}"),
    (O.sin(x) ** -1.0, "sin(x)**(-1)", r"\sin\left(x\right)^{-1}"),
    (x * np.float64("inf"), "inf*x", r"\infty x"),
]  # fmt: skip


@pytest.mark.parametrize(("tensor", "text", "latex"), READ, ids=[text for _, text, _ in READ])
def test_formulas_read_well(tensor: Any, text: str, latex: str) -> None:
    found = tensor.to_formula()
    assert str(found) == text
    assert found.to_latex() == latex
    assert found._repr_latex_() == f"$\\displaystyle {latex}$"


def test_text_of_arithmetic_computes_what_it_says() -> None:
    """Python reads the text back to the same number: brackets are where they must be."""
    a, b = 0.7, -1.9
    names = {"x": a, "y": b, "sin": np.sin, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs, "maximum": np.maximum}
    for tensor, text, _ in READ:
        if not set(text) & set("w[=") and "inf" not in text:
            program = LAZY.compile([x, y], tensor)
            np.testing.assert_allclose(program(np.float64(a), np.float64(b)), eval(text, {}, names), rtol=1e-12)


def test_grouped_formulas_tell_the_order_of_evaluation() -> None:
    assert str(formula((x + (y + x)).value, grouped=True)) == "x + (y + x)"
    assert str(formula((x + (y + x)).value)) == "2*x + y"
    assert str(formula((x * 2 - (y - x * 3)).value)) == "2*x - (y - 3*x)"
    assert str(formula((x - x).value)) == "x - x"
    assert str(formula((x * (y * 2)).value, grouped=True)) == "x*(y*2)"
    assert str(formula(O.negative(-x).value, grouped=True)) == "-(-x)"


def test_what_is_deep_or_long_is_an_ellipsis() -> None:
    deep = x
    for _ in range(3000):
        deep = O.sin(deep) + deep  # shared: it would be written 2**3000 times
    assert len(str(formula(deep.value))) < 20 * MOST
    assert str(formula(O.sin(O.sin(O.sin(x))).value, deep=2)) == "sin(sin(…))"


def test_derivatives_are_simplified_and_read_well() -> None:
    def derivative(function: Any) -> str:
        return str(LAZY.grad(function)(x).simplify().to_formula())

    assert derivative(lambda v: O.sin(v) * O.sin(v)) == "2*sin(x)*cos(x)"
    assert derivative(lambda v: O.tanh(v) * v) == "tanh(x) + x*(1 - tanh(x)**2)"
    assert derivative(lambda v: O.exp(2 * v)) == "2*exp(2*x)"
    assert derivative(lambda v: O.exp(-v * v / 2)) == "-x*exp(-0.5*x**2)"


def test_graphs_are_simplified_and_printed() -> None:
    state = LAZY.variable("rate_1", np.zeros(()))
    graph = LAZY.graph.close([x.value], [(O.negative(-x) * 1).value], [(LAZY.carrier(state), (state + x * 0.5).value)])
    simple = graph.simplify()
    assert simple.statistics["applications"] == 2
    assert simple.source is graph
    assert (
        simple.to_latex()
        == "\\begin{aligned}\ny &= x \\\\\n\\mathrm{rate}_{1} &= \\mathrm{rate}_{1} + 0.5 x\n\\end{aligned}"
    )
    assert LAZY.compile([x], LAZY.ops.exp(x)).source.simplify("exact").outputs[0].node.op.name == "exp"


def test_values_are_no_expressions() -> None:
    eager = nnc.eager().asarray([1.0])
    assert eager.simplify() is eager
    assert eager._repr_latex_() is None
    with pytest.raises(GraphError, match="is a value, not an expression"):
        eager.to_formula()
    assert x._repr_latex_() is None, "a bare input prints as others do"
    assert (x + 1)._repr_latex_() == "$\\displaystyle x + 1$"


def test_results_are_not_named_as_what_they_are_made_of() -> None:
    lazy = nnc.lazy()
    x, y = (lazy.input(name, (), "float64") for name in "xy")
    assert "z &= x y" in lazy.graph.close([x.value, y.value], [(x * y).value]).to_latex()
    assert "y &= x^{2}" in lazy.graph.close([x.value], [(x * x).value]).to_latex()


def test_every_number_is_set_in_latex() -> None:
    c = LAZY.input("c", (), "complex128")
    assert formula((c * 1e-5j).value).to_latex() == "10^{-5}j c"
    assert formula((c + (1e-5 + 2j)).value).to_latex() == "c + (10^{-5}+2j)"
    false = LAZY.graph.close([x.value], [(x > x).value]).simplify()
    assert r"\mathrm{False}" in false.to_latex()
    assert formula(O.where(x > 0, x, float("-inf")).value).to_latex().endswith(r"x, -\infty\right)")


def _loop(x: Any, w: Any) -> Any:
    return LAZY.scan(lambda c, x: (O.tanh(c * w + x), c * x), np.zeros(2), x)


def test_loops_and_branches_are_written_as_what_their_bodies_compute() -> None:
    xs, v, k = LAZY.input("x", (5, 2), "float64"), LAZY.input("w", (2,), "float64"), LAZY.input("k", (), "int64")
    last, rows = _loop(xs, v)
    chosen = LAZY.case_of(k, [lambda a: a * 2, O.sin], x, default=nnc.bypass)
    decided = LAZY.cond(x > 0, lambda: O.sin(x), lambda: x * 2)
    twice = LAZY.fori(0, 3, lambda i, t: LAZY.foreach(lambda r, u: (None, u * r), xs, t)[1], v)
    _, until, _ = LAZY.while_loop(lambda t: t < 50, lambda t: (None, t * y), x)
    steps, set_steps = (
        "c := [0, 0], c <- tanh(c*w + x[t])",
        r"c := \mathrm{[0, 0]},\; c \leftarrow \tanh\left(c w + x_{t}\right)",
    )
    for tensor, read, set_ in (
        (last, f"last(c, {steps})", rf"\operatorname{{last}}\left(c : {set_steps}\right)"),
        (rows, f"rows(c*x[t], {steps})", rf"\operatorname{{rows}}\left(c x_{{t}} : {set_steps}\right)"),
        (decided, "cond(x > 0, sin(x), 2*x)",
         r"\begin{cases} \sin\left(x\right) & \text{if } x > 0 \\ 2 x & \text{otherwise} \end{cases}"),
        (chosen, "case_of(k, 2*x, sin(x), x, default=True)",
         r"\begin{cases} 2 x & \text{if } k = 0 \\ \sin\left(x\right) & \text{if } k = 1 \\ "
         r"x & \text{otherwise} \end{cases}"),
    ):  # fmt: skip
        assert str(formula(tensor.value)) == read
        assert formula(tensor.value).to_latex() == set_
    assert "c_1 <- last(d, d := c_1, d <- d*x[s])" in str(formula(twice.value))
    assert "c_{1} \\leftarrow" in formula(twice.value).to_latex()
    said = str(formula(until.value))
    assert "c_0 <- (c_2*y < 50)" in said
    assert said.endswith("while=c_0)")
    assert "%" not in "".join(str(formula(t.value)) for t in (last, rows, decided, chosen, twice, until))


def test_nodes_of_loops_are_short() -> None:
    xs, v = LAZY.input("x", (5, 2), "float64"), LAZY.input("w", (2,), "float64")
    said = repr(_loop(xs, O.sin(O.cos(v)) + O.exp(v))[0].value.node)
    assert said.startswith("loop(")
    assert "constants=1, carries=1" in said
    assert len(said) < 400
