"""Methods of the leaderboard and of the comparison table."""
