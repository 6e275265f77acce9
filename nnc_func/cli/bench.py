"""Measurements that one can repeat: allocators, orders, strategies beside each other, on problems or on models."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from nnc_func import models
from nnc_func.cli import plans, subjects
from nnc_func.cli.answers import Answer, table, with_files
from nnc_func.engine.allocators import ALLOCATORS, OPTIONAL
from nnc_func.engine.allocators.problems import instances
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.comparing import (
    Budgeted,
    Comparison,
    Conditions,
    Record,
    Trial,
    compare,
    compare_orders,
    compare_strategies,
)
from nnc_func.engine.comparing.comparison import COUNTED, count
from nnc_func.engine.comparing.trials import FAILURES, KEYS, SKIPPED
from nnc_func.engine.drawing.tables import plot
from nnc_func.engine.naming import unknown
from nnc_func.engine.orders import ORDERS, SEARCHES
from nnc_func.engine.planning.answers import footprint
from nnc_func.engine.rematerialising import STRATEGIES
from nnc_func.engine.rematerialising.generators import GENERATORS as TASKS
from nnc_func.errors import PlanError
from nnc_func.progress import Silent, progress

SUBJECTS = ("allocators", "orders", "strategies", "instances")
SLOW = ("boxing", "branch_and_bound", "flow_graph_article", "hill_climb", "pool_tree")  # their time grows faster than n
SHOWN = 5  # trials without an answer that are told of
MOST = 1000  # buffers of the problems that these are asked about, unless they are named
ZOO = "zoo"
Begun = Callable[[int, str, float], Silent]


def arguments(parser: argparse.ArgumentParser) -> None:
    """What is measured, on what, and for how long."""
    own = "or a function of your own, as module:FUNCTION or file.py:FUNCTION"
    parser.add_argument("subject", choices=SUBJECTS, metavar="SUBJECT", help=f"one of: {', '.join(SUBJECTS)}")
    parser.add_argument(
        "where", nargs="*", metavar="DIR|FILE|zoo|NAME",
        help="of allocators: problems as .csv, .json, or PyTorch's snapshots as .pickle; `zoo`, all of its plans; a "
        "generator, as uniform:1000; a suite that `bench instances` lists. Of orders and strategies: models, or `zoo`; "
        f"of strategies also {', '.join(f'{name}:COUNT' for name in TASKS)}",
    )  # fmt: skip
    parser.add_argument(
        "--allocator", action="append", default=[], metavar="NAME",
        help=f"all unless given: {', '.join(ALLOCATORS)}; with the extra `exact` also {' and '.join(OPTIONAL)}; {own}",
    )  # fmt: skip
    parser.add_argument(
        "--order", action="append", default=[], metavar="NAME",
        help=f"all but {', '.join(SEARCHES)} unless given: {', '.join(ORDERS)}; {own}",
    )  # fmt: skip
    parser.add_argument(
        "--strategy", action="append", default=[], metavar="NAME",
        help=f"all but optimal unless given: {', '.join(STRATEGIES)}; {own}",
    )  # fmt: skip
    parser.add_argument(
        "--part", action="append", default=[], type=part, metavar="0.8",
        help="of strategies: budgets, as parts of the bytes without one (default 0.8 and 0.6)",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=plans.budget, default={}, metavar="3s|N", help="of each allocator's search: time, or steps"
    )
    parser.add_argument(
        "--limit", type=plans.seconds, default=600.0, metavar="10min|none",
        help="of each trial, all repetitions together: then it is killed, and the others go on (default 10min); `none` "
        "asks in this process, which an allocator can hold up or end",
    )  # fmt: skip
    parser.add_argument(
        "--memory", type=plans.nbytes, metavar="4GiB", help="that a trial may take (default half of the machine's)"
    )
    parser.add_argument(
        "--out", metavar="FILE",
        help="write each row as it comes, a line of JSON; where it is there already, go on where it ended",
    )  # fmt: skip
    parser.add_argument("--retry", action="store_true", help="ask those again that failed, of the rows in --out")
    parser.add_argument(
        "--seeds", type=subjects.positive, default=1, metavar="N",
        help="seeds, from 0 on: of generators, and of what draws",
    )  # fmt: skip
    parser.add_argument(
        "--against", metavar="NAME", help="what the others are tested against (default the best that answers all)"
    )
    parser.add_argument("--repeat", type=subjects.positive, default=1, metavar="N", help="times each; medians are told")
    parser.add_argument("--alignment", type=subjects.positive, default=1, metavar="BYTES", help="of problems in files")
    parser.add_argument("--reduced", action="store_true", help="the zoo's models in small")
    parser.add_argument("--plot", metavar="FILE", help="draw the means as svg; - is standard output")
    parser.add_argument(
        "--progress", action="store_true",
        help="tell on standard error how far it has come, as it does without being asked where that is a terminal",
    )  # fmt: skip


def answer(given: argparse.Namespace) -> Answer:
    """A row for each that was asked, the best first; what failed; and tests of the others against one."""
    if given.subject == "instances":
        return _instances()
    if not given.where:
        raise PlanError(
            f"say on what {given.subject} are measured: a file or folder, {ZOO}, or a name of `bench instances`"
        )
    asked = _asked(given)
    if given.against is not None and given.against not in asked:
        raise PlanError(unknown(given.against, _one(given.subject), asked))
    begun = progress if given.progress or sys.stderr.isatty() else _silent
    with ExitStack() as held:
        record = held.enter_context(Record(given.out, KEYS)) if given.out else None
        before = len(record.rows) if record else 0
        about = _about(given, begun)
        seeds = range(given.seeds)
        line = begun(count(about, asked, seeds), "trial", 1.0)
        held.callback(line.close)
        conditions = Conditions(given.limit, given.memory, record, given.retry, line.tell)
        found = _compared(given, about, asked, tuple(seeds), conditions)
    told = _told(found, given, limits(given.allocator) if given.subject == "allocators" else {})
    if record is not None:
        told.append(
            f"{len(record.rows)} rows are in {record.path}" + (f", {before} of them from before" if before else "")
        )
    text, against = _tables(found, given.against)
    data = json.loads(found.to_json()) | {"against": against}
    files = (
        {"svg": (given.plot, plot(found.summary(), heading=f"{given.subject} on {len(found.problems)} problems").svg)}
        if given.plot
        else {}
    )
    return with_files(Answer(data, "\n".join([text, *([""] if told else []), *told])), files)


def _one(subject: str) -> str:
    return {"allocators": "allocator", "orders": "order", "strategies": "strategy"}[subject]


def _instances() -> Answer:
    rows = [
        (f"{name}:COUNT", "generator", " ".join((make.__doc__ or "").split("\n")[0].split()))
        for name, make in instances.GENERATORS.items()
    ]
    rows += [(name, "folder", str(folder)) for name, folder in instances.suites().items()]
    rows.append((ZOO, "models", f"the plans of {len(models.names())} networks, inference and training"))
    data = [dict(zip(("name", "kind", "what"), row, strict=True)) for row in rows]
    return Answer(data, table(rows, ("name", "kind", "what")))


# --- what is asked, and about what ------------------------------------------------------------------------


def _asked(given: argparse.Namespace) -> dict[str, Any]:
    for subject, named in (("allocators", given.allocator), ("orders", given.order), ("strategies", given.strategy)):
        if named and subject != given.subject:
            raise PlanError(f"--{_one(subject)} is for `bench {subject}`, not {given.subject}")
    if given.part and given.subject != "strategies":
        raise PlanError(f"--part is for `bench strategies`, not {given.subject}")
    if given.subject == "allocators":
        return plans.allocators(given.allocator or [plans.ALL], given.budget)
    if given.subject == "orders":
        return plans.orders(given.order or [name for name in ORDERS if name not in SEARCHES])
    return plans.strategies(given.strategy or [plans.ALL])


def _about(given: argparse.Namespace, begun: Begun) -> dict[str, Any]:
    if given.subject == "allocators":
        found: dict[str, Any] = {}
        order = sorted(
            range(len(given.where)), key=lambda n: given.where[n] == ZOO
        )  # what may not be there comes first
        read = {n: problems(given.where[n], given.alignment, given.reduced, begun, range(given.seeds)) for n in order}
        for n, where in enumerate(given.where):
            more = read[n]
            both = found.keys() & more.keys()
            found |= {f"{where} {name}" if name in both else name: problem for name, problem in more.items()}
        return found
    graphs = dict(_graphs([w for w in given.where if ":" not in w], given.reduced, begun))
    stack = plans.planning()
    if given.subject == "orders":
        if made := [w for w in given.where if ":" in w]:
            raise PlanError(f"orders are measured on models, or on {ZOO}; given {made[0]!r}")
        return {name: stack.engine.order_problem(make(stack)) for name, make in graphs.items()}
    parts = tuple(given.part) or (0.8, 0.6)
    return {
        f"{name} within {each:g}": found
        for name, find in (*_drawn(given), *((name, _of_graph(make)) for name, make in graphs.items()))
        for each, found in zip(parts, find(parts), strict=True)
    }


def _compared(
    given: argparse.Namespace, about: Any, asked: Any, seeds: tuple[int, ...], conditions: Conditions
) -> Comparison:
    if given.subject == "allocators":
        return compare(
            about, asked, repeat=given.repeat, seeds=seeds, most=limits(given.allocator), conditions=conditions
        )
    ask = compare_orders if given.subject == "orders" else compare_strategies
    return ask(about, asked, repeat=given.repeat, seeds=seeds, conditions=conditions)


def limits(named: Sequence[str]) -> dict[str, int]:
    """Buffers, by allocator, of the largest problem that it is asked about: those that are named are asked about all.

    Examples
    --------
    >>> limits(["boxing"])["pool_tree"]
    1000
    """
    return {name: MOST for name in SLOW if name not in named}


def part(words: str) -> float:
    """A part of what something takes, above 0 and up to 1."""
    with suppress(ValueError):
        if words.isascii() and "_" not in words and 0 < float(words) <= 1:
            return float(words)
    raise argparse.ArgumentTypeError(f"wanted a part, above 0 and up to 1, given {words!r}")


def _silent(count: int, unit: str, delay: float) -> Silent:
    return Silent()


def problems(
    where: str, alignment: int = 1, reduced: bool = False, begun: Begun = _silent, seeds: Iterable[int] = (0,)
) -> dict[str, Problem]:
    """The problems of a directory, of a file, of a generator, of a suite, or of the zoo's plans, by name.

    Parameters
    ----------
    begun
        Makes what tells how many of the zoo's models are planned, as `nnc_func.progress.progress`.
    seeds
        Of a generator.

    Raises
    ------
    PlanError
        There is none, or a file says none.
    """
    if where != ZOO:
        return instances.problems(where, seeds, alignment)
    stack = plans.planning()
    return {name: stack.engine.compile(make(stack)).plan.problem for name, make in _graphs([ZOO], reduced, begun)}


def _graphs(names: Sequence[str], reduced: bool, begun: Begun) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Inference of one example, and a training step of eight where it trains, of models of the zoo."""
    known = models.names()
    for name in names:
        if name not in (ZOO, *known):
            raise PlanError(unknown(name, "model", (ZOO, *known)))
    chosen = known if ZOO in names else [*dict.fromkeys(names)]
    line = begun(len(chosen), "model", 1.0)
    for at, name in enumerate(chosen):
        line.tell(at, name)
        model = models.get(name).reduced() if reduced else models.get(name)
        for training in (False, True)[: 1 + model.trains]:

            def make(stack: Any, model: Any = model, training: bool = training) -> Any:
                return model.make(stack, 8 if training else 1, training, seed=None)

            yield f"{name}{' training' if training else ''}", make
    line.close()


def _of_graph(make: Callable[[Any], Any]) -> Callable[[Sequence[float]], list[Budgeted]]:
    """What strategies are asked of a graph within parts of the bytes that it takes without a budget."""

    def find(parts: Sequence[float]) -> list[Budgeted]:
        stack = plans.planning()
        graph = make(stack)
        takes = footprint(stack.engine.compile(graph).plan)
        found = []
        for each in parts:
            seen: list[Budgeted] = []

            def looking(problem: Any, budget: int, seen: list[Budgeted] = seen) -> Any:
                seen.append(Budgeted(problem, budget))
                return problem.base.sequence

            with suppress(PlanError):
                stack.engine.with_memory_budget(int(each * takes), looking).compile(graph)
            found += seen[:1]
        return found

    return find


def _drawn(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[Sequence[float]], list[Budgeted]]]]:
    for where in given.where:
        name, colon, number = where.partition(":")
        if not colon:
            continue
        if name not in TASKS:
            raise PlanError(unknown(name, "generator", TASKS))
        if not (subjects.is_natural(number) and 0 < int(number) <= MOST * MOST):
            raise PlanError(f"{where!r}: wanted a number of tasks, 1 or more, given {number!r}")
        draws = name == "random"
        for seed in range(given.seeds if draws else 1):
            problem = TASKS[name](int(number), seed)
            yield f"{where} seed {seed}" if draws else where, partial(_within, problem)


def _within(problem: Any, parts: Sequence[float]) -> list[Budgeted]:
    return [Budgeted(problem, int(part * problem.base.peak)) for part in parts]


# --- tables -----------------------------------------------------------------------------------------------


def _tables(found: Comparison, against: str | None) -> tuple[str, Mapping[str, Any]]:
    """The summary, and tests of the others against one."""
    summary, each = found.summary(), COUNTED[found.what]
    beside = {"allocator": "arena / bound", "order": "peak / depth first", "strategy": "cost / without"}[found.what]
    titles = (
        found.what, f"mean of {beside}",
        "95 % between", "worst", "proven optimal", "answers", "failures", "within 1 % of the best", f"µs a {each}",
    )  # fmt: skip
    rows = [
        (
            row[found.what], _number(row["mean_ratio"]), _between(row), _number(row["worst_ratio"]),
            f"{row['proven_optimal']} of {row['problems']}", f"{row['answers']} of {row['problems']}", row["failures"],
            f"{row['within_1_percent']:.0%}", row[f"microseconds_a_{each}"],
        )
        for row in summary
    ]  # fmt: skip
    sizes = {t.problem: t.count for t in found.trials}
    lines = [f"{len(sizes)} problems, {sum(sizes.values()):,} {each}s", "", table(rows, titles)]
    base = against or summary[0][found.what]
    tests = found.against(base) if len(summary) > 1 and len(sizes) > 1 else []
    if any(row["pairs"] for row in tests):
        titles = ("beside " + base, "pairs", "less", "equal", "more", "ratio", "95 % between", "p", "p, all tests")
        shown = [
            (
                r[found.what],
                r["pairs"],
                r["less"],
                r["equal"],
                r["more"],
                _number(r["ratio"]),
                _between(r),
                r["p"],
                r["p_adjusted"],
            )
            for r in tests
        ]
        lines += ["", table(shown, titles)]
    return "\n".join(lines), {"base": base, "tests": tests}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _between(row: Mapping[str, Any]) -> str:
    return "-" if row["low"] is None else f"{row['low']:.4g} to {row['high']:.4g}"


def _told(found: Comparison, given: argparse.Namespace, most: Mapping[str, int]) -> list[str]:
    """What has no answer, and why."""
    said = [_line(t) for t in found.trials if t.error and t.kind != SKIPPED]
    if len(said) > SHOWN:
        where = f"{given.out} has all" if given.out else "--json tells all"
        said[SHOWN:] = [f"and {len(said) - SHOWN} more: {where}"]
    if slow := [name for name in most if any(t.kind == SKIPPED for t in found.of(name))]:
        said.append(f"not asked about more than {MOST:,} buffers unless named by --allocator: {', '.join(slow)}")
    return said


def _line(trial: Trial) -> str:
    seed = "" if trial.seed is None else f", seed {trial.seed}"
    failed = f" ({trial.kind})" if trial.kind in FAILURES else ""
    return f"{trial.by} on {trial.problem}{seed}{failed}: {trial.error}"
