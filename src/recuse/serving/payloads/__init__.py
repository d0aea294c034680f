"""What requests and answers hold: JSON, rows and decisions."""
