"""On PYTHONPATH, with PRETEND set: every process that trains or measures believes in a GPU, whoever starts it."""

import os
import sys

if "PRETEND" in os.environ and any(word.startswith(("benchmarks.", "fairseq_cli.")) for word in sys.orig_argv):
    from tests.pretend.cuda import answer

    answer()
