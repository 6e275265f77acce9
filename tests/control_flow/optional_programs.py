"""Programs with variables that are None at times: drawn as text, and run by Python and as converted code."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

OPTIONAL, NUMBERS = ("a", "b"), ("t", "u")
READ = ("v", "x[0]", "x[1]", "x[2]", "t", "u", "1.5")
BEGIN = ("def f(x):", "    v, t, u = x[0] * 0.5, x[1] * 1.0, x[2] + 1.0", "    a = None", "    b = None")
END = ("    if a is not None: t = t + a * 3.0", "    if b is None: t = t + 100.0", "    else: t = t * 2.0 + b",
       "    return t * 1.0 + u * 0.1")  # fmt: skip
Known = frozenset[str]
"""Variables that are surely not None."""


class Drawn:
    """One program.

    Attributes
    ----------
    lines
        Its text.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lines = [*BEGIN]
        self.counters = 0
        for _ in range(2):
            self.block(3, frozenset(), 1, False)
        self.lines += END

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def value(self, known: Known) -> str:
        first = self.draw.choice([*READ, *sorted(known) * 2])
        if self.draw.random() < 0.5:
            return first
        return f"({first} {self.draw.choice('+-*')} {self.draw.choice([*READ, *sorted(known)])})"

    def test(self, known: Known) -> tuple[str, Known, Known]:
        """A condition, and what is surely not None where it holds, and elsewhere."""
        name, kind = self.draw.choice(OPTIONAL), self.draw.random()
        if kind < 0.35:
            return f"{name} is None", frozenset(), frozenset([name])
        if kind < 0.6:
            return f"{name} is not None", frozenset([name]), frozenset()
        if kind < 0.75:
            return f"{name} is None or {self.value(known | {name})} > {name}", frozenset(), frozenset()
        if kind < 0.85:
            return f"{name} is not None and {name} > {self.value(known)}", frozenset([name]), frozenset()
        return f"{self.value(known)} > {self.value(known)}", frozenset(), frozenset()

    def block(self, left: int, known: Known, depth: int, in_loop: bool) -> Known:
        """Some statements, of which so many may stand in one another; what is not None behind them."""
        for _ in range(self.draw.randint(1, 3)):
            known = self.statement(left, known, depth, in_loop)
        return known

    def statement(self, left: int, known: Known, depth: int, in_loop: bool) -> Known:
        name, number, kind = self.draw.choice(OPTIONAL), self.draw.choice(NUMBERS), self.draw.random()
        if kind < 0.05:
            other = self.draw.choice(OPTIONAL)
            self.add(depth, f"{name} = {other}")
            return known | {name} if other in known else known - {name}
        if kind < 0.3:
            self.add(depth, f"{name} = {self.value(known)}")
            return known | {name}
        if kind < 0.38:
            self.add(depth, f"{name} = None")
            return known - {name}
        if kind < 0.44:
            self.add(depth, f"{name} = {self.value(known)} if {self.value(known)} > {self.value(known)} else None")
            return known - {name}
        if kind < 0.48 and name in known:
            self.add(depth, f"{name} += {self.value(known)}")
        elif kind < 0.5:
            self.add(depth, f"t = t + {name}")  # which may be None
        elif kind < 0.54 and in_loop:
            self.add(depth, f"if {self.value(known)} > 4: {self.draw.choice(['break', 'continue'])}")
        elif kind < 0.66 or not left:
            self.add(depth, f"{number} = {number} * 0.5 + {self.value(known)}")
        elif kind < 0.86:
            return self.branch(left, known, depth, in_loop)
        else:
            return self.loop(left, known, depth)
        return known

    def branch(self, left: int, known: Known, depth: int, in_loop: bool) -> Known:
        test, then, otherwise = self.test(known)
        self.add(depth, f"if {test}:")
        after = self.block(left - 1, known | then, depth + 1, in_loop)
        if self.draw.random() < 0.5:
            return known & after
        self.add(depth, "else:")
        return after & self.block(left - 1, known | otherwise, depth + 1, in_loop)

    def loop(self, left: int, known: Known, depth: int) -> Known:
        known, is_for = known - {*OPTIONAL}, self.draw.random() < 0.6
        if is_for:
            self.add(depth, f"for v in x{self.draw.choice(['', '[:2]', '[1:]'])}:")
        else:
            self.counters += 1
            counter = f"n{self.counters}"
            self.add(depth, f"{counter} = 0")
            self.add(depth, f"while {counter} < {self.draw.choice(['x[0]', '2', 'u', 't'])} and {counter} < 3:")
            self.add(depth + 1, f"{counter} = {counter} + 1")
        self.block(left - 1, known, depth + 1, is_for)
        return known


def program(seed: int, folder: Path) -> Callable[[Any], Any]:
    """A program drawn, from a file of its own."""
    path = folder / f"drawn_{seed}.py"
    path.write_text("\n".join(Drawn(seed).lines) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f  # type: ignore[no-any-return]
