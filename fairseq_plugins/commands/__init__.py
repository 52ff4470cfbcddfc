"""The verbs of ``fairseq-plugins VERB``: their options, and checks of these before the work begins.

No module of this folder imports torch or fairseq at its top, so that ``--help`` and a wrong command
line cost nothing. Each has a table ``COMMANDS``: verb -> what runs it. The work itself is imported
where it is called, after :func:`fairseq_plugins.register`.
"""
