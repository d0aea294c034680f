"""Experiments of published papers, from a specification to tables and figures."""
