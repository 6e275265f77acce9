"""The allocation problem as data: what it may say, problems made of a seed, files of them, fewer words for them."""
