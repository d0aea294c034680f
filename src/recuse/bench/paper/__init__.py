"""The reproduction of a paper's tables and figures."""
