"""Rebuild ``docs/results/benchmarks.md`` from the committed JSON files: ``python -m benchmarks.results``, or ``make results``."""

from pathlib import Path

from fairseq_plugins.analysis.plots import MissingLibrary
from fairseq_plugins.own_commands import log_own_lines

from . import (
    cka,
    csr_data_path,
    data_path,
    decoding,
    deltalm,
    deployment,
    deployment_trained,
    free_decoding,
    gpu,
    nlu_data_path,
    report,
    runtime_parity,
    service_load,
    sga_training_step,
    trained,
    trained_plot,
    veco,
    veco_data_path,
    vocab_losses,
    word_mapping,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "benchmarks.md"

RENDERERS = {
    module.__name__.rsplit(".", 1)[1]: module
    for module in (
        vocab_losses,
        sga_training_step,
        decoding,
        free_decoding,
        trained,
        deployment,
        deployment_trained,
        runtime_parity,
        data_path,
        deltalm,
        nlu_data_path,
        cka,
        csr_data_path,
        word_mapping,
        veco,
        veco_data_path,
        service_load,
        gpu,
    )
}


def render() -> str:
    """The whole page."""
    made = "Made by `make results` from `benchmarks/results/*.json`. Ratios are within one run, round by round. What they say and\n"
    made += "how to measure again: [benchmarks](../benchmarks.md)."
    head = f"# Speed and memory\n\n{made}"
    found = [name for name in RENDERERS if report.load(name)]
    missing = [f"`{name}`" for name in RENDERERS if name not in found]
    open_ends = [f"Not measured at full size yet: {', '.join(missing)}."] if missing else []
    return "\n\n".join([head, *(report.section(name, RENDERERS[name]) for name in found), *open_ends]) + "\n"


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
