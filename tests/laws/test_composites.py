"""Every composite keeps the laws of a function of operators: one value on every engine (`graph/composites`)."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.facets.samples import Samples, Tolerance
from nnc_func.graph import composites
from nnc_func.graph.composite import Composite
from nnc_func.graph.composites import COMPOSITES
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.testing.comparing import equal
from nnc_func.testing.samples import arguments
from tests.profiles import examples

LAZY, EAGER = nnc.lazy(), nnc.eager()

every = pytest.mark.parametrize("composite", COMPOSITES.values(), ids=str)


def _tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_each_is_found_where_it_is_declared() -> None:
    modules = [import_module(f"{composites.__name__}.{name}") for _, name, _ in iter_modules(composites.__path__)]
    members = [(module.__name__, each) for module in modules for each in vars(module).values()]
    declared = [(where, c) for where, c in members if isinstance(c, Composite) and c.module == where]
    assert len({c.name for _, c in declared}) == len(declared), "two of one name"
    assert {c.name: (where, c) for where, c in declared} == {name: (c.module, c) for name, c in COMPOSITES.items()}
    assert not {*COMPOSITES} & {*CATALOGUE}, "one is called as an operator is"


@every
def test_its_entry_is_complete(composite: Composite) -> None:
    assert composite.doc.split("\n\n")[0].endswith("."), composite.doc
    assert set(composite.params) == set(composite.converters), "each parameter is annotated with how it is converted"
    assert isinstance(composite.samples, Samples)
    assert isinstance(composite.tolerance, Tolerance)


@every
@examples(few=3, nightly=200)
@given(data=st.data())
def test_engines_agree_with_what_is_inferred(composite: Composite, data: Any) -> None:
    arrays, params = data.draw(arguments(composite))
    tensors = [EAGER.asarray(x) for x in arrays]
    eager = _tuple(getattr(EAGER.ops, composite.name)(*tensors, **params))
    inputs = [LAZY.input(f"x{n}", x.shape, x.dtype) for n, x in enumerate(arrays)]
    outputs = _tuple(getattr(LAZY.ops, composite.name)(*inputs, **params))
    lazy = LAZY.compile(inputs=inputs, outputs=list(outputs))(*arrays)
    abstract = Ops(EAGER.shape.bind, CATALOGUE).functions
    inferred = _tuple(composite.over(abstract, *[t.aval for t in tensors], **params))
    for one, other, aval, symbolic in zip(eager, lazy, inferred, outputs, strict=True):
        assert (one.shape, one.dtype) == (aval.shape, aval.dtype) == (symbolic.shape, symbolic.dtype)
        equal(np.asarray(other), one.numpy(), composite.tolerance.ulps, f"{composite}: lazy against eager")
