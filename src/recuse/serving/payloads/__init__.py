"""What requests and answers hold: JSON, rows, tensors and decisions."""
