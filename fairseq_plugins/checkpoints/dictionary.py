"""Run ``fairseq-plugins dictionary``: the former command line, kept for this release."""

import sys

from ..own_commands import forward

if __name__ == "__main__":
    sys.exit(forward("dictionary"))
