"""Finished parts, and the output that is made of them."""
