"""SGA (Wu et al. 2023)."""
