"""The version of the package, and nothing else."""

__version__ = "0.1.0.dev0"
