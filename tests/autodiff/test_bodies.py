"""Derivatives of bodies: what moves because it is fed by what moves, and how often each is made (`autodiff/bodies`)."""

from __future__ import annotations

from typing import Any

import pytest

import nnc_func as nnc
from nnc_func.autodiff.bodies import BodyDerivatives, Derived
from nnc_func.body import Application, Body
from nnc_func.graph.ops import CATALOGUE as OPS

AVALS = [nnc.Aval((3,), "float32")] * 4
CHAIN = Body(  # a constant, then carries: each is made of the next one, and the last one of the constant
    4,
    [Application(OPS["tanh"], (2,)), Application(OPS["sin"], (3,)), Application(OPS["multiply"], (3, 0))],
    (4, 5, 6),
)
ways = pytest.mark.parametrize("way", ["tangent", "cotangent"])


@ways
def test_what_is_fed_by_what_moves_moves_too(way: str) -> None:
    derive = getattr(BodyDerivatives(nnc.lazy().autodiff), way)
    found: Derived = derive(CHAIN, AVALS, frozenset({0}), (1, 2, 3))
    whole: Derived = derive(CHAIN, AVALS, frozenset({0, 1, 2, 3}))
    assert found.moving == whole.moving == {0, 1, 2, 3}
    assert found.moved == whole.moved == (True, True, True)
    assert found.body == whole.body
    assert found.reached == whole.reached


@ways
def test_nothing_is_fed_unless_it_is_said(way: str) -> None:
    derive = getattr(BodyDerivatives(nnc.lazy().autodiff), way)
    alone: Derived = derive(CHAIN, AVALS, frozenset({0}))
    assert alone.moving == {0}
    assert alone.moved == (False, False, True)
    some: Derived = derive(CHAIN, AVALS, frozenset({2}), (1, 2))  # the last result is no parameter's next value
    assert some.moving == {1, 2}
    assert some.moved == (True, False, False)


@ways
def test_a_body_is_written_once_however_many_steps_settle_what_moves(way: str, monkeypatch: Any) -> None:
    derive, written = BodyDerivatives(nnc.lazy().autodiff), []
    take = derive._taken_apart
    monkeypatch.setattr(derive, "_taken_apart", lambda *given: written.append(given) or take(*given))
    for _ in range(2):
        getattr(derive, way)(CHAIN, AVALS, frozenset({0}), (1, 2, 3))
    assert len(written) == 1
