"""How many examples a test draws: few in the profiles of every day, as many as the bars ask for nightly."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

NIGHTLY = settings().max_examples >= 1000
UNHURRIED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def examples(few: int, nightly: int) -> settings:
    """So many by the profile that is loaded."""
    return settings(max_examples=nightly if NIGHTLY else few, deadline=None, suppress_health_check=UNHURRIED)
