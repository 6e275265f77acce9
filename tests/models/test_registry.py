"""The zoo's registry: what each network is, without computing anything."""

from __future__ import annotations

import pickle

import pytest

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.errors import OperatorError

every = pytest.mark.parametrize("name", models.names())


@every
def test_a_network_has_the_published_number_of_parameters(name: str) -> None:
    model = models.get(name)
    assert nn.count(model.network(None)) == model.parameters


@every
def test_a_record_says_what_it_is(name: str) -> None:
    model = models.get(name)
    assert model.name == name
    assert f"{model.parameters:,} parameters" in repr(model)
    assert any(year in model.source for year in map(str, range(1990, 2026)))
    assert pickle.loads(pickle.dumps(model)) == model
    assert hash(model) == hash(models.get(name))


@every
def test_a_reduced_one_is_small_and_of_the_same_builder(name: str) -> None:
    model = models.get(name)
    small = model.reduced()
    assert small.builder == model.builder
    assert small.parameters < 100_000
    assert small.parameters < model.parameters


@every
def test_examples_are_drawn_from_a_seed(name: str) -> None:
    model = models.get(name).reduced()
    x, y = model.examples(batch=2, seed=3)
    assert x.shape == (2, *model.shape)
    assert x.dtype == model.dtype
    assert (model.examples(batch=2, seed=3)[0] == x).all()
    assert 0 <= y.min() <= y.max() < model.classes


def test_an_unknown_name_is_answered_with_close_ones() -> None:
    with pytest.raises(OperatorError, match=r"no model 'resnet50'; did you mean resnet-50"):
        models.get("resnet50")
    with pytest.raises(OperatorError, match=r"there are lenet-5, "):
        models.get("?")


def test_options_make_another_record() -> None:
    other = models.get("vgg-16").with_options(shape=(64, 64, 3), classes=7, width=8)
    assert other.parameters == nn.count(other.network(None))
    assert other.make(nnc.lazy(nnc.Null()), batch=2, seed=None).outputs[0].aval.shape == (2, 7)
