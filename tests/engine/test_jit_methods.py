"""Methods under jit: the object is the first argument, as a tree or by its identity (`engine/jit`)."""

from __future__ import annotations

import functools
import inspect
import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import define

import nnc_func as nnc
from nnc_func import nn

EAGER, LAZY = nnc.eager(), nnc.lazy()
STACKS = {"eager": EAGER, "lazy": LAZY}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
either = pytest.mark.parametrize("control_flow", [False, True])
X = np.array([1.0, -2.0, 3.0])


@each_stack
@either
def test_an_object_of_a_users_class(stack: Any, control_flow: bool) -> None:
    traced: list[Any] = []

    class Scaled:
        def __init__(self, by: float) -> None:
            self.by = by

        @stack.jit(control_flow=control_flow)
        def applied(self, x: Any, more: float = 0.0) -> Any:
            """Scaled, and more."""
            traced.append(self)
            return self.twice(x) * self.by + more

        @stack.jit(control_flow=control_flow)
        def twice(self, x: Any) -> Any:
            return x * 2

    two, three = Scaled(2.0), Scaled(3.0)
    for _ in range(3):  # the third call is written out
        for scaled in (two, three):
            assert scaled.applied(X).numpy().tolist() == (X * 2 * scaled.by).tolist()
            assert Scaled.applied(scaled, X, more=1.0).numpy().tolist() == (X * 2 * scaled.by + 1).tolist()
    assert two.applied(X, 0.5).numpy().tolist() == (X * 4 + 0.5).tolist()
    assert two.applied.__doc__ == "Scaled, and more."
    if stack is LAZY:
        assert (traced.count(two), traced.count(three)) == (3, 2)
        assert Scaled.applied.traces == 5
    slope = stack.grad(lambda x: stack.ops.sum(three.applied(x) ** 2))(stack.asarray(X))
    np.testing.assert_allclose(slope.numpy(), 2 * 36 * X)
    rows = nnc.vmap(two.applied)(stack.asarray(np.stack([X, X])))
    np.testing.assert_allclose(rows.numpy(), np.stack([X * 4] * 2))


@each_stack
def test_control_flow_that_a_tensor_decides(stack: Any) -> None:
    class Halved:
        __slots__ = ("least",)

        def __init__(self, least: float) -> None:
            self.least = least

        @stack.jit(control_flow=True, strict=True)
        def until(self, x: Any) -> Any:
            count = 0
            while x.sum() > self.least:
                if x[0] > 1:
                    x = x / 2
                else:
                    x = x - 1
                count += 1
            return x, count

    def plainly(x: Any, least: float) -> Any:
        count = 0
        while x.sum() > least:
            x = x / 2 if x[0] > 1 else x - 1
            count += 1
        return x, count

    for least in (1.0, -3.0):
        halved = Halved(least)
        for x in (np.array([5.0, 2.0]), np.array([0.5, 20.0]), np.zeros(2)):
            (found, count), (wanted, times) = halved.until(x), plainly(x, least)
            np.testing.assert_allclose(found.numpy(), wanted)
            assert count.item() == times
    assert "while" in Halved.until.source or "loop" in Halved.until.source


@either
def test_a_module_is_a_tree(control_flow: bool) -> None:
    @nn.module
    class Twice(nn.Module):
        inner: nn.Dense

        @LAZY.jit(control_flow=control_flow)
        def predicted(self, x: Any) -> Any:
            return self(self(x))

        def forward(self, x: Any, context: Any = None) -> Any:
            return self.inner(x, context)

    model = Twice(nn.Dense(3)).init(seed=0, shape=(None, 3))
    dense = model.inner
    x = np.ones((2, 3), "float32")
    for _ in range(3):
        np.testing.assert_allclose(model.predicted(x).numpy(), dense(dense(LAZY.asarray(x))).numpy(), rtol=1e-6)
    other = Twice(nn.Dense(3)).init(seed=1, shape=(None, 3))
    found = other.predicted(x).numpy()
    assert not np.allclose(found, model.predicted(x).numpy())
    assert Twice.predicted.traces == 1  # other parameters are other arguments


def test_objects_that_are_equal_or_have_no_hash() -> None:
    @dataclass
    class Scaled:
        by: float

        @LAZY.jit
        def applied(self, x: Any) -> Any:
            return x * self.by

    one, other = Scaled(2.0), Scaled(3.0)
    for _ in range(3):
        assert one.applied(X).numpy().tolist() == (X * 2).tolist()
    one.by = 3.0  # now they are equal, and what was traced of one is not what the other is
    assert one == other
    for _ in range(3):
        assert other.applied(X).numpy().tolist() == (X * 3).tolist()


def test_static_and_given_up_arguments_are_counted_with_the_object() -> None:
    class Power:
        @LAZY.jit(static=(2,), donate=(1,))
        def of(self, x: Any, n: Any) -> Any:
            return x ** len(n)

    power, x = Power(), np.array([2.0, 3.0])
    for n in ("ab", "abc", "ab"):
        assert power.of(x.copy(), n).numpy().tolist() == (x ** len(n)).tolist()
    assert Power.of.traces == 2


def test_a_method_that_is_given_to_a_class_later() -> None:
    class Scaled:
        by = 2.0

        def applied(self, x: Any) -> Any:
            return x * self.by

    Scaled.applied = LAZY.jit(Scaled.applied)  # type: ignore[method-assign]
    for _ in range(3):
        assert Scaled().applied(X).numpy().tolist() == (X * 2).tolist()


class Kept:
    """At the top of a module, so that it pickles."""

    @LAZY.jit
    def applied(self, x: Any) -> Any:
        """A half."""
        return x / 2


def test_a_bound_method_is_pickled_with_its_object() -> None:
    applied = pickle.loads(pickle.dumps(Kept().applied))
    assert applied(X).numpy().tolist() == (X / 2).tolist()
    assert Kept.applied is Kept.__dict__["applied"]


def test_static_methods_and_functions_are_as_they_were() -> None:
    class Functions:
        @staticmethod
        @LAZY.jit
        def doubled(x: Any) -> Any:
            return x * 2

        @classmethod
        @LAZY.jit
        def named(cls, x: Any) -> Any:
            return x * len(cls.__name__)

    assert Functions().doubled(X).numpy().tolist() == (X * 2).tolist()
    assert Functions.named(X).numpy().tolist() == (X * 9).tolist()
    with pytest.raises(nnc.errors.DeviceError, match="given a Kept"):
        LAZY.jit(lambda it, x: x)(Kept(), X)


# --- what a method may not do to its object ----------------------------------------------------------------


@each_stack
@either
def test_a_method_that_writes_into_its_object_is_refused(stack: Any, control_flow: bool) -> None:
    class Kept:
        def __init__(self) -> None:
            self.h, self.n = stack.asarray([0.0, 0, 0]), 0

        @stack.jit(control_flow=control_flow)
        def rebound(self, x: Any) -> Any:
            self.h = self.h + x
            return self.h * 2

        @stack.jit(control_flow=control_flow)
        def counted(self, x: Any) -> Any:
            self.n = self.n + 1
            return x * 2

        @stack.jit(control_flow=control_flow)
        def in_place(self, x: Any) -> Any:
            self.h += x
            self.h[0] = 7.0
            return self.h * 2

        @stack.jit(control_flow=control_flow)
        def new(self, x: Any) -> Any:
            self.last = [x + 1]
            return x * 2

        @stack.jit(control_flow=control_flow)
        def deleted(self, x: Any) -> Any:
            del self.n
            return x * 2

        @stack.jit(control_flow=control_flow)
        def failing(self, x: Any) -> Any:
            self.h = self.h + x
            raise KeyError("amid")

    kept = Kept()
    h, before = kept.h, dict(vars(kept))
    for _ in range(2):
        for method, name in (("rebound", "h"), ("counted", "n"), ("in_place", "h"), ("new", "last"), ("deleted", "n")):
            with pytest.raises(nnc.errors.TracingError, match=rf"Kept\.{method} writes into self\.{name}.*variable"):
                getattr(kept, method)(X)
            assert vars(kept) == before
            assert kept.h is h
            assert h.numpy().tolist() == [0, 0, 0]
        with pytest.raises(KeyError, match="amid"):
            kept.failing(X)
        assert kept.h is h


@each_stack
@either
def test_a_branch_that_writes_into_the_object_is_refused(stack: Any, control_flow: bool) -> None:
    class Narrow:
        __slots__ = ("h", "later")

        def __init__(self) -> None:
            self.h = stack.asarray(X)

        @stack.jit(control_flow=True)
        def branched(self, x: Any) -> Any:
            if x.sum() > 0:
                self.h = self.h + x
            return self.h * 2

        @stack.jit(control_flow=control_flow)
        def new(self, x: Any) -> Any:
            self.later = x + 1
            return self.later * 2

    narrow = Narrow()
    h = narrow.h
    for method, name in (("branched", "h"), ("new", "later")):
        with pytest.raises(nnc.errors.TracingError, match=rf"Narrow\.{method} writes into self\.{name}"):
            getattr(narrow, method)(X)
        assert narrow.h is h
        assert not hasattr(narrow, "later")


@each_stack
def test_a_tree_that_is_written_into_is_refused(stack: Any) -> None:
    @dataclass
    class Inner:
        is_tree: ClassVar[bool] = True
        v: Any

    @define(slots=True)
    class Model:
        is_tree: ClassVar[bool] = True
        w: Any
        inner: Any

        @stack.jit
        def own(self, x: Any) -> Any:
            self.w = self.w + 1
            return x * self.w

        @stack.jit
        def in_place(self, x: Any) -> Any:
            self.w += 1
            return x * self.w

        @stack.jit
        def within(self, x: Any) -> Any:
            self.inner.v = self.inner.v + 1
            return x * self.inner.v

    model = Model(X, Inner(X))
    for method, name in (("own", "w"), ("in_place", "w"), ("within", r"inner\.v")):
        for _ in range(2):
            with pytest.raises(
                nnc.errors.TracingError, match=rf"Model\.{method} writes into self\.{name}.*next object"
            ):
                getattr(model, method)(X)
    assert model.w is X
    assert model.inner.v is X


@each_stack
@either
def test_what_an_object_keeps_once_and_variables(stack: Any, control_flow: bool) -> None:
    class Cached:
        def __init__(self) -> None:
            self.total = stack.variable("total", np.zeros(3))

        @functools.cached_property
        def by(self) -> float:
            return 2.0

        @functools.cached_property
        def mask(self) -> Any:
            return stack.asarray([1.0, 0.0, 1.0]) * 2

        @stack.jit(control_flow=control_flow)
        def applied(self, x: Any) -> Any:
            return x * self.by * self.mask + self.total

    cached = Cached()
    for n in range(4):
        cached.total.value.assign(np.full(3, float(n)))
        assert cached.applied(X).numpy().tolist() == (X * 2 * [2, 0, 2] + n).tolist()
    assert cached.mask.numpy().tolist() == [2, 0, 2]


# --- what a bound method offers ----------------------------------------------------------------------------


def test_programs_and_tuning_of_a_bound_method() -> None:
    class Gram:
        @LAZY.jit
        def of(self, x: Any, by: Any = 1.0) -> Any:
            return x @ x.T * by

    gram, x = Gram(), np.ones((8, 4), "float32")
    program = gram.of.program(x, by=2.0)
    assert program is gram.of.program(x, by=2.0) is Gram.of.program(gram, x, by=2.0)
    assert program(x).tolist() == (x @ x.T * 2).tolist()
    assert gram.of.autotune(x, budget=0.05).program is gram.of.program(x)
    assert gram.of(x).numpy().tolist() == (x @ x.T).tolist()
    assert [*inspect.signature(gram.of).parameters] == ["x", "by"]
    assert gram.of == gram.of
    assert gram.of != Gram().of
    assert len({gram.of, gram.of}) == 1
    assert gram.of.traces == Gram.of.traces == 2


# --- objects as other arguments ----------------------------------------------------------------------------


@each_stack
def test_objects_that_are_no_arguments_are_named(stack: Any) -> None:
    class Plain:
        @stack.jit
        def two(self, q: Any, x: Any) -> Any:
            return x * 2

        @property
        @stack.jit
        def half(self) -> Any:
            return stack.asarray(X) / 2

        @property
        @stack.jit(static="self")
        def double(self) -> Any:
            return stack.asarray(X) * 2

    plain = Plain()
    wanted = r"argument {} of .*given a Plain.*static='{}'.*is_tree = True"
    for call, name, told in (
        (lambda: plain.two(Plain(), X), "q", "q"),
        (lambda: plain.two(x=X, q=Plain()), "q", "q"),
        (lambda: plain.two({"a": [Plain()]}, X), r"q\.a\.0", "q"),
        (lambda: plain.half, "self", "self"),
        (lambda: stack.jit(lambda x: plain.two(plain, x))(X), "q", "q"),
        (lambda: stack.jit(lambda *rest: 1)(X, plain), "1", "1"),
    ):
        with pytest.raises(nnc.errors.DeviceError, match=wanted.format(name, told).replace("'1'", "1")):
            call()
    for _ in range(3):
        assert plain.double.numpy().tolist() == (X * 2).tolist()
