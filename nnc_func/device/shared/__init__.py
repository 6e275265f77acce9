"""What devices share that compute through an array namespace."""
