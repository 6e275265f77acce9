"""Runs all property tests again and again, each time from another seed: `python scripts/fresh_seeds.py 30`.

What a seed finds is a fault: it is mended, and its smallest example becomes an `@example` beside the property.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROPERTIES = "(hypothesis or draws) and not slow"


def run(seed: int, options: list[str]) -> tuple[list[str], str]:
    """The tests that fail from this seed, and all that pytest said."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", PROPERTIES, "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "NNC_SEED": str(seed)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return failed or ["pytest itself"] * (done.returncode != 0), done.stdout


def main(given: list[str] | None = None) -> int:
    """Run them, print each run, and in the end what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=30, help="how many runs, each from a seed of its own")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="for pytest: files, -n 1, …")
    chosen = parser.parse_args(given)
    faults: dict[int, list[str]] = {}
    for number in range(1, chosen.runs + 1):
        seed, start = secrets.randbelow(1 << 32), time.monotonic()
        failed, said = run(seed, chosen.options)
        print(
            f"run {number} of {chosen.runs}, seed {seed}: {len(failed)} failed, {time.monotonic() - start:.0f} s",
            flush=True,
        )
        if failed:
            faults[seed] = failed
            print(said, flush=True)
    for seed, failed in faults.items():
        print(f"NNC_SEED={seed} python -m pytest {' '.join(failed)}")
    print(f"{chosen.runs - len(faults)} of {chosen.runs} runs without a failure")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
