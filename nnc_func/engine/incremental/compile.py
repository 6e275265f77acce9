"""From a graph and a `retain` policy to an incremental program, on an engine that plans or on one that interprets."""

from __future__ import annotations

import time
from typing import Any

from nnc_func.config import config
from nnc_func.engine.compile_stats import Stats, plannable
from nnc_func.engine.incremental.dependencies import checked_policy
from nnc_func.engine.incremental.program import IncrementalProgram
from nnc_func.engine.incremental.steps import Steps, interpreted_steps, planned_steps
from nnc_func.engine.incremental.symbolic import IncrementalSymbolicProgram
from nnc_func.engine.planning.layout_pass import relaid
from nnc_func.engine.planning.planner import planned
from nnc_func.errors import GraphError, PlanError
from nnc_func.graph.graph import ComputationGraph
from nnc_func.tree import ONE_LEAF, Structure


def interpreted(engine: Any, graph: ComputationGraph, retain: Any, lift: Any) -> Any:
    """An incremental program whose nodes are interpreted as they are: for an eager engine."""

    def make(graph: ComputationGraph, source: ComputationGraph) -> IncrementalProgram:
        steps = interpreted_steps(graph, engine.device, policy)
        return IncrementalProgram(graph, source, steps, engine.device, None, engine.check_numerics)

    whole, policy = _with_kept(graph, retain, lift)
    if graph.symbols:
        return IncrementalSymbolicProgram(whole, graph, engine.device, make)
    return make(whole, graph)


def compiled(engine: Any, graph: ComputationGraph, retain: Any, lift: Any) -> Any:
    """An incremental program, optimised and planned; interpreted on a device without memory: for a lazy engine.

    Raises
    ------
    PlanError
        The engine has a budget, by which values are computed again that are to be kept.
    """
    if engine.budget is not None:
        raise PlanError("a program that keeps values from run to run computes none again: its engine has no budget")

    def make(graph: ComputationGraph, source: ComputationGraph) -> IncrementalProgram:
        start = time.perf_counter()
        if plannable(engine.device):
            graph = relaid(graph, engine.kernels)
        steps = _steps(engine, graph, policy)
        stats = Stats(source.statistics, graph.statistics, report, between - begin, time.perf_counter() - start)
        return IncrementalProgram(graph, source, steps, engine.device, stats, engine.check_numerics)

    whole, policy = _with_kept(graph, retain, lift)
    begin = time.perf_counter()
    optimised, report = engine.graph.optimised(whole)
    between = time.perf_counter()
    if graph.symbols:
        return IncrementalSymbolicProgram(optimised, graph, engine.device, make)
    return make(optimised, graph)


def _steps(engine: Any, graph: ComputationGraph, policy: str) -> Steps:
    if not plannable(engine.device):
        return interpreted_steps(graph, engine.device, policy)
    found = planned(engine.request(graph, retain=policy, checked=False, streams=1))
    if config.spec >= 1 or not engine.is_ours:
        engine.verify(found, graph)
    return planned_steps(found.plan, engine.device, found.constants, engine.linker)


def _with_kept(graph: ComputationGraph, retain: Any, lift: Any) -> tuple[ComputationGraph, str]:
    """The graph with the values that are named as further outputs, and the policy."""
    policy = checked_policy(retain)
    if graph.effects:
        raise GraphError("effects happen at each call, so that nothing is kept from one to the next: retain='none'")
    if isinstance(retain, str):
        return graph, policy
    outputs = (*graph.outputs, *map(lift, retain))
    structure = Structure(list, (), (ONE_LEAF,) * len(outputs))
    return graph.layer.close(graph.inputs, outputs, graph.updates, graph.name, structure), policy
