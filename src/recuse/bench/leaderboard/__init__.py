"""The leaderboard of all estimators."""
