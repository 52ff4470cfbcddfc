"""Read recipes, build their commands, divide budgets, write reports.

The rules of ``examples/rules`` call these modules; they import neither torch nor fairseq, but where
a function says so.
"""
