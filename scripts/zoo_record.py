"""Record what the zoo's plans take and what its networks compute, before a change, and compare with it after.

python scripts/zoo_record.py record.json             all of the zoo, in a minute or two
python scripts/zoo_record.py --compare record.json   what differs; 1 where more bytes are taken, or values are others
python scripts/zoo_record.py --golden                writes the counts that are the same on each machine, for the tests

Graphs are inference of one example and training steps of eight, planned on the device that computes nothing. Values are
those of the reduced networks, computed by one BLAS thread; they are compared to the bit, on the machine that recorded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "zoo.json"
BYTES = ("arena bytes", "scratch bytes")  # of which no change may take more
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read when NumPy is imported


def graphs(names: Sequence[str]) -> Iterator[tuple[str, Any, bool]]:
    """Of each network, its inference, and its training step where it trains: a title, the model, whether it trains."""
    from nnc_func import models

    for name in names or models.names():
        model = models.get(name)
        for training in (False, True)[: 1 + model.trains]:
            yield f"{name}, training" if training else name, model, training


def planned(model: Any, training: bool) -> Any:
    """A network's program on the device that computes nothing."""
    import nnc_func as nnc

    stack = nnc.lazy(nnc.Null())
    return stack.engine.compile(model.make(stack, 8 if training else 1, training, seed=None))


def counts(program: Any) -> dict[str, int]:
    """What is the same on each machine: nodes, instructions, bytes."""
    plan = program.plan
    scratch = [slot for instruction in plan.instructions for slot in instruction.scratch]
    return {
        "nodes": program.stats.before["nodes"],
        "optimised nodes": program.stats.after["nodes"],
        "instructions": len(plan.instructions),
        "arena bytes": plan.arena_bytes,
        "scratch bytes": sum(plan.slots[slot].aval.nbytes for slot in scratch),
    }


def digest_of_plan(plan: Any) -> str:
    """Of a plan's text without the lines of the program that asked for each instruction."""
    return hashlib.sha256(re.sub(r"  # .*", "", str(plan)).encode()).hexdigest()


def digest_of_values(model: Any, training: bool) -> str:
    """Of what the reduced network computes: its results, or the loss and all that a training step leaves."""
    import numpy as np

    import nnc_func as nnc
    from nnc_func.tree import flatten

    stack, small = nnc.lazy(), model.reduced()
    x, y = small.examples(batch=2, seed=1)
    if training:
        step = small.step(stack, seed=1)
        found = [step(x, y, 0.02), step.state.model, step.state.slots]
    else:
        found = stack.engine.compile(small.make(stack, batch=2, seed=1))(x)
    digest = hashlib.sha256()
    for leaf in flatten(found)[0]:
        array = np.asarray(leaf)
        digest.update(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def record(names: Sequence[str]) -> dict[str, Any]:
    """All that is recorded, and on which machine."""
    from nnc_func.engine.tuning.environment import Environment

    found: dict[str, Any] = {}
    for title, model, training in graphs(names):
        program = planned(model, training)
        found[title] = counts(program) | {
            "plan": digest_of_plan(program.plan), "values": digest_of_values(model, training)
        }  # fmt: skip
        print(f"{title}: {found[title]['arena bytes']:,} bytes", flush=True)
    return {"machine": str(Environment.here()), "graphs": found}


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """What differs, in words, and whether a change that changes nothing may not do it."""
    same_machine = before["machine"] == after["machine"]
    if not same_machine:
        yield f"values are not compared: recorded on {before['machine']}, here is {after['machine']}", False
    for title, now in after["graphs"].items():
        then = before["graphs"].get(title)
        if then is None:
            yield f"{title}: is not in the record", False
            continue
        for what in ("nodes", "optimised nodes", "instructions", *BYTES):
            if then[what] != now[what]:
                yield f"{title}: {then[what]:,} {what}, now {now[what]:,}", what in BYTES and now[what] > then[what]
        if then["plan"] != now["plan"]:
            yield f"{title}: another plan", False
        if same_machine and then["values"] != now["values"]:
            yield f"{title}: other values", True


def lines(entries: dict[str, Any]) -> str:
    """The text of a file: an entry a line."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in entries.items()) + "\n}\n"


def main() -> int:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="where the record is written")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="an earlier record")
    parser.add_argument("--golden", action="store_true", help=f"write {GOLDEN.name} beside the other goldens")
    parser.add_argument("--networks", nargs="+", default=[], metavar="NAME", help="only these, not all of the zoo")
    given = parser.parse_args()
    if given.golden:
        GOLDEN.write_text(lines({title: counts(planned(*each)) for title, *each in graphs(())}), encoding="utf-8")
        return 0
    if given.file is None and given.compare is None:
        parser.error("say where the record is written, or with which one to compare")
    os.environ |= dict.fromkeys(THREADS, "1")
    found = record(given.networks)
    if given.file is not None:
        given.file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    wrong = False
    if given.compare is not None:
        told = list(differences(json.loads(given.compare.read_text(encoding="utf-8")), found))
        print("\n".join(text for text, _ in told) or "all as recorded")
        wrong = any(worse for _, worse in told)
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
