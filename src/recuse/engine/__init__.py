"""Training of many small networks at once, in stacks."""
