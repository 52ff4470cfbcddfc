"""List the verbs: ``python -m data_prep``; run one: ``python -m data_prep VERB``."""

import sys

from .verbs import VERBS, describe_scripts, describe_verbs, run


def main() -> None:
    """Run the verb that is named first, or print the list."""
    verb = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if verb in VERBS:
        del sys.argv[1]
        run(verb)
    print("usage: python -m data_prep VERB --help\n")
    for name, description in describe_verbs().items():
        print(f"  {name:<20} {description}")
    print("\nusage: bash data_prep/SCRIPT --help\n")
    for name, description in describe_scripts().items():
        print(f"  {name:<20} {description}")
    if verb not in ("--help", "-h"):
        print(f"data_prep: error: {verb}: no such verb; valid: those above", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
