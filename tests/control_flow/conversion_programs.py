"""Random programs of a few numbers as source code: `if`, `while`, `for`, `break`, `continue`, early `return`."""

from __future__ import annotations

import linecache
import random
from typing import Any

VARIABLES = ("a", "b", "c")


class Writer:
    """Writes one function ``program(a, b, c, xs, n)`` that ends, and whose values stay bounded."""

    def __init__(self, seed: int, bounded: bool = False) -> None:
        self.bounded = bounded  # loops go over rows alone: a derivative wants to know how often at most
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0

    def expression(self, extra: tuple[str, ...] = ()) -> str:
        """A number, by operations that keep it small."""
        names = [*VARIABLES, *extra]
        one, two = self.random.choice(names), self.random.choice(names)
        return self.random.choice([
            f"0.5 * {one} + 0.25 * {two}", f"{one} - 0.3 * {two}", f"0.9 * {one} + 0.1",
            f"0.5 * {one} * 0.7 - {two} * 0.2", f"({one} if {two} > 0.2 else 0.5 * {two})",
        ])  # fmt: skip

    def condition(self, extra: tuple[str, ...] = ()) -> str:
        """A truth value."""
        names = [*VARIABLES, *extra]
        one, two, three = (self.random.choice(names) for _ in range(3))
        return self.random.choice([
            f"{one} > 0.37", f"{one} < {two} + 0.21", f"-1.1 < {one} < 0.83", f"not {one} > {two} - 0.17",
            f"{one} > 0.13 and {two} < 0.71", f"{one} < -0.4 or {three} > 0.29",
        ])  # fmt: skip

    def write(self, depth: int, text: str) -> None:
        """One line."""
        self.lines.append("    " * depth + text)

    def block(self, depth: int, nested: int, loop: bool, extra: tuple[str, ...] = ()) -> None:
        """Some statements."""
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if nested and kind < 0.35:
                self.write(depth, f"if {self.condition(extra)}:")
                self.block(depth + 1, nested - 1, loop, extra)
                if self.random.random() < 0.3:
                    self.write(depth, f"elif {self.condition(extra)}:")
                    self.block(depth + 1, nested - 1, loop, extra)
                if self.random.random() < 0.6:
                    self.write(depth, "else:")
                    self.block(depth + 1, nested - 1, loop, extra)
            elif nested and kind < 0.5 and not self.bounded:
                self.counters += 1
                name = f"i{self.counters}"
                self.write(depth, f"{name} = 0 * n")
                self.write(depth, f"while {name} < {self.random.randint(1, 4)} and ({self.condition(extra)}):")
                self.write(depth + 1, f"{name} += 1")
                self.block(depth + 1, nested - 1, True, extra)
            elif nested and kind < 0.7:
                self.counters += 1
                name = f"x{self.counters}"
                over = self.random.choice(
                    ["for {} in xs:", "for {}k, {} in enumerate(xs):", "for {}k in range(n):"][: 3 - self.bounded]
                )
                self.write(depth, over.format(*[name] * over.count("{}")))
                if "range" in over:
                    self.write(depth + 1, f"{name} = 0.1 * {name}k")
                self.block(depth + 1, nested - 1, True, (*extra, name))
            elif loop and kind < 0.78:
                self.write(depth, f"if {self.condition(extra)}:")
                self.write(depth + 1, self.random.choice(["break", "continue", "continue"]))
            elif kind < 0.83:
                self.write(depth, f"if {self.condition(extra)}:")
                self.write(depth + 1, f"return {self.expression(extra)}")
            elif kind < 0.9:
                self.write(depth, f"{self.random.choice(VARIABLES)} *= 0.8")
            elif kind < 0.95:
                self.write(depth, "a, b = b, a")
            else:
                self.write(depth, f"{self.random.choice(VARIABLES)} = {self.expression(extra)}")
            if self.random.random() < 0.5:
                self.write(depth, f"{self.random.choice(VARIABLES)} = {self.expression(extra)}")


def program(seed: int, bounded: bool = False) -> tuple[Any, str]:
    """A function as random as the seed, and its source."""
    writer = Writer(seed, bounded)
    writer.write(0, "def program(a, b, c, xs, n):")
    writer.block(1, 2 + seed % 2, False)
    writer.block(1, 2, False)
    writer.write(1, "return a + 2 * b - c")
    return made("\n".join(writer.lines) + "\n", f"<doctest program {seed} {bounded}>")


def made(text: str, file: str) -> tuple[Any, str]:
    """The function that a source defines, with lines that tracebacks and `inspect` find."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {}
    exec(compile(text, file, "exec"), names)
    return names["program"], text
