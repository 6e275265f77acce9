"""No wrong rule is ever proved, and what the file of results says is proved again (`testing/proofs`)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import RuleError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules import RULES, Family, Rule
from nnc_func.graph.rules.conditions import of_kinds, same_aval, same_shape, that
from nnc_func.graph.rules.pattern import Constant, Param, Scalar, apply, computed
from nnc_func.graph.rules.rule import rewrite, rule
from tests.testing.corpus import unsound
from tests.testing.corpus.cases import Case

pytest.importorskip("z3")

from nnc_func.testing.proofs.equality import Prover
from nnc_func.testing.proofs.parameters import DISCRETE
from nnc_func.testing.proofs.rules import (
    ANY,
    ELEMENTWISE,
    MOVEMENT,
    PROVED,
    REFUTED,
    UNKNOWN,
    VACUOUS,
    eligible,
    kind_of,
    prove_instance,
    prove_rule,
)

STACK = nnc.eager()
RESULTS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent.parent / "golden" / "proofs.json").read_text()
)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def verdicts(one: Any, seconds: float = 0.3) -> dict[str, str]:
    return {v.case: v.verdict for v in prove_rule(one, STACK, seconds=seconds).verdicts}


# --- rules that are wrong ----------------------------------------------------------------------------------

WRONG: list[Rule] = []


def wrong(one: Rule) -> Rule:
    """A rule that has a counterexample for each dtype, or for each shape, that it is about."""
    WRONG.append(one)
    return one


permute, flip, slice_, reshape, pad, tile, concat, squeeze = (
    OPS[name] for name in ("permute_dims", "flip", "slice", "reshape", "pad", "tile", "concat", "squeeze")
)


@wrong
@rule
def forget_second_transpose(x, p: Param, q: Param):
    """The second of two orders is forgotten."""
    return rewrite(permute(permute(x, axes=p), axes=q)).to(permute(x, axes=p))


@wrong
@rule
def compose_backwards(x, p: Param, q: Param):
    """Orders are composed the wrong way round, which few pairs of three axes tell, and none of two."""

    @computed
    def backwards(p, q, x):
        rank = len(x.shape)
        first, last = (range(rank)[::-1] if o is None else [a % rank for a in o] for o in (p, q))
        return tuple(last[a] for a in first)

    return rewrite(permute(permute(x, axes=p), axes=q)).to(permute(x, axes=backwards(p, q, x)))


@wrong
@rule
def drop_flip(x, a: Param):
    """A tensor is its own mirror image."""
    return rewrite(flip(x, axis=a)).to(x)


@wrong
@rule
def drop_slice_of_that_extent(x, a: Param, b: Param, c: Param):
    """What has the extents of a tensor is all of it: also from behind."""
    shown = slice_(x, starts=a, stops=b, steps=c)
    return rewrite(shown).to(x).when(same_aval(x, shown))


@wrong
@rule
def reshape_transposed(x, s: Param):
    """The order of elements is that of another order of axes."""
    return rewrite(reshape(permute(x, axes=None), shape=s)).to(reshape(x, shape=s))


@wrong
@rule
def swap_concatenated(x, y):
    """Parts may be exchanged."""
    return rewrite(concat(x, y, axis=0)).to(concat(y, x, axis=0)).when(same_shape(x, y))


@wrong
@rule
def pad_twice_inside_out(x, w: Param, v: Param):
    """A border around a border is one of the first width."""
    return rewrite(pad(pad(x, widths=w, value=v), widths=w, value=v)).to(pad(x, widths=w, value=v))


@wrong
@rule
def slice_one_too_far(x, a: Param, b: Param, c: Param, p: Param, q: Param, r: Param):
    """Of two slices the starts are added, as if no step lay between them."""

    @computed
    def added(a, p):
        return tuple(i + k for i, k in zip(a, p, strict=True))

    @computed
    def end(a, p, c, r, last):
        steps = tuple(i * k for i, k in zip(c, r, strict=True))
        return tuple(i + k + n * s for i, k, n, s in zip(a, p, last.shape, steps, strict=True))

    @computed
    def times(c, r):
        return tuple(i * k for i, k in zip(c, r, strict=True))

    inner = slice_(x, starts=a, stops=b, steps=c)
    last = slice_(inner, starts=p, stops=q, steps=r)
    return (
        rewrite(last)
        .to(slice_(x, starts=added(a, p), stops=end(a, p, c, r, last), steps=times(c, r)))
        .when(that(lambda c, r: all(s == 2 for s in c) and all(s == 1 for s in r), c, r, says="steps are 2, then 1"))
    )


@wrong
@rule
def drop_shifts(x):
    """What is shifted up and down again is unchanged: its highest bit is lost."""
    shifted = OPS["bitwise_right_shift"](OPS["bitwise_left_shift"](x, 1), 1)
    return rewrite(shifted).to(x).when(same_aval(x, shifted))


@wrong
@rule
def magnitude_of_negated(x):
    """A number has the magnitude of its negation: as if it were one."""
    return rewrite(OPS["abs"](-x)).to(x)


@wrong
@rule
def divide_product(x, y):
    """A factor is divided out again: where it is not zero, and nothing wrapped."""
    quotient = OPS["floor_divide"](x * y, y)
    return rewrite(quotient).to(x).when(same_aval(x, quotient), same_aval(x, y))


@wrong
@rule
def order_of_differences(x, y):
    """Numbers are in the order of their difference and zero: unless it wraps."""
    return rewrite(OPS["less"](x - y, 0)).to(OPS["less"](x, y)).when(same_aval(x, y))


@wrong
@rule
def clip_crossed(x, s: Scalar, t: Scalar):
    """Bounds may be exchanged: unless they cross."""
    bounded = OPS["minimum"](OPS["maximum"](x, s), t)
    other = OPS["maximum"](OPS["minimum"](x, t), s)
    return rewrite(bounded).to(other).when(same_aval(x, bounded))


@wrong
@rule
def broadcast_away(x, y):
    """What is added and subtracted again leaves a tensor as it was: also its shape."""
    return rewrite((x + y) - y).to(x).when(of_kinds(x, "iu"), that(lambda x, y: x.dtype == y.dtype, x, y, says="alike"))


@wrong
@rule
def broadcast_constant(x, c: Constant):
    """A constant that broadcasts against a tensor has its shape."""
    return rewrite(OPS["bitwise_and"](x, c)).to(OPS["bitwise_and"](c, OPS["bitwise_and"](c, c)))


@wrong
@rule
def fill_of_other_shape(x):
    """A difference with itself is a zero of no axes."""
    return rewrite(x - x).to(apply(OPS["full"], shape=(), value=0, dtype="int64"))


@wrong
@rule
def unequal_or_small(x, y):
    """It is about dtypes or shapes: of bytes only it is wrong, and only where they broadcast."""
    either = that(lambda x, y: x.shape == y.shape or x.dtype.itemsize == 1, x, y, says="alike, or bytes")
    wanted = that(lambda x, y: x.dtype == y.dtype and x.dtype.kind in "iu", x, y, says="of one dtype")
    return rewrite((x + y) - y).to(x).when(either, wanted)


@pytest.mark.parametrize("one", WRONG, ids=lambda one: one.name)
def test_a_wrong_rule_is_not_proved(one: Rule) -> None:
    assert PROVED not in verdicts(one).values()


@pytest.mark.parametrize("one", WRONG[:10], ids=lambda one: one.name)
def test_kernels_refute_a_wrong_rule_on_what_the_prover_finds(one: Rule) -> None:
    assert REFUTED in verdicts(one).values()


def witnessed(case: Case) -> set[str]:
    """Dtypes of which the witness of a wrong rule shows that it is wrong."""
    arrays = [np.asarray(v) for v in case.example.values() if isinstance(v, np.ndarray)]
    named = [v for v in case.example.values() if isinstance(v, str)]
    whole = all(a.dtype.kind in "biu" for a in arrays) and not any(n.startswith("float") for n in named)
    floats = ["float16"] if any(a.dtype.kind == "f" for a in arrays) else []
    return {ANY, *floats, *((arrays[0].dtype.name,) if arrays and whole else ())}


@pytest.mark.slow
@pytest.mark.parametrize("case", unsound.CASES, ids=str)
def test_no_wrong_rule_of_the_corpus_is_proved_of_its_witness(case: Case) -> None:
    found = verdicts(case.rule, 0.5)
    assert not {c for c, verdict in found.items() if verdict == PROVED} & witnessed(case)
    assert set(found) <= {ANY, *DISCRETE, "float16"}, "nothing is said of other floats alone"


# --- what else is told apart -------------------------------------------------------------------------------


@rule
def never_fires(x):
    """Nothing is an integer and of rank 0 and has an axis."""
    turned = permute(x, axes=None)
    return rewrite(turned).to(flip(x, axis=None)).when(that(lambda x: len(x.shape) == 7, x, says="x has rank 7"))


@rule
def asks_of_nodes(x, a: Param):
    """A condition that cannot be followed is dropped: then more has to be proved."""
    known = that(lambda x: x.node.op is not None, x, says="x is computed")
    return rewrite(flip(flip(x, axis=a), axis=a)).to(x).when(known)


@rule
def needs_a_condition_that_is_dropped(x, a: Param):
    """It would be sound of what has one element."""
    one = that(lambda x: x.node is None, x, says="x has one element")
    return rewrite(flip(x, axis=a)).to(x).when(one)


@rule
def computes_of_digits(x, a: Param):
    """What it computes for its right side needs to know an extent."""

    @computed
    def first(x):
        return tuple(range(x.shape[0]))[:1] if x.shape else ()

    return rewrite(flip(flip(x, axis=a), axis=a)).to(flip(x, axis=first(x)))


def test_what_does_not_fire_is_vacuous() -> None:
    assert verdicts(never_fires) == {ANY: VACUOUS}


def test_a_condition_that_cannot_be_followed_is_dropped() -> None:
    assert verdicts(asks_of_nodes) == {ANY: PROVED}
    assert verdicts(needs_a_condition_that_is_dropped)[ANY] != PROVED


def test_what_cannot_be_computed_is_unknown() -> None:
    (found,) = prove_rule(computes_of_digits, STACK).verdicts
    assert found.verdict == UNKNOWN
    assert "no index, and no count" in found.reason


def test_a_function_of_graphs_is_refused_with_words() -> None:
    fold = next(r for r in RULES if r.name == "fold_constants")
    with pytest.raises(RuleError, match="check_rule"):
        prove_rule(fold, STACK)


def test_a_proof_prints_what_is_not_proved() -> None:
    told = str(prove_rule(drop_flip, STACK))
    assert told.startswith("drop_flip: 1 refuted")
    assert "kernels give" in told


# --- commutative operators, which rules match in either order -----------------------------------------------

COMMUTATIVE = [op for op in OPS.values() if op.has("commutative") and op.lowering is not None]


@pytest.mark.parametrize("op", COMMUTATIVE, ids=lambda op: op.name)
def test_operators_that_say_so_commute(op: Any) -> None:
    def swapped(x, y):
        """Operands are exchanged."""
        return rewrite(op(x, y)).to(op(y, x))

    found = {v.case: v.verdict for v in prove_rule(rule(swapped), STACK).verdicts if v.case in DISCRETE}
    assert found
    assert set(found.values()) == {PROVED}


# --- the file of results ------------------------------------------------------------------------------------

INSTANCES = [i for r in RULES if isinstance(r, (Rule, Family)) for i in r.instances(OPS)]
ELIGIBLE = [i for i in INSTANCES if kind_of(i) in (ELEMENTWISE, MOVEMENT)]
ENTRIES = {entry["instance"]: entry for entries in RESULTS.values() for entry in entries}


def cases(entry: dict[str, Any], *verdicts: str) -> set[str]:
    return {case for verdict in verdicts for case in entry.get(verdict, ())}


def test_the_file_has_an_entry_for_each_eligible_instance() -> None:
    assert [str(i) for i in ELIGIBLE if str(i) not in ENTRIES] == []


def test_nothing_in_the_file_is_refuted() -> None:
    assert [e["instance"] for e in ENTRIES.values() if "refuted" in e] == []


def test_at_least_85_of_100_eligible_are_proved() -> None:
    counted = [ENTRIES[str(i)] for i in ELIGIBLE]
    of = {ANY, *DISCRETE}  # what is proved of float16 comes on top
    proved = sum(len(cases(e, PROVED) & of) for e in counted)
    assert proved >= 0.85 * sum(len(cases(e, PROVED, UNKNOWN, REFUTED) & of) for e in counted)


def _agrees(instance: Rule) -> None:
    entry = ENTRIES[str(instance)]
    assert cases(entry, PROVED, UNKNOWN, REFUTED) >= set(eligible(instance)) - cases(entry, VACUOUS)
    unhurried = Prover(60.0)  # what was proved in five seconds may take longer on another machine
    found = {v.case: v.verdict for v in prove_instance(instance, unhurried, STACK.device)}
    assert cases(entry, PROVED) <= {case for case, verdict in found.items() if verdict == PROVED}


QUICK = [i for i in ELIGIBLE if (e := ENTRIES.get(str(i), {})).get(PROVED) and e["firings"] < 100]  # seconds each
SAMPLE = random.Random(17).sample(QUICK, min(12, len(QUICK)))


@pytest.mark.parametrize("instance", SAMPLE, ids=lambda i: i.name)
def test_what_the_file_says_is_proved_again(instance: Rule) -> None:
    _agrees(instance)


@pytest.mark.slow
@pytest.mark.parametrize("instance", ELIGIBLE, ids=lambda i: i.name)
def test_all_that_the_file_says_is_proved_again(instance: Rule) -> None:
    _agrees(instance)
