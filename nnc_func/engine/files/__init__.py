"""Plans as text, programs as files."""
