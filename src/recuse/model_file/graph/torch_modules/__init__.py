"""Converters of torch modules and of stacks of networks."""
