"""Python's control flow turned into loops and branches: `if`, `while` and `for` of a function, where a tensor decides."""
