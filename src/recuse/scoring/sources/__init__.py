"""Files to score, divided into parts of bounded size."""
