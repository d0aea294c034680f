"""What decisions save and what explains them, for the report, the displays, the service and the commands."""
