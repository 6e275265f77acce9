"""How long a fresh process takes to its first value: the interpreter, NumPy, the import, the first program.

Bars: <= 0.35 s from the start of a process to the first value of `lazy().jit(lambda x: x + 1)(a)`; import < 0.3 s.

python bench/startup.py [--smallest]: prints a table, writes bench/results/startup.json.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import options, report

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 15
ARRAY = "import numpy as np; a = np.ones(2, 'float32'); import nnc_func as nnc\n"
STAGES = {  # each does what the one before it does, and more; but for the last, which is beside the one before it
    "interpreter": "",
    "numpy": "import numpy\n",
    "import": "import numpy\nimport nnc_func as nnc; nnc.lazy\n",
    "lazy().jit(lambda x: x + 1)(a)": ARRAY + "nnc.lazy().jit(lambda x: x + 1)(a)\n",
    "eager().ops.add(a, 1)": ARRAY + "nnc.eager().ops.add(a, 1)\n",
}


def seconds(code: str, environment: dict[str, str]) -> float:
    """From the start of a process until it has run that code; its end is not counted."""
    start = time.monotonic()  # one clock for all processes
    command = [sys.executable, "-c", f"{code}import time; print(time.monotonic())"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    return float(done.stdout) - start


def stages(rounds: int) -> list[dict[str, Any]]:
    """Milliseconds of each stage, taken in turn, in processes that find all modules compiled."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": folder}
        taken: dict[str, list[float]] = {name: [] for name in STAGES}
        for code in STAGES.values():
            seconds(code, environment)  # compiles
        for _ in range(rounds):
            for name, code in STAGES.items():
                taken[name].append(1e3 * seconds(code, environment))
    return [
        {"to": name, "ms": round(statistics.median(found), 1), "fastest ms": round(min(found), 1)}
        for name, found in taken.items()
    ]


def main() -> None:
    smallest = options(__doc__).parse_args().smallest
    report("startup", stages(1 if smallest else ROUNDS), smallest=smallest)


if __name__ == "__main__":
    main()
