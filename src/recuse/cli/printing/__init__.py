"""What commands print: messages, tables of measures, and JSON."""
