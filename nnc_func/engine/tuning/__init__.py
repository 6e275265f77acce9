"""The fastest kernels, measured."""
