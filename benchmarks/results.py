"""Make ``docs/results/benchmarks.md`` and its plots from the stored JSON files.

python -m benchmarks.results    # or: make results
"""

from pathlib import Path

from fairseq_plugins.analysis.plots import MissingLibrary
from fairseq_plugins.own_commands import log_own_lines

from . import (
    csr_data_path,
    data_path,
    decoding,
    deltalm,
    deployment,
    deployment_trained,
    free_decoding,
    nlu_data_path,
    report,
    service_load,
    sga_training_step,
    trained,
    trained_plot,
    veco,
    veco_data_path,
    vocab_losses,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "benchmarks.md"

BENCHMARKS = {
    "vocab_losses": vocab_losses,
    "sga_training_step": sga_training_step,
    "decoding": decoding,
    "free_decoding": free_decoding,
    "trained": trained,
    "deployment": deployment,
    "deployment_trained": deployment_trained,
    "data_path": data_path,
    "deltalm": deltalm,
    "nlu_data_path": nlu_data_path,
    "csr_data_path": csr_data_path,
    "veco": veco,
    "veco_data_path": veco_data_path,
    "service_load": service_load,
}
"""Name -> module, in the order of the page."""

HEAD = """# Speed and memory

Made by `make results` from `benchmarks/results/*.json`. Ratios are within one run, round by round.
Findings, and how to measure again: [reference](../reference.md#benchmarks)."""


def render() -> str:
    """Make the page."""
    sections = [report.section(name, module) for name, module in BENCHMARKS.items()]
    return "\n\n".join([HEAD, *sections]) + "\n"


def main() -> None:
    """Write the page and its plots."""
    try:
        for content in report.load("trained"):
            trained_plot.draw(content)
    except MissingLibrary as error:
        raise SystemExit(f"benchmarks.results: {error}") from error
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    log_own_lines()
    main()
