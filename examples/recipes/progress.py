"""The log of a training in a line now and then: ``fairseq-train … 2>&1 | tee LOG | python -m recipes.progress NAME``."""

import json
import sys
import time

SECONDS = 30.0


def shown(line: str) -> str:
    """What a JSON line of the log says; empty for other lines."""
    start = line.find("{")
    try:
        found = json.loads(line[start:]) if start >= 0 else {}
    except ValueError:
        return ""
    for kind in ("valid", "train"):
        updates = found.get(f"{kind}_num_updates", found.get("num_updates") if kind == "train" else None)
        if updates is None:
            continue
        prefix = f"{kind}_" if f"{kind}_num_updates" in found else ""
        values = [f"{name} {found[prefix + name]}" for name in ("loss", "bleu", "ups") if prefix + name in found]
        return f"{'validation' if kind == 'valid' else 'training'}: update {updates}, {', '.join(values)}"
    return ""


def main() -> None:
    """Run the command."""
    name, reported = sys.argv[1], 0.0
    for line in sys.stdin:
        text, now = shown(line), time.monotonic()
        if text and (text.startswith("validation") or now - reported >= SECONDS):
            print(f"[{name}] {text}", flush=True)
            reported = now


if __name__ == "__main__":
    main()
