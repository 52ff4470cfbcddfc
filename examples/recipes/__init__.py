"""What the workflow needs beside its rules: reading recipes, command lines, budgets, reports. Imports neither torch nor fairseq."""
