"""What commands read: options, costs, tables, and the roles of their columns."""
