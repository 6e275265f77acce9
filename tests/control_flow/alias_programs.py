"""Random programs as source code in which one object has several names, and is written into in loops and branches.

Names of tensors, lists, a dict, attributes of objects, variables of functions within, arguments of helpers.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

TENSORS = ("a", "b", "c")
LISTS = ("p", "q")
SHOWN = "[a, b, c, p, q, d, o.v, o.w]"


class Box:
    """An object with two attributes."""

    def __init__(self, v: Any, w: Any) -> None:
        self.v, self.w = v, w


HELPERS = """
def changed(v, s, i):
    v[i] = s * 0.5 + 0.2
    return v


def changed_if(v, s):
    if «s > 0.3»:
        v[1] = s
    return v


def one_of(u, v, s):
    if «s < 0.4»:
        return u
    return v


def exchanged(row, u):
    row[0] = u


def both_changed(u, v):
    u[0] = v[1] * 0.6
    v[2] = u[0] + 0.1


"""


class Writer:
    """Writes one function ``program(x, y, t, xs, n)``: of two tensors of three numbers, a number, rows, an integer."""

    def __init__(self, seed: int, bounded: bool = False) -> None:
        self.bounded = bounded  # loops go over rows alone: a derivative wants to know how often at most
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0
        self.rows: list[str] = []

    def tensor(self) -> str:
        """Something that is a tensor of three numbers."""
        return self.random.choice([
            *TENSORS, *TENSORS, "p[0]", "p[1]", "q[0]", "q[1]", "d['u']", "d['v']", "o.v", "o.w", *self.rows,
        ])  # fmt: skip

    def number(self) -> str:
        """A number."""
        one, two = self.tensor(), self.tensor()
        i, j = self.random.randrange(3), self.random.randrange(3)
        return self.random.choice([f"0.5 * {one}[{i}] + 0.3", f"0.7 * {one}[{i}] - 0.4 * {two}[{j}]", "0.9 * t"])

    def fresh(self) -> str:
        """A new tensor."""
        return self.random.choice([
            f"0.8 * {self.tensor()} + 0.1", f"0.6 * {self.tensor()} - 0.3 * {self.tensor()}", f"{self.tensor()} * t",
        ])  # fmt: skip

    def condition(self) -> str:
        """A truth value that a tensor decides."""
        one, two = self.tensor(), self.tensor()
        i, j = self.random.randrange(3), self.random.randrange(3)
        return self.random.choice([
            f"t > {self.random.choice((0.3, 0.6))}", f"{one}[{i}] > {two}[{j}]", f"{one}[{i}] > 0.37",
            f"{one}[{i}] > 0.21 and t < 0.71",
        ])  # fmt: skip

    def write(self, depth: int, text: str) -> None:
        """One line."""
        self.lines.append("    " * depth + text)

    def simple(self) -> str:
        """One statement that gives another name, makes something new, or writes into something."""
        r, kind = self.random, self.random.random()
        if kind < 0.3:
            return f"{self.tensor()}[{r.randrange(3)}] = {self.number()}"
        if kind < 0.48:
            return f"{r.choice(TENSORS)} = {self.tensor()}"
        if kind < 0.58:
            return f"{r.choice(TENSORS)} = {self.fresh()}"
        if kind < 0.62:
            return f"{r.choice(TENSORS)} *= 0.8"
        if kind < 0.67:
            return f"{r.choice(LISTS)} = [{self.tensor()}, {self.tensor()}]"
        if kind < 0.69:
            return r.choice(["p = q", "q = p", "p, q = q, p", "a, b = b, a"])
        if kind < 0.75:
            return f"{r.choice(LISTS)}[{r.randrange(2)}] = {r.choice((self.tensor, self.fresh))()}"
        if kind < 0.80:
            return f"d['{r.choice('uv')}'] = {r.choice((self.tensor, self.fresh))()}"
        if kind < 0.85:
            return f"o.{r.choice('vw')} = {r.choice((self.tensor, self.fresh))()}"
        if kind < 0.853:
            return f"o = Box({self.tensor()}, {self.fresh()})"
        if kind < 0.90:
            return f"{r.choice(TENSORS)} = changed({self.tensor()}, {self.number()}, {r.randrange(3)})"
        if kind < 0.92:
            return f"{r.choice(TENSORS)} = changed_if({self.tensor()}, {self.number()})"
        if kind < 0.94:
            return f"{r.choice(TENSORS)} = one_of({self.tensor()}, {self.tensor()}, {self.number()})"
        if kind < 0.95:
            return f"exchanged({r.choice(LISTS)}, {self.tensor()})"
        if kind < 0.96:
            return f"both_changed({self.tensor()}, {self.tensor()})"
        if kind < 0.97:
            return "within()"
        return f"{r.choice(TENSORS)} = {self.tensor()} if «{self.condition()}» else {self.tensor()}"

    def block(self, depth: int, nested: int, loop: bool) -> None:
        """Some statements."""
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if nested and kind < 0.3:
                self.write(depth, f"if «{self.condition()}»:")
                self.block(depth + 1, nested - 1, loop)
                if self.random.random() < 0.5:
                    self.write(depth, "else:")
                    self.block(depth + 1, nested - 1, loop)
            elif nested and kind < 0.4 and not self.bounded:
                self.counters += 1
                name = f"i{self.counters}"
                self.write(depth, f"{name} = 0 * n")
                also = self.random.choice(["", f" and ({self.condition()})"])
                self.write(depth, f"while «{name} < {self.random.randint(1, 4)}{also}»:")
                self.write(depth + 1, f"{name} += 1")
                self.block(depth + 1, nested - 1, True)
            elif nested and kind < 0.55:
                self.counters += 1
                name = f"x{self.counters}"
                over = self.random.choice(["for {} in xs:", "for {}k, {} in enumerate(xs):", "for {}k in range(n):"])
                if self.bounded:
                    over = "for {} in xs:"
                self.write(depth, over.format(*[name] * over.count("{}")))
                if "range" not in over:
                    self.rows.append(name)
                self.block(depth + 1, nested - 1, True)
                if "range" not in over:
                    self.rows.pop()
            elif loop and kind < 0.6:
                self.write(depth, f"if «{self.condition()}»:")
                self.write(depth + 1, self.random.choice(["break", "continue"]))
            elif kind < 0.63:
                self.write(depth, f"if «{self.condition()}»:")
                self.write(depth + 1, f"return {SHOWN}")
            else:
                self.write(depth, self.simple())
            if self.random.random() < 0.6:
                self.write(depth, self.simple())


def program(seed: int, bounded: bool = False, size: int = 2) -> tuple[str, str]:
    """The source of a program as random as the seed, where `decide` says what tests do; and without that."""
    writer = Writer(seed, bounded)
    writer.write(0, "def program(x, y, t, xs, n):")
    writer.write(1, "a, b, c = x * 1, y * 1, x + y")
    writer.write(1, f"p, q = [a, {writer.random.choice(('b', 'a', 'c + 0'))}], [b, {writer.random.choice('abc')}]")
    writer.write(1, "d = {'u': " + writer.random.choice(("a", "p[1]", "b + 0")) + ", 'v': c}")
    writer.write(1, f"o = Box({writer.random.choice('abc')}, {writer.random.choice(('a', 'q[1]', 'x - y'))})")
    if writer.random.random() < 0.3:
        writer.write(1, "def within():")
        writer.write(2, f"{writer.random.choice(('a', 'p[0]', 'o.v'))}[{writer.random.randrange(3)}] = t * 0.3")
    else:
        writer.write(1, "def within():")
        writer.write(2, "return a")
    for _ in range(size):
        writer.block(1, 2, False)
    writer.write(1, f"return {SHOWN}")
    text = HELPERS + "\n".join(writer.lines) + "\n"
    return text.replace("«", "decide(").replace("»", ")"), text.replace("«", "").replace("»", "")


def made(text: str, file: str, decide: Callable[[Any], Any] | None = None) -> Any:
    """The function that a source defines, with lines that tracebacks and `inspect` find."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"Box": Box, "decide": decide}
    exec(compile(text, file, "exec"), names)
    return names["program"]
