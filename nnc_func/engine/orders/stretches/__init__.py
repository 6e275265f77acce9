"""Stretches of an order between tasks that every order passes: what runs in one, and the best arrangement of it."""
