"""What a program's time goes to: seconds, bytes and FLOPs of each instruction, by operator, and as a Chrome trace."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from nnc_func.engine.running.observers import Application, called

MICRO = 1e6


@frozen
class Timed:
    """One instruction, timed.

    Attributes
    ----------
    name, kernel
        The operator, with its steps where it is a fused group; the kernel.
    instruction, stream
        Number in the plan; the queue that it runs on.
    seconds
        The median over all runs.
    started
        Seconds from the beginning of the last run.
    flops, nbytes
        Work; bytes read and written.
    bytes_alive
        Bytes of the arena and of fresh results in use while it ran.
    operands, results
        Avals.
    where, lines
        The user's line; (file, line number, function) of all that are known.
    times
        Within loops, how many times of each came before, the outermost first.
    is_estimate
        Whether FLOPs are an estimate: how often a loop goes, or which branch is taken, was not known.
    """

    name: str
    kernel: str
    instruction: int
    stream: int
    seconds: float
    started: float
    flops: int
    nbytes: int
    bytes_alive: int
    operands: tuple[Any, ...] = field(repr=False)
    results: tuple[Any, ...] = field(repr=False)
    where: str
    lines: tuple[tuple[str, int, str], ...] = field(repr=False)
    times: tuple[int, ...] = ()
    is_estimate: bool = False


@frozen(repr=False)
class Profile:
    """Where the time of a program goes: it prints itself as a table by operator.

    Attributes
    ----------
    name, repeat
        The program's, and the number of runs.
    instructions
        In the order in which they ran.
    within
        What loops computed in one more run, each time; their numbers are of the loops' own plans.
    """

    name: str
    repeat: int
    instructions: tuple[Timed, ...]
    within: tuple[Timed, ...] = ()

    @property
    def seconds(self) -> float:
        """Of all kernels together: what comes beside them is not in it."""
        return sum(i.seconds for i in self.instructions)

    @property
    def by_operator(self) -> list[dict[str, Any]]:
        """A row for each operator, the slowest first: calls, seconds, share, FLOPs and bytes a second."""
        groups: dict[str, list[Timed]] = {}
        for each in self.instructions:
            groups.setdefault(each.name, []).append(each)
        whole = self.seconds or 1.0
        rows = []
        for name, members in groups.items():
            seconds = sum(m.seconds for m in members)
            rows.append({
                "operator": name, "calls": len(members), "seconds": seconds, "share": seconds / whole,
                "gigaflops_per_second": sum(m.flops for m in members) / seconds / 1e9 if seconds else 0.0,
                "is_estimate": any(m.is_estimate for m in members),
                "gigabytes_per_second": sum(m.nbytes for m in members) / seconds / 1e9 if seconds else 0.0,
            })  # fmt: skip
        return sorted(rows, key=lambda row: (-row["seconds"], row["operator"]))

    def slowest(self, count: int = 10) -> list[Timed]:
        """The instructions that take longest."""
        return sorted(self.instructions, key=lambda i: (-i.seconds, i.instruction))[:count]

    def to_chrome_trace(self, path: str | Path) -> None:
        """Write the last run in the trace event format, which Perfetto and chrome://tracing open.

        Each stream is a thread with a span for each instruction; a counter tells the bytes alive.
        """
        text = json.dumps({"traceEvents": list(self._events()), "displayTimeUnit": "ms"}, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    def _events(self) -> Any:
        def about(name: str, thread: int, said: str) -> dict[str, Any]:
            return {"ph": "M", "name": name, "pid": 1, "tid": thread, "args": {"name": said}}

        yield about("process_name", 0, self.name)
        for stream in sorted({i.stream for i in self.instructions}):
            yield about("thread_name", stream, f"stream {stream}")
        for i in self.instructions:
            yield {
                "ph": "X", "name": i.name, "cat": "kernel", "pid": 1, "tid": i.stream,
                "ts": i.started * MICRO, "dur": i.seconds * MICRO,
                "args": {
                    "instruction": i.instruction, "kernel": i.kernel, "flops": i.flops, "bytes": i.nbytes,
                    "operands": ", ".join(map(repr, i.operands)), "results": ", ".join(map(repr, i.results)),
                    "lines": [f"{file}:{line} in {function}" for file, line, function in i.lines],
                },
            }  # fmt: skip
            yield self._alive(i.started, i.bytes_alive)
        if self.instructions:
            last = self.instructions[-1]
            yield self._alive(last.started + last.seconds, 0)

    def _alive(self, at: float, nbytes: int) -> dict[str, Any]:
        return {"ph": "C", "name": "bytes alive", "pid": 1, "tid": 0, "ts": at * MICRO, "args": {"bytes": nbytes}}

    def __repr__(self) -> str:
        lines = [f"{self.name}: {len(self.instructions)} instructions, {self.seconds * 1e3:.3f} ms in kernels"]
        if not self.instructions:
            return lines[0]
        rows = [
            (r["operator"], str(r["calls"]), f"{r['seconds'] * MICRO:.1f}", f"{100 * r['share']:.1f}",
             f"{'~' * r['is_estimate']}{r['gigaflops_per_second']:.2f}", f"{r['gigabytes_per_second']:.2f}")
            for r in self.by_operator
        ]  # fmt: skip
        rows.insert(0, ("operator", "calls", "µs", "%", "GFLOP/s", "GB/s"))
        width = min(60, max(len(r[0]) for r in rows))
        lines += [f"{r[0][:width]:{width}}" + "".join(f"{cell:>10}" for cell in r[1:]) for r in rows]
        if any(r["is_estimate"] for r in self.by_operator):
            lines.append("~ an estimate: how often a loop goes, or which branch is taken, is not known before it runs")
        return "\n".join(lines)


def profiled(
    name: str, device: Any, runs: Sequence[tuple[float, Sequence[Application]]],
    within: tuple[float, Sequence[Application]] = (0.0, ()),
) -> Profile:  # fmt: skip
    """The profile of some runs of one program: when each started, and its applications; and those within loops."""
    start, last = runs[-1]
    seconds = [statistics.median(found[at].seconds for _, found in runs) for at in range(len(last))]
    outer = [_timed(device, each, taken, start) for each, taken in zip(last, seconds, strict=True)]
    inner = [_timed(device, each, each.seconds, within[0]) for each in within[1]]
    return Profile(name, len(runs), tuple(outer), tuple(inner))


def _timed(device: Any, application: Application, seconds: float, start: float) -> Timed:
    operands = tuple(map(device.aval, application.arguments))
    results = tuple(map(device.aval, application.outs))
    cost = application.op.cost(operands, results, **dict(application.items))
    return Timed(
        called(application.op, application.items),
        application.kernel,
        application.instruction,
        application.stream,
        seconds,
        application.started - start,
        int(cost.flops),
        int(sum(a.nbytes for a in (*operands, *results)) + cost.extra_bytes),
        application.bytes_alive,
        operands,
        results,
        application.where,
        tuple(application.lines),
        application.times,
        cost.is_estimate,
    )
