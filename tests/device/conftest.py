"""What tests of several devices want around them (`device/onednn`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nnc_func.device.kernels import onednn


@pytest.fixture(scope="module")
def of_several_threads() -> Iterator[None]:
    """One thread leaves products to BLAS on some processors: here the library computes them on all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onednn, "count", lambda: 2)
        yield
