"""Proofs that a plan is right, from the plan alone: no code is shared with what made it."""
