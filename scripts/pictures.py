"""The README's pictures, as the library draws them: docs/pictures/*.svg."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nnc_func import models
from nnc_func.device import Null
from nnc_func.stacks import lazy

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def files() -> Mapping[Path, str]:
    """A stack, and the plan of a training step."""
    on = lazy(Null())
    plan = on.engine.compile(models.get("lenet-5").make(on, 32, training=True, seed=None)).plan
    return {FOLDER / "stack.svg": lazy().to_svg() + "\n", FOLDER / "plan.svg": plan.to_svg() + "\n"}
