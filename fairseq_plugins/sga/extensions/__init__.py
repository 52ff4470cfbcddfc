"""Optional parts of SGA."""
