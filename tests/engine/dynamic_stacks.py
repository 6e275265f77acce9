"""Dynamic stacks of recipes of their own, and what memoising ones find: what tests share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve

import nnc_func as nnc
from nnc_func.facets.machine import CORE
from nnc_func.testing.program import Program

LARGE = np.random.default_rng(0).normal(size=1000)
_machines = itertools.count(1)


def own_device() -> Any:
    """A device of a recipe of its own: what others record on stacks of theirs is not counted."""
    return nnc.NumPy(machine=evolve(CORE, arithmetic=2e9 + next(_machines)))


def fresh(**settings: Any) -> nnc.Stack:
    """A dynamic stack of a recipe of its own."""
    return nnc.dynamic(own_device(), **settings)


def memoising(limit: Any = True, device: Any = None) -> nnc.Stack:
    """A stack that memoises, of a recipe of its own: nobody else keeps anything there."""
    return nnc.dynamic(device or own_device(), memoise=limit)


def total(stack: Any, program: Program, tensors: Any) -> Any:
    """One number that all floating outputs flow into."""
    values, found = program.applied(stack, tensors), stack.asarray(np.float64(0))
    for o in program.outputs:
        if values[o].dtype.kind == "f":
            found = found + stack.ops.sum(stack.ops.square(stack.ops.tanh(values[o])))
    return found


def weighed(stack: Any, slopes: Any) -> Any:
    """A function of gradients that is no symmetric one."""
    found = stack.asarray(np.float64(0))
    for n, g in enumerate(slopes):
        found = found + stack.ops.sum(stack.ops.sin(g) * (n + 1.0))
    return found


def found(stack: nnc.Stack, computed: Callable[[], Any]) -> tuple[Any, int, int]:
    """What is computed, and how many hits and misses that takes."""
    before = stack.memoisation
    value = computed()
    after = stack.memoisation
    return value, after.hits - before.hits, after.misses - before.misses


def same(a: Any, b: Any) -> bool:
    """Whether two tensors hold one array."""
    return stack_array(a) is stack_array(b)


def stack_array(tensor: Any) -> Any:
    """The array that a tensor holds."""
    return getattr(tensor.value, "array", tensor.value)
