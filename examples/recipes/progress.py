"""Show the log of a training as a line now and then.

fairseq-train … 2>&1 | tee LOG | python -m recipes.progress NAME
"""

import json
import sys
import time

SECONDS = 30.0
"""Between two lines about training; every validation is shown."""
NUMBERS = ("loss", "bleu", "ups")


def summarize(line: str) -> str:
    """Summarise a line of the log in words, empty unless it holds results."""
    start = line.find("{")
    try:
        record = json.loads(line[start:]) if start >= 0 else {}
    except ValueError:
        return ""
    if "valid_num_updates" in record:
        title, prefix = "validation", "valid_"
    elif "train_num_updates" in record:
        title, prefix = "training", "train_"
    elif "num_updates" in record:
        title, prefix = "training", ""
    else:
        return ""
    numbers = [f"{name} {record[prefix + name]}" for name in NUMBERS if prefix + name in record]
    return f"{title}: update {record[prefix + 'num_updates']}, {', '.join(numbers)}"


def main() -> None:
    """Run the command."""
    name, last_report = sys.argv[1], 0.0
    for line in sys.stdin:
        text, now = summarize(line), time.monotonic()
        if text and (text.startswith("validation") or now - last_report >= SECONDS):
            print(f"[{name}] {text}", flush=True)
            last_report = now


if __name__ == "__main__":
    main()
