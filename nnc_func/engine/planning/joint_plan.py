"""Plans of joint choices, beside those of the chain of separate choices: the smaller one is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from nnc_func.engine.joint_choice.choice import cost
from nnc_func.engine.joint_choice.problem import JointProblem
from nnc_func.engine.joint_choice.search import JointSearch
from nnc_func.engine.joint_choice.solution import Solution
from nnc_func.engine.planning.alternatives import Alternatives, smallest
from nnc_func.engine.planning.answers import Fitted, Recomputation, footprint
from nnc_func.engine.planning.budgets import Budget, fitted
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.joint_passes import Followed, JointChoice, JointPasses
from nnc_func.engine.planning.planner import Planned, arranged, placed, smallest_draft
from nnc_func.engine.planning.recomputed import rebuilt
from nnc_func.engine.planning.request import Request
from nnc_func.errors import PlanError
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.pictures.svg import sized


@frozen
class JointReport:
    """What a joint choice gave beside the chain of separate choices. Bytes are arenas and fresh results.

    Attributes
    ----------
    chain, in_time, joint
        What the plan of each takes: of the chain, of the chain with values computed again in as much time as there is
        (`with_time_budget`), and of the joint choice. The smallest is run; of equals the first.
    bound
        No plan of the problem that was searched takes less: of the chain's commit section, with the kernels and the
        time that there are. Plans may take less by what the problem does not know of, see `joint_problem`. None: there
        was none.
    steps
        Of the search.
    again
        Runs of applications that have run before.
    kernels
        Instructions that another kernel runs than by itself.
    work
        Estimated time of the plan of the joint choice, beside that of the kernels that are chosen by themselves.
    """

    chain: int
    in_time: int
    joint: int
    bound: int | None
    steps: int
    again: int
    kernels: int
    work: float

    @property
    def nbytes(self) -> int:
        """What is run takes."""
        return min(self.chain, self.in_time, self.joint)

    @property
    def is_proven(self) -> bool:
        """Whether no plan of the problem takes less than what is run."""
        return self.bound is not None and self.nbytes <= self.bound

    def __str__(self) -> str:
        known = "proven" if self.is_proven else "found"
        least = "" if self.bound is None or self.is_proven else f", at least {sized(self.bound)}"
        return (
            f"chain {sized(self.chain)}, in as much time {sized(self.in_time)}, joint {sized(self.joint)}, {known}"
            f"{least}, {self.steps} steps: {self.again} computed again, {self.kernels} other kernels, "
            f"{self.work:.3f} of the time"
        )

    def _repr_html_(self) -> str:
        rows = (
            ("chain", f"{self.chain:,} bytes"),
            ("chain in as much time", f"{self.in_time:,} bytes"),
            ("joint", f"{self.joint:,} bytes"),
            ("bound", "-" if self.bound is None else f"{self.bound:,} bytes"),
            ("known", "proven" if self.is_proven else "found"),
            ("steps", f"{self.steps:,}"),
            ("computed again", str(self.again)),
            ("other kernels", str(self.kernels)),
            ("time", f"{self.work:.3f}"),
        )
        cells = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows)
        return f"<table>{cells}</table>"


@frozen(eq=False)
class Joint:
    """The plan of a joint choice, or the chain's.

    Attributes
    ----------
    graph, planned
        Its graph, in which values may be computed again, and the plan.
    report
        Both beside each other.
    recomputation
        What a budget's strategy computes again, where the plan is its.
    """

    graph: ComputationGraph
    planned: Planned
    report: JointReport
    recomputation: Recomputation | None = None


def planned_jointly(request: Request, settings: JointChoice, budget: Budget | None = None) -> Joint:
    """The plan of a request by a joint choice, or by the chain of separate ones where that takes no more.

    Bodies of loops and branches are planned by the chain. A budget of time is that of the joint choice, too. One of
    memory is kept by the joint choice where it is, in its own time; else as without it.

    Raises
    ------
    PlanError
        A budget of memory is kept by none.
    """
    first = smallest_draft(request)
    asked = evolve(request, loops=first.request.loops)
    if budget is not None and budget.work is not None:
        settings = evolve(settings, work=float(budget.work))
    within = None
    if settings.work > 1:
        within = fitted(Budget(None, settings.work, "greedy" if budget is None else budget.strategy), asked)
    found = _planned(asked, settings, placed(first), within)
    if budget is not None and budget.nbytes is not None and found.report.nbytes > budget.nbytes:
        fit = fitted(budget, asked)
        return Joint(fit.graph, fit.planned, found.report, fit.recomputation)
    return found


def joint_problem_of(request: Request, work: float) -> JointProblem:
    """The joint problem of a request, in which values may be computed again where there is time.

    Raises
    ------
    PlanError
        There is none: the program is in several places.
    """
    passes = JointPasses(JointChoice(work, 0), request.passes).passes()
    followed: Followed | None = arranged(evolve(request, passes=passes)).joint
    if followed is None:
        raise PlanError(f"{request.graph.name!r} has no joint problem: it keeps values, or is in several places")
    return followed.asked.recomputing() or followed.asked.problem


def _planned(asked: Request, settings: JointChoice, chain: Planned, within: Fitted | None) -> Joint:
    """The best of the joint choices, or one of the chain's plans."""
    drawn = [*_drafts(asked, settings, within)]
    plans = [(placed(each.draft), each) for each in drawn]
    least, chosen = min(plans, key=lambda pair: footprint(pair[0].plan))
    report = _report(footprint(chain.plan), within, least, chosen, drawn)
    if report.chain <= report.nbytes:
        return Joint(asked.graph, chain, report)
    if within is not None and report.in_time <= report.joint:
        return Joint(within.graph, within.planned, report, within.recomputation)
    return Joint(chosen.graph, least, report)


@frozen(eq=False)
class _Drawn:
    """A draft that follows a joint choice, with offsets.

    Attributes
    ----------
    graph
        In which values may be computed again.
    draft
        Of it.
    solution
        Of the problem that the graph is the answer to; None: there was none.
    usual
        What the kernels that are chosen by themselves cost, in picoseconds.
    again
        Runs of tasks that have run before.
    """

    graph: ComputationGraph
    draft: Draft
    solution: Solution | None
    usual: int
    again: int = 0


def _drafts(request: Request, settings: JointChoice, within: Fitted | None) -> Iterator[_Drawn]:
    """One in which all is computed once; what is found from there, if it is less; and from a strategy's answer."""
    passes = JointPasses(settings, request.passes)
    draft = smallest(Alternatives(evolve(request, passes=passes.passes())))
    followed: Followed | None = draft.joint
    if followed is None or followed.solution.choice is None:
        yield _Drawn(request.graph, draft, None, 0)
        return
    usual, limit = followed.asked.problem.usual_cost, followed.asked.problem.limit
    problem = followed.asked.recomputing()
    if problem is None:
        yield _Drawn(request.graph, draft, followed.solution, usual)
        return
    once = [run.task for run in followed.solution.choice.runs]
    found = JointSearch(settings.steps, settings.seed).solved(problem, once)
    yield _Drawn(request.graph, draft, evolve(followed.solution, bound=found.bound), usual)
    again = JointPasses(settings, request.passes, limit).passes()
    if found.choice is not None and len(found.choice.runs) > len(problem) and found.nbytes < followed.solution.nbytes:
        graph, order = rebuilt(request.graph, followed.asked.nodes, [run.task for run in found.choice.runs])
        draft = smallest(Alternatives(evolve(request, graph=graph, sequence=order, passes=again)))
        yield _Drawn(graph, draft, found, usual, len(found.choice.runs) - len(problem))
    if within is not None and within.sequence is not None:
        draft = smallest(Alternatives(evolve(request, graph=within.graph, sequence=within.sequence, passes=again)))
        yield _Drawn(within.graph, draft, evolve(found, steps=0), usual, within.recomputation.again)


def _report(chain: int, within: Fitted | None, plan: Planned, chosen: _Drawn, drawn: Sequence[_Drawn]) -> JointReport:
    joint = footprint(plan.plan)
    solutions = [each.solution for each in drawn if each.solution is not None]
    bound = None if chosen.solution is None else chosen.solution.bound + joint - sum(plan.plan.arenas.values())
    followed: Followed | None = chosen.draft.joint
    kernels, spent = 0, 0
    if followed is not None and followed.solution.choice is not None:
        runs = followed.solution.choice.runs
        kernels, spent = sum(run.kernel > 0 for run in runs), cost(followed.asked.problem, runs)
    return JointReport(
        chain,
        chain if within is None else within.nbytes,
        joint,
        bound,
        sum(each.steps for each in solutions),
        chosen.again,
        kernels,
        spent / chosen.usual if chosen.usual else 1.0,
    )
