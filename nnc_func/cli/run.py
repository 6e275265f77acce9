"""Run a model on the lazy NumPy stack: what comes out, and how long it takes."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any
from zipfile import BadZipFile

import numpy as np

import nnc_func as nnc
from nnc_func.cli import subjects
from nnc_func.cli.answers import Answer, facts
from nnc_func.engine.inspecting.summary import summarised
from nnc_func.errors import GraphError
from nnc_func.facets.dtypes import kind_of
from nnc_func.tree import flatten


def arguments(parser: argparse.ArgumentParser) -> None:
    """What is run, on what, how often."""
    subjects.arguments(parser)
    parser.add_argument("--inputs", metavar="FILE", help="an .npz file of inputs by name; random ones unless given")
    parser.add_argument("--save", metavar="FILE", help="write the outputs to an .npz file")
    parser.add_argument("--seed", type=subjects.seed, default=0, help="of random inputs (default 0)")
    parser.add_argument("--repeat", type=subjects.positive, default=3, metavar="N", help="timed runs (default 3)")
    parser.add_argument("--profile", action="store_true", help="where the time goes, by operator")


def answer(given: argparse.Namespace) -> Answer:
    """Outputs in a few numbers, and the median seconds of a run."""
    found = subjects.closed(subjects.subject(given, nnc.lazy(), computes=True))
    inputs = _inputs(found, given)
    start = time.perf_counter()
    program = found.program()
    compiled = time.perf_counter() - start
    outputs, seconds = _timed(program, inputs, given.repeat)
    leaves, _ = flatten(outputs, by_insertion=True)
    arrays: dict[str, Any] = {f"output_{i}": np.asarray(a) for i, a in enumerate(leaves)}
    if given.save:
        with open(given.save, "wb") as file:
            np.savez(file, **arrays)
    counts: dict[str, Any] = {
        "name": found.name,
        "compile_seconds": compiled,
        "run_seconds": seconds,
    }
    plan = _plan(program)
    if plan is not None:
        counts |= {"kernels": plan.kernels, "arena_bytes": plan.arena_bytes}
    said = {name: repr(summarised(a)) for name, a in arrays.items()}
    data = counts | {"outputs": said}
    text = facts(counts | said)
    if given.profile:
        profile = program.profile(*inputs, repeat=given.repeat)
        data["profile"] = profile.by_operator
        text += f"\n\n{profile!r}"
    return Answer(data, text)


def _plan(program: Any) -> Any:
    """The plan that ran: of unknown extents that of the last call's; None of what is interpreted."""
    programs = getattr(program, "programs", None)
    last = next(reversed(programs.values())) if programs else program
    return getattr(last, "plan", None)


def _timed(program: Any, inputs: Any, repeat: int) -> tuple[Any, float]:
    """The outputs of the first run, and the median seconds of those after it."""
    outputs = program(*inputs)
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        program(*inputs)
        seconds.append(time.perf_counter() - start)
    return outputs, statistics.median(seconds)


def _inputs(found: subjects.Subject, given: argparse.Namespace) -> list[Any]:
    """Arrays for the graph's inputs: from a file, the zoo's examples, or drawn."""
    wanted = found.graph.inputs
    if given.inputs:
        return _read(given.inputs, wanted)
    known = dict(zip((node.data for node in wanted), found.examples or (), strict=False))
    generator = np.random.default_rng(given.seed)
    return [known.get(node.data, drawn(node.aval, generator)) for node in wanted]


def _read(path: str, wanted: Any) -> list[Any]:
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, TypeError, EOFError, BadZipFile) as error:
        raise GraphError(f"{path} is no .npz file of arrays: {error}") from error
    missing = [node.data for node in wanted if node.data not in arrays]
    if missing:
        raise GraphError(f"{path} has no input {missing[0]!r}; it has: {', '.join(arrays) or 'nothing'}")
    return [arrays[node.data] for node in wanted]


def drawn(aval: Any, generator: Any) -> Any:
    """A random array: normal numbers, or zeros and ones of an integer or boolean dtype. Of no dimension: 0.01, or 0.

    So a training step has a rate that is one, and class numbers that exist.

    Examples
    --------
    >>> drawn(nnc.Aval((2, 3), "float32"), np.random.default_rng(0)).shape
    (2, 3)
    """
    if not aval.shape:
        return np.array(0.01).astype(aval.dtype)
    if kind_of(aval.dtype) in "fc":
        return np.asarray(generator.standard_normal(aval.shape)).astype(aval.dtype)
    return np.asarray(generator.integers(0, 2, aval.shape)).astype(aval.dtype)
