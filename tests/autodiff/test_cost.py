"""What reverse mode costs, in FLOPs counted on Null: at most four times the function (`autodiff`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module bench/derivative_cost.py, whose table is printed and kept beside the others."""
    monkeypatch.syspath_prepend(BENCH)
    import derivative_cost

    return derivative_cost


@pytest.mark.parametrize("name", ["MNIST", "LSTM"])
def test_a_gradient_costs_at_most_four_times_its_function(bench: Any, name: str) -> None:
    stack = nnc.lazy(nnc.Null())
    loss, args = bench.GRAPHS[name](stack)
    forward, _ = bench.counted(stack, loss, args)
    both, _ = bench.counted(stack, stack.value_and_grad(loss), args)
    alone, _ = bench.counted(stack, stack.grad(loss), args)
    assert 1.5 * forward < alone <= both <= 4 * forward  # fewer than one and a half times would be an error of counting


def test_the_count_of_a_product_by_hand(bench: Any) -> None:
    """Σ (a b): 2 n³ for the product, as much for the cotangent of each factor."""
    stack, n = nnc.lazy(nnc.Null()), 64
    a = np.zeros((n, n))

    def f(a: Any, b: Any) -> Any:
        return stack.ops.sum(a @ b)

    product = 2 * n**3
    assert bench.counted(stack, f, (a, a))[0] == pytest.approx(product, rel=0.05)
    assert bench.counted(stack, stack.value_and_grad(f), (a, a))[0] == pytest.approx(2 * product, rel=0.05)
    assert bench.counted(stack, stack.value_and_grad(f, (0, 1)), (a, a))[0] == pytest.approx(3 * product, rel=0.05)
