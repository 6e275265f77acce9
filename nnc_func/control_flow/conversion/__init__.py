"""Python's control flow turned into loops and branches: `if`, `while` and `for`, where a tensor decides."""
