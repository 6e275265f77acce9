"""A memory plan: its arena, the max load that no plan is smaller than, the largest buffers; or many plans compared."""

from __future__ import annotations

import argparse
from typing import Any

from attrs import evolve

from nnc_func.cli import plans, subjects
from nnc_func.cli.answers import Answer, facts, table, with_files
from nnc_func.engine.allocators import ALLOCATORS, OPTIONAL
from nnc_func.engine.comparing import Trial, compare
from nnc_func.engine.drawing.memory import tenants
from nnc_func.engine.orders import DEFAULT, ORDERS, lower_bound, simulated_peak
from nnc_func.engine.orders.base import answered
from nnc_func.engine.rematerialising import STRATEGIES
from nnc_func.engine.spilling import POLICIES
from nnc_func.errors import PlanError

USUAL = "portfolio"  # what engines take where no allocator is named
KINDS = ("html", "svg", "csv")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which plan, and in which form."""
    subjects.arguments(parser)
    parser.add_argument(
        "--allocator", metavar="NAME|all|module:FUNCTION",
        help=f"how offsets are found: {', '.join(sorted(ALLOCATORS))}; or all of them, compared; or, with the extra "
        f"`exact`, {' or '.join(OPTIONAL)}; or a function of your own, as file.py:FUNCTION. Unless given {USUAL} for "
        "models, all for problems in files",
    )  # fmt: skip
    parser.add_argument(
        "--order", metavar="NAME|all|module:FUNCTION",
        help=f"the order of instructions: {', '.join(sorted(ORDERS))}; the best of {' and '.join(DEFAULT)} unless "
        "given; or all of them, compared; or a function of your own",
    )  # fmt: skip
    parser.add_argument(
        "--memory", type=plans.nbytes, metavar="BYTES", help="a budget, as 500MB: values are computed again to keep it"
    )
    parser.add_argument(
        "--strategy", metavar="NAME|module:FUNCTION",
        help=f"what is computed again: {', '.join(STRATEGIES)}, or a function of your own; with --memory (greedy)",
    )  # fmt: skip
    parser.add_argument(
        "--joint", type=float, nargs="?", const=1.1, metavar="WORK",
        help="choose order, kernels, offsets and what is computed again together, for a run that takes at most so many "
        "times as long, as estimated (1.1)",
    )  # fmt: skip
    parser.add_argument(
        "--fast-memory", type=plans.nbytes, metavar="BYTES", help="as 500MB: values are moved to a slow memory and back"
    )
    parser.add_argument(
        "--policy", metavar="NAME|module:FUNCTION",
        help=f"what is moved when: {', '.join(POLICIES)}, or a function of your own; with --fast-memory (cover)",
    )  # fmt: skip
    parser.add_argument("--budget", type=plans.budget, default={}, metavar="3s|N", help="of a search: time, or steps")
    parser.add_argument(
        "--alignment", type=subjects.positive, default=1, metavar="BYTES", help="of a problem in a .csv file"
    )
    parser.add_argument("--top", type=subjects.positive, default=10, metavar="N", help="buffers listed (default 10)")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", metavar="FILE", help=f"write it as {kind}; - is standard output")


def answer(given: argparse.Namespace) -> Answer:
    """The plan in numbers, made on the device `Null`: nothing is computed."""
    if plans.is_problem(given.model) or plans.ALL in (given.allocator, given.order):
        return _compared(given)
    if given.strategy and given.memory is None:
        raise PlanError("--strategy says what is computed again within a budget: give one by --memory")
    if given.policy and given.fast_memory is None:
        raise PlanError("--policy says what is moved out of fast memory: give its bytes by --fast-memory")
    bounded = given.memory is not None or given.fast_memory is not None or given.joint is not None
    stack = _stack(given)
    found = subjects.closed(subjects.subject(given, stack))
    if given.allocator or given.order or given.budget or bounded:
        found = evolve(found, saved=None)  # its own plan is not asked for
    program = found.program() if bounded else None
    plan: Any = found.plan() if program is None else program.plan
    if plan is None:
        raise PlanError(f"{found.name} is interpreted, and has no plan: name an --allocator or an --order to plan it")
    data: dict[str, Any] = {
        "name": found.name,
        "arena_bytes": plan.arena_bytes,
        "max_load_bytes": plan.max_load,
        "peak_bytes": plan.peak_bytes,
        "ratio": plan.ratio,
        **(_ordered(found, plan, given.order) if program is None else _bounded(program)),
        "bytes_without_sharing": plan.unshared_bytes,
        "buffers": len(plan.planned),
        "kernels": plan.kernels,
        "instructions": len(plan.instructions),
    }
    top = sorted(tenants(plan), key=lambda t: -t.buffer.nbytes)[: given.top]
    rows = [
        (t.number, t.buffer.nbytes, t.buffer.offset, t.buffer.lower, t.buffer.upper, t.operator, t.is_scratch)
        for t in top
    ]
    titles = ("buffer", "bytes", "offset", "from", "until", "written_by", "is_scratch")
    shown = [(*row[:-2], f"{row[-2]} (scratch)" if row[-1] else row[-2]) for row in rows]
    text = facts(data) + "\n\n" + table(shown, [t.replace("_", " ") for t in titles[:-1]])
    answered = Answer(data | {"largest": [dict(zip(titles, row, strict=True)) for row in rows]}, text)
    asked = {kind: getattr(given, kind) for kind in KINDS if getattr(given, kind) is not None}
    return with_files(answered, {kind: (path, getattr(plan, f"to_{kind}")()) for kind, path in asked.items()})


def _bounded(program: Any) -> dict[str, Any]:
    """What is computed again, and which strategy chose it; what is moved, and by which policy; or a joint choice."""
    again, traffic = program.stats.recomputation, program.stats.traffic
    if program.stats.joint is not None:
        return {"joint": str(program.stats.joint)}
    if traffic is not None:
        told = f"{traffic}, by {traffic.policy}"
        return {"slow_arena_bytes": traffic.slow_bytes, "moved_bytes": traffic.moved, "traffic": told}
    return {"recomputation": "nothing" if again is None else f"{again}, by {again.strategy}"}


def _ordered(found: subjects.Subject, plan: Any, named: str | None) -> dict[str, Any]:
    """The order, its peak, and what no order goes below; of both is left out what outputs and inputs have room for."""
    problem = found.stack.engine.order_problem(found.graph)
    asked = plans.orders([named])[named] if named else ORDERS[plan.order]
    peak = simulated_peak(problem, answered(asked, problem))
    return {"order": plan.order, "order_peak_bytes": peak, "order_bound_bytes": lower_bound(problem)}


def _stack(given: argparse.Namespace) -> Any:
    (order,) = plans.orders([given.order]).values() if given.order else (None,)
    stack = plans.planning(given.order if given.order in ORDERS else order, given.fast_memory is not None)
    engine = stack.engine
    if given.allocator:
        (allocator,) = plans.allocators([given.allocator], given.budget).values()
        engine = engine.with_allocator(allocator)
    elif given.budget:
        engine = engine.with_allocator(plans.with_budget(engine.allocator, given.budget))
    if given.memory is not None:
        (strategy,) = plans.strategies([given.strategy or "greedy"]).values()
        engine = engine.with_memory_budget(given.memory, strategy)
    if given.joint is not None:
        engine = engine.with_joint_choice(given.joint)
    if given.fast_memory is not None:
        name = given.policy or "cover"
        (policy,) = plans.policies([name]).values()
        engine = engine.with_fast_memory(given.fast_memory, policy=name if name in POLICIES else policy)
    return stack.swap(engine=engine)


def _compared(given: argparse.Namespace) -> Answer:
    """Plans of each order with each allocator, the smallest first."""
    if given.svg is not None:
        raise PlanError("--svg draws one plan; several, and problems in files, are drawn by --html")
    from nnc_func.engine.drawing.comparison import Answer as Drawn
    from nnc_func.engine.drawing.comparison import comparison_page

    named = {n.order: n for n in _problems(given)}
    usual = plans.ALL if plans.is_problem(given.model) else USUAL
    chosen = plans.allocators([given.allocator or usual], given.budget)
    trials = compare({order: n.problem for order, n in named.items()}, chosen).trials
    found = sorted((t for t in trials if t.value is not None), key=lambda t: (t.value, t.problem, t.by))
    if not found:
        raise PlanError(trials[0].error)
    rows = [(t.problem, t.by, t.value, t.bound, t.ratio, 1e3 * t.seconds) for t in found]
    titles = ("order", "allocator", "arena_bytes", "max_load_bytes", "ratio", "milliseconds")
    failed = [f"{t.by}: {t.error}" for t in trials if t.value is None]
    data: dict[str, Any] = {
        "name": given.model,
        "buffers": found[0].count,
        "plans": [dict(zip(titles, row, strict=True)) for row in rows],
    }
    first = 0 if found[0].problem else 1  # a problem in a file has no order
    text = table([row[first:] for row in rows], [t.replace("_", " ") for t in titles[first:]])
    text += "".join(f"\n{line}" for line in ("", *failed) if failed)
    drawn = [_drawn(t, named[t.problem], Drawn) for t in found]
    texts = {
        "html": lambda: comparison_page(f"Plans of {given.model}{' training' * given.training}", drawn),
        "csv": lambda: named[found[0].problem].problem.to_csv(found[0].answer),
    }
    asked = {kind: getattr(given, kind) for kind in texts if getattr(given, kind) is not None}
    return with_files(Answer(data, text), {kind: (path, texts[kind]()) for kind, path in asked.items()})


def _problems(given: argparse.Namespace) -> list[plans.Named]:
    if plans.is_problem(given.model):
        if given.order is not None:
            raise PlanError(f"{given.model} is a problem with lifetimes: --order is for models")
        return [plans.read(given.model, given.alignment)]
    orders = plans.orders([given.order]) if given.order else {"": None}
    found = []
    for name, order in sorted(orders.items()):
        stack = plans.planning(name if name in ORDERS else order)
        subject = evolve(subjects.closed(subjects.subject(given, stack)), saved=None)
        planned = plans.of_plan(subject.name, subject.plan())
        found.append(evolve(planned, order=name) if name else planned)
    return found


def _drawn(trial: Trial, named: plans.Named, drawn: Any) -> Any:
    label = f"{trial.problem}, {trial.by}" if trial.problem else trial.by
    return drawn(named.problem, trial.answer, trial.value, label, trial.seconds, named.kinds, named.description)
