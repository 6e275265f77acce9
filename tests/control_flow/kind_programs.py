"""Random programs as source code in which what a variable is differs from way to way: texts, None, other shapes.

A tensor decides the ways, so that staged code cannot have such a variable: it is to say so, or to know better.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

VALUES = ("'x'", "'y'", "None", "[1.0, 2.0]", "u", "(u, u)", "1", "True", "v * 2", "len")
TESTS = ("t > 0.5", "v > 0.6", "w < 0.3", "t > 0.2 and v > 0.4", "k == 'x'", "k is None", "m == 'y'", "t > w")


class Writer:
    """Writes one function ``program(t, v, w, u)``: of three numbers and two numbers in a row."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0

    def write(self, depth: int, text: str) -> None:
        """One line."""
        self.lines.append("    " * depth + text)

    def simple(self) -> str:
        """One statement."""
        r = self.random
        name = r.choice("km")
        return r.choice([
            f"{name} = {r.choice(VALUES)}",
            f"{name} = {r.choice(VALUES)}",
            f"{r.choice('vw')} = v * 0.7 + w * {r.choice((0.2, 0.5))}",
            f"v = v * 0.9 + (0.3 if {name} == 'x' else 0.1)",
            "w = w + u[0] * 0.2",
            "k, m = m, k",
        ])  # fmt: skip

    def block(self, depth: int, loops: int, size: int) -> None:
        """Some statements; of the last one nothing comes after a break."""
        r = self.random
        for n in range(size):
            kind, last = r.random(), n == size - 1
            if kind < 0.42 or depth > 4:
                self.write(depth, self.simple())
            elif kind < 0.68:
                self.write(depth, f"if {r.choice(TESTS)}:")
                self.block(depth + 1, loops, r.choice((1, 1, 2)))
                if r.random() < 0.4:
                    self.write(depth, "else:")
                    self.block(depth + 1, loops, 1)
            elif kind < 0.84:
                self.loop(depth, loops)
            elif loops and last:
                self.write(depth, r.choice(("break", "break", "continue")))
            elif last and kind > 0.96:
                self.write(depth, f"return {self.result()}")
            else:
                self.write(depth, self.simple())

    def loop(self, depth: int, loops: int) -> None:
        """A loop that ends."""
        r = self.random
        kind = r.randrange(4)
        self.counters += 1
        i = f"i{self.counters}"
        if kind == 0:
            self.write(depth, f"for {i} in range({r.choice((1, 2, 3))}):")
        elif kind == 1:
            self.write(depth, f"for {i} in [0.1, v, w]:")
        elif kind == 2:
            self.write(depth, f"for {i} in u:")
        else:
            self.write(depth, f"{i} = v * 0")
            self.write(depth, f"while {i} < {r.choice((0.5, 1.5, 2.5))}:")
            self.write(depth + 1, f"{i} = {i} + 1")
        if r.random() < 0.6:
            self.write(depth + 1, f"if {r.choice(TESTS[:4])}:")
            if r.random() < 0.3:
                self.write(depth + 2, self.simple())
            self.write(depth + 2, r.choice(("break", "break", "break", "continue")))
        self.block(depth + 1, loops + 1, r.choice((1, 2)))

    def result(self) -> str:
        """What is returned: numbers that the variables decide."""
        return self.random.choice([
            "v", "v + w if k == 'x' else v - w", "v if m is None else w", "v * 3 if k == m else w", "(v, w)[k == 'y']",
        ])  # fmt: skip

    def program(self) -> str:
        """The source."""
        self.write(0, "def program(t, v, w, u):")
        self.write(1, f"k = {self.random.choice(VALUES)}")
        self.write(1, f"m = {self.random.choice(VALUES)}")
        if self.random.random() < 0.4:
            self.block(1, 0, 1)
        self.loop(1, 0)
        if self.random.random() < 0.3:
            self.block(1, 0, 1)
        self.write(1, f"return {self.result()}")
        return "\n".join(self.lines) + "\n"


def drawn(seed: int) -> tuple[Callable[..., Any], str]:
    """A program, and its source."""
    source = Writer(seed).program()
    file = f"<doctest kinds {seed}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {}
    exec(compile(source, file, "exec"), space)
    return space["program"], source
