"""Linkers: each makes a plan executable."""
