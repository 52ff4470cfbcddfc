"""Make every process that trains or measures believe in a GPU; on PYTHONPATH with PRETEND set."""

import os
import sys

MODULES = ("benchmarks.", "fairseq_cli.")

if "PRETEND" in os.environ and any(word.startswith(MODULES) for word in sys.orig_argv):
    from tests.pretend.cuda import answer

    answer()
