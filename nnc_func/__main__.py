"""The command line: ``python -m nnc_func --help``."""

from __future__ import annotations

import sys

from nnc_func.cli import main

if __name__ == "__main__":
    sys.exit(main())
