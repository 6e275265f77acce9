"""The zoo's registry: what each network is, without computing anything (`models/registry`)."""

from __future__ import annotations

import pickle

import pytest

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.errors import OperatorError, ShapeError

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


def test_what_cannot_be_built_is_refused_with_words() -> None:
    lenet = models.get("lenet-5")
    for name in ("vgg-16", "resnet-50", "densenet-121"):
        with pytest.raises(OperatorError, match=r"the depth is one of .*, given 17"):
            models.get(name).with_options(depth=17)
    with pytest.raises(OperatorError, match=r"lenet-5 is not built with foo=3: .*unexpected"):
        lenet.with_options(foo=3)
    with pytest.raises(OperatorError, match="inception-v3 is not built with thinner=0"):
        models.get("inception-v3").with_options(thinner=0)
    with pytest.raises(OperatorError, match=r"resnet-50 is not built with .*width=0: .*zero"):
        models.get("resnet-50").with_options(width=0)
    with pytest.raises(OperatorError, match="has more nodes, given 4"):
        models.get("randomly-wired").with_options(nodes=4)
    with pytest.raises(OperatorError, match="at least 1; given -1"):
        lenet.with_options(classes=-1)
    with pytest.raises(ShapeError, match="rank 4"):
        lenet.with_options(shape=(28,))
    for batch in ("n", 0, -1, 1.5, True, None):
        with pytest.raises(ShapeError, match="at least 1; given"):
            models.summary("lenet-5", batch=batch)
        with pytest.raises(ShapeError, match="at least 1; given"):
            lenet.examples(batch)
    with pytest.raises(OperatorError, match="no model 3"):
        models.summary(3)


def test_options_make_another_record() -> None:
    other = models.get("vgg-16").with_options(shape=(64, 64, 3), classes=7, width=8)
    assert other.parameters == nn.count(other.network(None))
    assert other.make(nnc.lazy(nnc.Null()), batch=2, seed=None).outputs[0].aval.shape == (2, 7)
