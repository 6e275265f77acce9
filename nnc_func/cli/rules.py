"""Rewrite rules: which there are, whether one is sound, and what they do to a model."""

from __future__ import annotations

import argparse
import difflib
from typing import Any

from attrs import asdict

import nnc_func as nnc
from nnc_func.cli import members, subjects
from nnc_func.cli.answers import Answer, facts, table
from nnc_func.errors import RuleError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules import PHASES, RULES, AnyRule, Numerics, Rule

LEVELS = tuple(str(level).replace(" ", "-") for level in Numerics)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which rules, or what of them."""
    parser.add_argument("words", nargs="*", metavar="WORD", help="rules whose name or sentence has them all")
    parser.add_argument("--phase", choices=[p.name for p in PHASES], help="those of one phase")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument(
        "--check", metavar="NAME",
        help="attack a rule with drawn graphs; fails if it is refuted. One of your own is module:NAME or file.py:NAME",
    )  # fmt: skip
    asked.add_argument("--prove", metavar="NAME", help="prove a rule for all extents and elements, as far as that goes")
    asked.add_argument(
        "--stats", metavar="MODEL", help="how often each rule was tried, fired, what it saved, or why not"
    )
    asked.add_argument("--explain", metavar="MODEL", help="which rule did what, in order, and where that was built")
    parser.add_argument("--examples", type=subjects.positive, default=300, metavar="N", help="graphs to draw (--check)")
    parser.add_argument("--top", type=subjects.positive, default=40, metavar="N", help="rewrites that are listed")
    parser.add_argument("--numerics", choices=LEVELS, default="rounding", help="how far values may change")
    parser.add_argument("--fast-math", action="store_true", help="NaN and infinity may change too")
    subjects.options(parser)


def answer(given: argparse.Namespace) -> Answer:
    """The list, or what was asked of a rule or a model."""
    asked = next((each for each in ("check", "prove", "stats", "explain") if getattr(given, each)), None)
    if asked is not None and (given.words or given.phase):
        ignored = "--phase" if given.phase else repr(given.words[0])
        raise RuleError(f"{ignored} selects rules for the list: --{asked} has none")
    if given.check:
        return checked(given.check, given.examples)
    if given.prove:
        return proved(given.prove)
    if given.stats or given.explain:
        return rewritten(given)
    return listed(given)


# --- rules -----------------------------------------------------------------------------------------------


def listed(given: argparse.Namespace) -> Answer:
    """Rules as a table: name, phase, numerics, sentence."""
    found = []
    for phase in PHASES:
        for rule in phase.rules if given.phase in (None, phase.name) else ():
            sentence = " ".join(rule.doc.split())
            if all(word.lower() in f"{rule.name} {sentence}".lower() for word in given.words):
                found.append({"name": rule.name, "phase": phase.name, "numerics": str(rule.numerics), "does": sentence})
    if not found:
        raise RuleError(f"no rule has {' and '.join(map(repr, given.words))} in its name or sentence; try fewer words")
    text = table([tuple(each.values()) for each in found], ("rule", "phase", "numerics", "what it does"))
    return Answer(found, f"{text}\n\n{len(found)} of {len(RULES)} rules")


def named(name: str) -> Any:
    """The rule of that name: one of the library, or of one's own as ``module:name`` or ``file.py:name``.

    Raises
    ------
    RuleError
        There is none: says which are close, or what is wrong with the module.

    Examples
    --------
    >>> named("drop_unit").name
    'drop_unit'
    """
    if members.is_named_so(name):
        return members.member(name, AnyRule, "rule", "nnc.rule makes one of a function of its variables")
    rules = {rule.name: rule for rule in RULES}
    if name in rules:
        return rules[name]
    close = difflib.get_close_matches(name, rules)
    hint = (
        f"did you mean {' or '.join(close)}?"
        if close
        else "python -m nnc_func rules lists them; one of your own is module:NAME"
    )
    raise RuleError(f"there is no rule {name!r}; {hint}")


def checked(name: str, examples: int) -> Answer:
    """What the test kit finds of a rule; a rule that is refuted is an error with a counterexample."""
    rule = named(name)
    try:
        from nnc_func.testing.rules import check_rule
    except ImportError as error:
        raise RuleError(f"--check wants {error.name}: pip install 'nnc_func[testing]'") from None
    report = check_rule(rule, _stack_for(rule), examples=examples)
    data = {
        "name": rule.name,
        "verdict": report.verdict,
        "judged": not report.missing,
        "instances": report.instances,
        "fired": report.fired,
        "rule": str(rule),
    }
    return Answer(data, f"{rule}\n{report}")


def proved(name: str) -> Answer:
    """What is proved of a rule, for each instance and dtype; a rule that kernels refute is an error."""
    rule = named(name)
    try:
        from nnc_func.testing.proofs.rules import REFUTED, prove_rule
    except ImportError as error:
        raise RuleError(f"--prove wants {error.name}: pip install 'nnc_func[proofs]'") from None
    found = prove_rule(rule, _stack_for(rule))
    if any(v.verdict == REFUTED for v in found.verdicts):
        raise RuleError(str(found))
    data = {"name": rule.name, "verdicts": [asdict(v) for v in found.verdicts]}
    return Answer(data, f"{rule}\n{found}")


def _stack_for(rule: Any) -> Any:
    """A stack on which all that the rule is about occurs: its operators; of one that moves values, two places."""
    ops = rule.operators() if isinstance(rule, Rule) else set()
    stack = nnc.eager(nnc.Places(one=nnc.NumPy(), two=nnc.NumPy()) if CATALOGUE["transfer"] in ops else None)
    own = sorted((op for op in ops if CATALOGUE.get(op.name) is not op), key=lambda op: op.name)
    return stack.swap(type=stack.type.with_ops(*own)) if own else stack


# --- models ----------------------------------------------------------------------------------------------


def rewritten(given: argparse.Namespace) -> Answer:
    """A model's graph, rewritten on a device that computes nothing: what each rule did, or each rewrite."""
    stack = nnc.lazy(nnc.Null())
    level = Numerics(given.numerics.replace("-", " "))
    stack = stack.swap(optimiser=stack.optimiser.with_numerics(level, fast_math=given.fast_math))
    given.model = given.stats or given.explain
    found = subjects.subject(given, stack)
    report = stack.optimiser.optimise(found.graph.roots, measure=True)
    after = found.graph.with_roots(report.roots)
    data: dict[str, Any] = {
        "name": found.name,
        "applications_before": found.graph.statistics["applications"],
        "applications_after": after.statistics["applications"],
        "rewrites": len(report.steps),
        "seconds": round(sum(c.seconds for c in report.statistics.values()), 6),
    }
    return counted(data, report) if given.stats else explained(data, report, given)


def counted(data: dict[str, Any], report: Any) -> Answer:
    """Each rule that was tried: how often, how long, what it saved, and what mostly stood against it."""
    rows = []
    for name, c in sorted(report.statistics.items(), key=lambda item: (-item[1].matched, item[0])):
        why = max(c.why, key=c.why.__getitem__) if c.why else None
        rows.append({
            "rule": name, "tried": c.tried, "fired": c.matched, "refused": c.refused,
            "milliseconds": round(1e3 * c.seconds, 2), "bytes_saved": c.saved.bytes, "flops_saved": c.saved.flops,
            "kernels_saved": c.saved.launches, "mostly_not_since": why,
        })  # fmt: skip
    titles = [title.replace("_", " ") for title in rows[0]] if rows else []
    return Answer(data | {"rules": rows}, facts(data) + "\n\n" + table([tuple(r.values()) for r in rows], titles))


def explained(data: dict[str, Any], report: Any, given: argparse.Namespace) -> Answer:
    """Each rewrite, in order."""
    shown = report.steps if given.json else report.steps[: given.top]
    steps = [{"rule": s.rule, "phase": s.phase, "said": repr(s)} for s in shown]
    lines = [f"{n:5}. {each['said']}" for n, each in enumerate(steps, 1)]
    if len(report.steps) > len(shown):
        lines.append(f"… and {len(report.steps) - len(shown):,} more; --top N lists more of them")
    return Answer(data | {"steps": steps}, "\n".join([facts(data), "", *lines]))
