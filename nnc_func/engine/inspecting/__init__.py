"""Programs looked at while they run."""
