"""The stacked engine: many small networks trained side by side."""
