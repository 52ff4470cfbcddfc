"""The verbs of ``fairseq-plugins VERB``: their options, and checks of these before the work begins.

No module of this folder imports torch or fairseq at its top, so that ``--help`` and errors of the
command line appear at once. Each has a table ``COMMANDS``: verb -> function of the remaining words,
which returns the exit status. The code that does the work is imported where it is called, after
:func:`fairseq_plugins.register`.
"""
