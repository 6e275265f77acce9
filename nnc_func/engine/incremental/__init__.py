"""Programs that run only what depends on what changed."""
