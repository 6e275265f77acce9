"""Hypothesis profiles, and the stacks that tests run on.

Profiles: dev (50 examples), ci (25, the same ones each time), nightly (1000); NNC_HYPOTHESIS_PROFILE chooses.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

SLOW_IS_FINE = [HealthCheck.too_slow]  # NumPy's first call of a kind may take a while on a loaded machine

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("ci", max_examples=25, deadline=None, derandomize=True, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("nightly", max_examples=1000, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.load_profile(os.environ.get("NNC_HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """A shell that is not interactive starts what runs in the background deaf to SIGINT; tests raise it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def eager() -> Any:
    """The stack that computes at once: the oracle."""
    import nnc_func as nnc

    return nnc.eager()


@pytest.fixture
def lazy() -> Any:
    """The stack that records, optimises, plans and runs."""
    import nnc_func as nnc

    return nnc.lazy()


@pytest.fixture(params=["eager", "lazy"])
def stack(request: pytest.FixtureRequest) -> Any:
    """Each of them: what a test says of a stack holds on every engine."""
    import nnc_func as nnc

    return getattr(nnc, request.param)()
