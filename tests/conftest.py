"""How the suite runs: on which cores, from which seed, with how many examples; and the stacks that tests run on.

Profiles, chosen by NNC_HYPOTHESIS_PROFILE: ci (25 examples a property, unless another is asked for), dev (50), nightly
(1,000). NNC_SEED is where all of them begin to draw: a number, or ``fresh``, which nightly does; else it is
`SEED`, which a commit may change: so what CI draws is known before it runs.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from nnc_func.config import config as library

SLOW_IS_FINE = [HealthCheck.too_slow]  # NumPy's first call of a kind may take a while on a loaded machine
PROFILES = {"ci": 25, "dev": 50, "nightly": 1000}
PROFILE = os.environ.get("NNC_HYPOTHESIS_PROFILE") or "ci"
SEED = 2992594143  # chosen anew now and then, as a change of its own: fresh ones are nightly's

for name, count in PROFILES.items():  # without a database: the seed says what is drawn, and is printed
    settings.register_profile(
        name, max_examples=count, deadline=None, database=None, derandomize=False, suppress_health_check=SLOW_IS_FINE
    )
settings.load_profile(PROFILE)


# --- cores and seeds -------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The whole suite takes all cores, one process each, unless it is told how many.

    Each has a stretch of it, and who is done first takes from another: what tests of a file share is made once.
    """
    option, whole = config.option, config.args_source is pytest.Config.ArgsSource.TESTPATHS
    alone = option.usepdb or option.collectonly or hasattr(config, "workerinput")
    if whole and not alone and getattr(option, "numprocesses", 0) is None:
        option.numprocesses = "auto"
        option.dist = "worksteal" if option.dist == "no" else option.dist


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis draws from the seed, and so does what draws by itself, in this process and in those of the run."""
    given = os.environ.get("NNC_SEED") or ("fresh" if PROFILE == "nightly" else "")
    seed = int(given) if given.isdigit() else secrets.randbelow(1 << 32) if given == "fresh" else SEED
    os.environ["NNC_SEED"], library.seed = str(seed), seed
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seed)


@pytest.fixture(autouse=True)
def _seed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test kit says of a planted fault is known of its own seed; only what is marked draws from another."""
    if request.node.get_closest_marker("draws") is None:
        monkeypatch.setattr(library, "seed", 0)


def pytest_collection_finish() -> None:
    """Twenty thousand tests are a million objects that stay: no search for cycles walks over them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def settled() -> Iterator[None]:
    """What a file of tests leaves in caches stays, too: it is walked over once, and never by the files after it."""
    yield
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """Where the draws begin, and how to begin there again."""
    seed = os.environ["NNC_SEED"]
    return f"nnc_func: profile {PROFILE}, seed {seed}; NNC_SEED={seed} draws the same, NNC_SEED=fresh something else"


# --- fixtures --------------------------------------------------------------------------------------------


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


@pytest.fixture(params=["as it is", "poisoned"])
def memory(request: Any) -> Iterator[None]:
    """With memory that was freed as it is, and filled with NaN."""
    before = library.spec
    library.spec = 3 if request.param == "poisoned" else before
    yield
    library.spec = before
