"""What the tasks have in common: runs that start from others, one dictionary for all texts, option names of the papers."""
