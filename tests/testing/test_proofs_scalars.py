"""The prover's integers, booleans and shapes are those of the kernels (`testing/proofs/scalars`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import ShapeError
from nnc_func.facets import movement, shapes
from nnc_func.facets.lowering import Expression, LoweringError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.samples import arguments
from tests.throughout import throughout

z3 = pytest.importorskip("z3")

from nnc_func.testing.proofs import extents  # noqa: E402
from nnc_func.testing.proofs.paths import Paths, Untranslatable, Whole  # noqa: E402
from nnc_func.testing.proofs.scalars import TERMS, sort_of  # noqa: E402

DEVICE = nnc.NumPy()
SCALAR = [op for op in CATALOGUE.values() if isinstance(op.lowering, Expression) and not op.params]
DTYPES = ("bool", "int8", "uint8", "int16", "uint32", "int64", "uint64")
PAIRS = (*((d, d) for d in ("bool", "int8", "uint8", "int64")), ("bool", "int8"), ("int8", "uint8"))


def corners(dtype: Any) -> Any:
    """Numbers at which integers wrap, change sign, or are shifted away."""
    if dtype.kind == "b":
        return np.array([False, True])
    limits = np.iinfo(dtype)
    near = [limits.min, limits.max, limits.max // 2, 0, 1, 3, limits.bits, *([-1, -7] if dtype.kind == "i" else [])]
    return np.array(near, dtype)


def test_terms_are_what_kernels_compute_of_integers() -> None:
    cases = [(op, a, b) for op in SCALAR for a, b in PAIRS]
    throughout(cases, _terms_agree)


def _terms_agree(case: Any) -> None:
    op, one, other = case
    if op.name == "power":
        return  # of known exponents only: below
    dtypes = [np.dtype(one), np.dtype(other), np.dtype(one)][: len(op.args)]
    try:
        if op.dtype(*dtypes).kind not in "biu" or np.result_type(*dtypes).kind not in "biu":
            return
        arrays = np.broadcast_arrays(*(corners(d).reshape((-1,) + (1,) * i) for i, d in enumerate(dtypes)))
        wanted = np.asarray(DEVICE.bind(op, *map(np.ascontiguousarray, arrays)))
        terms = [TERMS.number(0, d) for d in dtypes]
        op.lowering.function(TERMS, *terms)
    except (TypeError, LoweringError):
        return
    symbols = [z3.Const(f"x{i}", sort_of(d)) for i, d in enumerate(dtypes)]
    made = op.lowering.function(TERMS, *(type(terms[0])(s, d) for s, d in zip(symbols, dtypes, strict=True)))
    assert made.dtype == wanted.dtype
    for where in np.ndindex(wanted.shape):
        values = [z3.BitVecVal(int(a[where]), s.size()) for a, s in zip(arrays, symbols, strict=True)]
        found = z3.simplify(z3.substitute(made.term, *zip(symbols, values, strict=True)))
        expected = int(wanted[where]) % 2 ** found.size()
        assert found.as_long() == expected, f"{op.name} of {[a[where] for a in arrays]}"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_powers_of_known_exponents_are_what_kernels_compute(dtype: str) -> None:
    x = corners(np.dtype(dtype))
    for exponent in (0, 1, 2, 5):
        wanted = np.power(x, x.dtype.type(exponent))
        found = [
            z3.simplify(TERMS.power(TERMS.number(n, x.dtype), TERMS.number(exponent, x.dtype)).term).as_long()
            for n in x
        ]
        assert found == [int(n) % 2 ** (8 * x.itemsize) for n in wanted]


def test_casts_of_integers_are_what_kernels_compute() -> None:
    for source in DTYPES:
        for target in DTYPES:
            x = corners(np.dtype(source))
            wanted = DEVICE.bind(CATALOGUE["cast"], x, dtype=np.dtype(target))
            terms = [TERMS.cast(TERMS.number(n, x.dtype), np.dtype(target)).term for n in x]
            found = [z3.simplify(t).as_long() for t in terms]
            assert found == [int(n) % 2 ** z3.simplify(terms[0]).size() for n in wanted], (source, target)


HALF = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.5, 2049.0, 65504.0, -65504.0, 6e-8, -6e-5, 0.1], "float16")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_terms_are_what_kernels_compute_of_float16() -> None:
    throughout([op for op in SCALAR if op.name != "where"], _halves_agree)


def _halves_agree(op: Op) -> None:
    arrays = np.broadcast_arrays(*(HALF.reshape((-1,) + (1,) * i) for i in range(len(op.args))))
    try:
        wanted = np.asarray(DEVICE.bind(op, *map(np.ascontiguousarray, arrays)))
        op.lowering.function(TERMS, *(TERMS.number(0, HALF.dtype) for _ in arrays))
    except (TypeError, LoweringError):
        return
    for where in np.ndindex(wanted.shape):
        found = op.lowering.function(TERMS, *(TERMS.number(a[where], HALF.dtype) for a in arrays))
        assert found.dtype == wanted.dtype
        expected = TERMS.number(wanted[where], wanted.dtype).term
        same = found.term == expected
        if op.lowering.either_zero:
            same = z3.Or(same, z3.And(z3.fpIsZero(found.term), z3.fpIsZero(expected)))
        assert z3.is_true(z3.simplify(same)), f"{op.name} of {[a[where] for a in arrays]}"


def test_casts_to_float16_and_from_it_are_what_kernels_compute() -> None:
    for name in ("bool", "int8", "uint8"):
        x = corners(np.dtype(name))
        terms = [TERMS.cast(TERMS.number(n, x.dtype), HALF.dtype).term for n in x]
        wanted = [TERMS.number(n, HALF.dtype).term for n in x.astype(HALF.dtype)]
        assert all(z3.is_true(z3.simplify(t == w)) for t, w in zip(terms, wanted, strict=True))
    found = [z3.simplify(TERMS.cast(TERMS.number(n, HALF.dtype), np.dtype("bool")).term).as_long() for n in HALF]
    assert found == HALF.astype(bool).tolist()


# --- shapes ----------------------------------------------------------------------------------------------

OF_RULES = {
    shapes.broadcast: ("add", "where"),
    shapes.reshaped: ("reshape",),
    movement.broadcast_to: ("broadcast_to",),
    movement.sliced: ("slice",),
}


def test_every_shape_rule_in_one_term_is_tested() -> None:
    assert set(extents.IN_ONE_TERM) == set(OF_RULES)


@pytest.mark.parametrize("name", [name for names in OF_RULES.values() for name in names])
def test_shape_rules_in_one_term_say_what_operators_say(name: str) -> None:
    op: Op = CATALOGUE[name]

    @given(arguments(op), st.data())
    def agrees(drawn: Any, data: Any) -> None:
        arrays, params = drawn
        of = tuple(x.shape for x in arrays)
        if data.draw(st.booleans()):
            of = tuple(tuple(data.draw(st.integers(0, 3)) for _ in s) for s in of)
        params = dict(op.canonical(params))
        assert _shape(op.shape, of, params) == _shape(extents.IN_ONE_TERM[op.shape], of, params)

    agrees()


def _shape(rule: Any, of: Any, params: Any) -> Any:
    def run() -> Any:
        try:
            return tuple(rule(*of, **params))
        except ShapeError:
            return "refused"

    (found,) = Paths().each(run)
    return found


# --- unknown numbers -------------------------------------------------------------------------------------


def test_python_code_is_run_on_each_path() -> None:
    paths = Paths()

    def size(n: int) -> str:
        if n == 1:
            return "one"
        return "even" if n % 2 == 0 else "odd"

    assert sorted(paths.each(lambda: size(paths.fresh("n", 1)))) == ["even", "odd", "one"]


@given(st.integers(-20, 20), st.integers(-20, 20))
def test_unknown_numbers_divide_as_pythons(a: int, b: int) -> None:
    assume(b != 0)
    paths = Paths()

    def run() -> Any:
        x, y = paths.fresh("x", None), paths.fresh("y", None)
        paths.assume(x == a, y == b)
        quotient, rest = x // y, x % y
        assert isinstance(quotient, int)
        return bool(quotient == a // b), bool(rest == a % b), bool(a // y == a // b), bool(x // b == a // b)

    assert list(paths.each(run)) == [(True, True, True, True)]


def test_what_needs_digits_is_refused() -> None:
    n = Whole(z3.Int("n"))
    for needs in (lambda: [0] * n, lambda: range(n), lambda: {n}, lambda: float(n), lambda: [1, 2][n]):
        with pytest.raises(Untranslatable):
            needs()
