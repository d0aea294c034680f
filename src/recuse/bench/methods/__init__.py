"""Methods of the comparisons."""
