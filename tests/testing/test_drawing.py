"""What the kit draws: each dtype, rank and relation of extents (`testing/samples`, `testing/fitting`)."""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules import RULES
from nnc_func.graph.rules.conditions import asking, discrete, floating, real, same_aval, same_dtype, that
from nnc_func.graph.rules.pattern import Param, Scalar
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, rewrite, rule
from nnc_func.graph.rules.signs import subtract_negative
from nnc_func.testing.choices import Choices, spread
from nnc_func.testing.classes import SEED
from nnc_func.testing.firings import Forms, class_of, form_of
from nnc_func.testing.instances import made
from nnc_func.testing.numbers import REGIMES, SEEDS, Elements, numbers
from nnc_func.testing.rewrites import quiet
from nnc_func.testing.rules import check_rule, examined
from tests.testing.corpus.fresh_unsound import divide_down_once, drop_overwritten, scale_sum_of_last_axis

EAGER = nnc.eager()
cast, equal, less, hypot, sqrt, square = (OPS[n] for n in ("cast", "equal", "less", "hypot", "sqrt", "square"))
log, log1p, mean, total, maximum, matmul = (OPS[n] for n in ("log", "log1p", "mean", "sum", "maximum", "matmul"))


# --- rules that the kit once took for sound ----------------------------------------------------------------


@rule
def multiply_matrices_by_elements(a, b):
    """A product of square matrices is no product of their elements."""
    product = a @ b
    return rewrite(product).to(a * b).when(same_aval(a, b), same_aval(a, product)).up_to(ROUNDING)


@rule
def compare_before_single(i, j):
    """Whole numbers that differ may be one number of 24 bits."""
    compared = equal(cast(i, dtype="float32"), cast(j, dtype="float32"))
    return rewrite(compared).to(equal(i, j)).when(discrete(i), discrete(j), same_dtype(i, j))


@rule
def order_before_double(i, j):
    """Whole numbers in order may be one number of 53 bits."""
    compared = less(cast(i, dtype="float64"), cast(j, dtype="float64"))
    return rewrite(compared).to(less(i, j)).when(discrete(i), discrete(j), same_dtype(i, j))


@rule
def root_of_sum_of_squares(x, y):
    """Squares overflow, and vanish, where their root does not."""
    return rewrite(hypot(x, y)).to(sqrt(x * x + y * y)).when(floating(x), floating(y), same_dtype(x, y)).up_to(ROUNDING)


@rule
def logarithm_of_one_more(x):
    """One more than a small number is one."""
    return rewrite(log1p(x)).to(log(x + 1)).when(floating(x)).up_to(ROUNDING)


@rule
def variance_in_one_pass(x):
    """Two large numbers that nearly cancel are no variance."""
    two = mean(square(x - mean(x)))
    return rewrite(two).to(mean(square(x)) - square(mean(x))).when(floating(x)).up_to(REASSOCIATION)


@rule
def scale_before_the_sum(x, s: Scalar):
    """Terms that are scaled overflow where their sum is scaled to less."""
    scaled = total(x) * s
    return rewrite(scaled).to(total(x * s)).when(floating(x), same_dtype(scaled, x)).up_to(REASSOCIATION)


def _is_double(x: Any) -> bool:
    return bool(x.dtype == "float64")


def _of_four_axes(x: Any) -> bool:
    return len(x.shape) == 4


@rule
def sixth_power_in_single(p):
    """A power grows fast; through fewer bits it loses digits."""
    six = p * p * p * p * p * p
    narrow = cast(cast(p, dtype="float32") ** 6, dtype="float64")
    return rewrite(six).to(narrow).when(that(_of_four_axes, p), that(_is_double, p)).up_to(ROUNDING)


@rule
def drop_a_positive_bound(x):
    """What is bounded from below by a positive number is not what it was."""
    bounded = maximum(x, 2)
    return rewrite(bounded).to(maximum(x, 0)).when(real(x), same_aval(x, bounded))


MISSED = [
    multiply_matrices_by_elements, compare_before_single, order_before_double, root_of_sum_of_squares,
    logarithm_of_one_more, variance_in_one_pass, scale_before_the_sum, sixth_power_in_single, drop_a_positive_bound,
]  # fmt: skip


@pytest.mark.parametrize("each", MISSED, ids=lambda r: r.name)
def test_what_was_missed_is_refuted_by_code_that_runs(each: Any) -> None:
    report = examined(each, EAGER)
    assert report.counterexample, report
    names: dict[str, Any] = {}
    with quiet():
        exec(report.counterexample[report.counterexample.index("import nnc_func") :], names)
    before, after = names["before"], names["after"]
    before, after = (getattr(v, "numpy", lambda v=v: v)() for v in (before, after))
    assert (before.dtype, before.shape, before.tobytes()) != (after.dtype, after.shape, after.tobytes())


# --- classes -----------------------------------------------------------------------------------------------


@rule
def double(x):
    """Twice a tensor is a sum."""
    return rewrite(x + x).to(x * 2).when(same_dtype(x, x))


@rule
def two_matrices(a, b, f: Param, g: Param):
    """A product of matrices."""
    return rewrite(matmul(a, b, transpose_a=f, transpose_b=g)).to(a)


def drawn(each: Any, count: int = 600) -> list[Any]:
    """Graphs that are drawn for a rule."""
    found = (made((each,), EAGER.operator, spread(i)) for i in range(count))
    return [instance for f in found if f is not None for _, instance in [f]]


def test_every_dtype_rank_and_relation_is_met_soon() -> None:
    with quiet():
        classes = Counter(class_of(instance) for instance in drawn(double))
    assert {c[0] for c in classes} == {str(d) for d in np.sctypeDict if d in OPS["add"].samples.dtypes}
    assert {c[1] for c in classes} == {"rank 0", "rank 1", "rank 2", "rank 3 and more"}
    assert {c[2] for c in classes} == {"an extent 0", "an extent 1", "square", "other"}
    assert min(Counter(c[0] for c in classes).values()) >= 5


def test_matrices_are_square_empty_wide_and_in_batches() -> None:
    with quiet():
        avals = [(n.args[0].aval, n.args[1].aval) for n in (i.root for i in drawn(two_matrices))]
    shapes = {a.shape for a, _ in avals}
    assert {len(s) for s in shapes} >= {2, 3, 4}
    assert any(s[-1] == s[-2] > 1 for s in shapes)
    assert any(0 in s for s in shapes)
    assert max(max(s) for s in shapes) > 8
    assert len({a.dtype for a, _ in avals}) >= 10
    assert len(shapes) > 60


def test_axes_are_drawn_of_either_sign_and_several() -> None:
    @rule
    def summed(x, a: Param, k: Param):
        """A sum."""
        return rewrite(total(x, axis=a, keepdims=k)).to(x)

    with quiet():
        axes = [i.root.params["axis"] for i in drawn(summed)]
    assert {type(a) for a in axes} == {int, tuple, type(None)}
    assert any(type(a) is int and a < 0 for a in axes)
    assert any(type(a) is tuple and len(a) > 1 and min(a) < 0 for a in axes)


def test_permutations_of_four_axes_are_drawn() -> None:
    @rule
    def moved(x, p: Param):
        """A transpose."""
        return rewrite(OPS["permute_dims"](x, axes=p)).to(x)

    with quiet():
        axes = {i.root.params["axes"] for i in drawn(moved)}
    assert len({tuple(a % 4 for a in each) for each in axes if each and len(each) == 4}) > 15


# --- elements ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64"])
def test_floating_elements_are_of_every_kind(name: str) -> None:
    dtype, random = np.dtype(name), Random(0)
    with quiet():
        found = np.concatenate(
            [numbers(20, dtype, Elements(r, 0.3, (3.0,)), random.randrange(9999)) for r in REGIMES * 9]
        )
    real_ = found.real if dtype.kind == "c" else found
    limits = np.finfo(dtype)
    assert np.isnan(real_).any()
    assert {np.inf, -np.inf} <= set(real_.tolist())
    assert np.any(np.signbit(real_) & (real_ == 0))
    finite = np.abs(real_[np.isfinite(real_)].astype("float64"))
    assert np.any((finite > 0) & (finite < float(limits.tiny)))
    assert np.any(finite > float(limits.max) / 16)
    one = dtype.type(1).real
    beside = {float(np.nextafter(one, one * 2)), float(np.nextafter(one, one * 0))}
    assert beside <= set(finite.tolist())


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "int64", "uint64"])
def test_whole_elements_are_dense_at_zero_powers_and_limits(name: str) -> None:
    dtype, random, limits = np.dtype(name), Random(0), np.iinfo(name)
    found = np.concatenate(
        [numbers(20, dtype, Elements(r, random.random()), random.randrange(9999)) for r in REGIMES * 30]
    )
    met = {int(n) for n in found}
    assert {0, 1, 2, 3, int(limits.max), int(limits.max) - 1, int(limits.min), int(limits.min) + 1} <= met
    for power in (24, 53):
        if 2**power < limits.max:
            assert {2**power - 1, 2**power, 2**power + 1} <= met


def test_a_smaller_array_has_the_first_elements_of_a_larger_one() -> None:
    for regime in REGIMES:
        for name in ("float32", "int16", "complex128"):
            few, many = (numbers(n, np.dtype(name), Elements(regime, 0.7), 4321) for n in (3, 30))
            assert few.tobytes() == many[:3].tobytes()


# --- conditions narrow what is drawn -----------------------------------------------------------------------


def test_a_condition_that_narrows_is_met_by_every_draw() -> None:
    tried: list[bool] = []

    def is_byte(x: Any) -> bool:
        return bool(x.dtype == "uint8")

    def noted(x: Any) -> bool:
        tried.append(is_byte(x))
        return tried[-1]

    @rule
    def bytes_only(x):
        """A rule of bytes."""
        return rewrite(x + x).to(x * 2).when(asking(noted, (x,), "x is made of bytes", narrows=is_byte))

    report = examined(bytes_only, EAGER, conditions=False)
    assert not report.missing
    assert sum(tried) > 0.9 * len(tried)


# --- verdicts ----------------------------------------------------------------------------------------------


def test_a_verdict_says_on_how_many_firings_of_what_classes_it_rests() -> None:
    said = str(check_rule(subtract_negative, EAGER))
    assert "no counterexample in" in said
    assert "firings (" in said
    assert "float32" in said
    assert "sound" not in said


def test_too_few_firings_are_not_judged_and_it_says_why() -> None:
    @rule
    def of_one_shape(x):
        """It asks for what is hardly drawn."""
        added = x + x
        return rewrite(added).to(x * 2).when(that(lambda x: x.shape == (5, 1, 7, 3), x, says="x is (5, 1, 7, 3)"))

    report = examined(of_one_shape, EAGER, conditions=False)
    if report.fired < 300:
        assert "not judged: " in report.verdict
        assert f"{report.fired} firings are fewer than 300" in report.missing
        assert "drawn without regard to: x is (5, 1, 7, 3)" in str(report)
    assert len(examined(of_one_shape, EAGER, examples=30, conditions=False).missing) > 0


def test_a_rules_own_samples_are_drawn_from() -> None:
    def is_sorted(x: Any) -> bool:
        return bool(x.node.op.name == "sort" and x.node.args[0].node.op.name == "flip")

    def sorted_twice(y, k: Param, a: Param, d: Param):
        return OPS["abs"](OPS["sort"](OPS["flip"](y, axis=a), axis=k, descending=d))

    def magnitudes(x):
        """Magnitudes of what was sorted are what was sorted, which is wrong."""
        found = OPS["abs"](x)
        return rewrite(found).to(x).when(that(is_sorted, x), real(x))

    report = examined(rule(samples=[sorted_twice])(magnitudes), EAGER)
    assert "sort" in report.counterexample
    assert not examined(rule(magnitudes), EAGER).fired


# --- forms of graphs ---------------------------------------------------------------------------------------


@rule
def flip_after_reshape(x, s: Param, a: Param):
    """An axis that keeps its extent is turned round after a tensor is reshaped: as if no other moved across it."""
    kept = that(lambda x, s, a: isinstance(a, int) and 0 <= a < len(s) and x.shape[a] == s[a], x, s, a, says="kept")
    flip, reshape = OPS["flip"], OPS["reshape"]
    return rewrite(reshape(flip(x, axis=a), shape=s)).to(flip(reshape(x, shape=s), axis=a)).when(kept)


FEW_FORMS = (flip_after_reshape, scale_sum_of_last_axis, drop_overwritten, divide_down_once)


@pytest.mark.parametrize("each", FEW_FORMS, ids=lambda r: r.name)
def test_a_rule_that_is_wrong_of_few_forms_is_refuted(each: Any) -> None:
    assert examined(each, EAGER).counterexample


def test_a_form_is_kept_once_and_graphs_beside_it_are_drawn() -> None:
    forms = Forms()
    x, y = (nnc.lazy().input("x", (n, 1), "float32") for n in (3, 5))
    for root in (x + 1, y + 1, x + x):
        forms.add(form_of(root.value), (len(forms.ways),))
    assert forms.ways == [(0,), (1,)]


def test_numbers_beside_integers_are_mostly_whole() -> None:
    with quiet():
        drawn = [made((divide_down_once,), EAGER.operator, spread(i)) for i in range(300)]
    divisors = [found[1].root.args[1] for found in drawn if found]
    assert sum(v.dtype.kind in "iu" for v in divisors) > len(divisors) / 2


@rule
def narrow_at_once(x):
    """A number of 64 bits that is rounded to 32 bits and then to 16 is rounded to 16 bits at once."""
    twice = cast(cast(x, dtype="float32"), dtype="float16")
    double = that(lambda x: x.dtype == "float64", x, says="x is float64")
    return rewrite(twice).to(cast(x, dtype="float16")).when(double)


def test_rounding_twice_is_not_rounding_once() -> None:
    assert examined(narrow_at_once, EAGER).counterexample


@pytest.mark.parametrize("narrow", ["float16", "float32"])
def test_elements_are_drawn_that_round_otherwise_by_way_of_another_format(narrow: str) -> None:
    halfway = numbers(200, np.dtype("int64" if narrow == "float32" else "float32"), Elements("ties"), 77)
    with np.errstate(all="ignore"):
        down, up = (halfway.astype("float64") * (1 + e) for e in (-1e-7, 1e-7))
        assert np.mean(down.astype(narrow) != up.astype(narrow)) > 0.1


@pytest.mark.parametrize("name", ["subtract_negative", "join_added_parts"])
def test_another_seed_gives_the_same_graph_on_other_elements(name: str) -> None:
    """Of a rule, and of a pass with samples: the seed is chosen before what leads to a form."""
    each = tuple(next(r for r in RULES if r.name == name).instances(EAGER.type.ops))
    met = Counter[bool]()
    for number in range(60):
        first = spread(number + 1)
        drawn = made(each, EAGER.operator, first)
        if drawn is None or not drawn[1].feeds:
            continue
        row = [*first.taken[:SEED], (first.taken[SEED] + 4321) % SEEDS, *first.taken[SEED + 1 :]]
        again = made(each, EAGER.operator, Choices(row))
        assert again is not None
        assert form_of(again[1].root) == form_of(drawn[1].root)
        arrays = [[a.tobytes() for a in found[1].feeds.values() if a.size] for found in (drawn, again)]
        met[arrays[0] != arrays[1]] += 1
    assert met[True] > met[False]


@rule
def forget_a_transfer(x, p: Param):
    """What is moved to a place stays where it was."""
    return rewrite(OPS["transfer"](x, place=p)).to(x)


def test_transfers_are_drawn_between_places() -> None:
    places = nnc.lazy().swap(device=nnc.Places(one=nnc.NumPy(), two=nnc.NumPy()))
    assert "place='two'" in examined(forget_a_transfer, places).counterexample
