"""SelectiveNet (Geifman and El-Yaniv, 2019)."""
