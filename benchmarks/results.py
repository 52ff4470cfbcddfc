"""Rebuild ``benchmarks/RESULTS.md`` from the committed JSON files: ``python -m benchmarks.results``, or ``make results``."""

from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

from fairseq_plugins.analysis.plots import MissingLibrary
from fairseq_plugins.own_commands import log_own_lines

from . import (
    cka,
    csr_data_path,
    data_path,
    decoding,
    deltalm,
    free_decoding,
    nlu_data_path,
    report,
    sga_training_step,
    trained,
    trained_plot,
    veco,
    veco_data_path,
    vocab_losses,
    word_mapping,
)

PAGE = Path(__file__).resolve().parent / "RESULTS.md"

Bar = Tuple[str, Callable[[Dict[str, Any]], List[float]], float]
"""Text, the values that must stay below the limit, the limit."""


def chunked(loss: str, weight: str, key: str) -> Callable[[Dict[str, Any]], List[float]]:
    """Ratios of our chunked variant in the vocabulary losses."""

    def values(content: Dict[str, Any]) -> List[float]:
        rows = [row for row in content["results"] if (row["loss"], row["variant"]) == (loss, "chunked")]
        found = [row[key] for row in rows if weight in ("any", row["weight"])]
        return [value[0] if isinstance(value, list) else value for value in found]

    return values


def speedups(system: str) -> Callable[[Dict[str, Any]], List[float]]:
    """Inverse speed-ups at batch 1 with the largest vocabulary, so that smaller is better like every other bar."""

    def values(content: Dict[str, Any]) -> List[float]:
        largest = max(row["vocab"] for row in content["results"])
        rows = [row for row in content["results"] if row["vocab"] == largest and row["system"] == system]
        return [1 / row["speedup"][0] for row in rows]

    return values


def against_stock_products(content: Dict[str, Any]) -> List[float]:
    """Time of packed SGA over that of MSP by torch's own products: median sentence, largest vocabulary."""
    largest = max(row["vocab"] for row in content["results"])
    seconds = {row["system"]: row["p50"] for row in content["results"] if row["vocab"] == largest}
    packed, stock = (
        seconds.get(name) for name in (free_decoding.name_of(4, 1) + free_decoding.PACKED, free_decoding.STOCK)
    )
    return [] if packed is None or stock is None else [packed / stock]


def speedups_at_trained_stopping(content: Dict[str, Any]) -> List[float]:
    """Inverse speed-ups with as many passes as the trained model takes on average: between the measured whole numbers, linearly."""
    tables = [one for one in report.load("trained") if not one["options"].get("name")]
    passes = [row["mean_passes"] for one in tables for row in one["results"] if row["mean_passes"]]
    if not passes:
        return []
    largest = max(row["vocab"] for row in content["results"])
    times = {0: speedups("SGA alignment")(content)}
    for row in content["results"]:
        if row["vocab"] == largest and row["system"].endswith(" passes"):
            times[int(row["system"].split()[1])] = [1 / row["speedup"][0]]
    wanted = max(passes)
    below = max(count for count in times if count <= wanted)
    above = min((count for count in times if count >= wanted), default=None)
    if above is None:
        return []
    share = (wanted - below) / (above - below) if above > below else 0.0
    return [times[below][0] * (1 - share) + times[above][0] * share]


def passes_on_average(content: Dict[str, Any]) -> List[float]:
    """Time with the passes that sentences need, 8 at most, to that with one forced pass: every system and batch size."""
    return [ratio[0] for row in content["results"] for ratio in row.get("to_one_pass", {}).values()]


def deltalm_decoding(content: Dict[str, Any]) -> List[float]:
    """Inverse decoding speed of the interleaved decoder, each batch size."""
    rows = [row for row in content["results"] if row["part"] == "decoding" and row["system"] == deltalm.OURS]
    return [1 / row["speed_ratio"][0] for row in rows]


def cka_seconds(content: Dict[str, Any]) -> List[float]:
    """Seconds without permutations, at the size of the bar alone."""
    sizes = tuple(content["options"].get(name) for name in ("layers", "sentences", "width"))
    return [row["seconds"] for row in content["results"] if sizes == cka.BAR_SIZES and not row["permutations"]]


def mapping_memory(content: Dict[str, Any]) -> List[float]:
    """Bytes of a whole mapping, at the size of the bar alone."""
    rows = [row for row in content["results"] if "bytes" in row and row["size"] == word_mapping.BAR_SIZE]
    return [row["bytes"] / 1e9 for row in rows]


def csr_ratios(content: Dict[str, Any]) -> List[float]:
    """Time of a batch of restore over the stock dataset's."""
    return [row["time_ratio"][0] for row in content["results"] if not row["variant"].startswith("stock")]


BARS: Dict[str, List[Bar]] = {
    "csr_data_path": [("restore: time a batch at most 1.2 times that of translation", csr_ratios, 1.2)],
    "word_mapping": [
        ("200,000 words of 300 dimensions a side: GB, at most 8", mapping_memory, word_mapping.BAR_BYTES / 1e9)
    ],
    "cka": [("without permutations: seconds, at most 60", cka_seconds, cka.BAR_SECONDS)],
    "deltalm": [
        ("decoding: at most 1/0.9 of the time of the stock decoder of the same size", deltalm_decoding, 1 / 0.9),
    ],
    "vocab_losses": [
        ("CTC, frozen weight: time at most 1.1 of the materialised one", chunked("ctc", "frozen", "time_ratio"), 1.1),
        ("CTC, frozen weight: extra memory at most 1/10", chunked("ctc", "frozen", "memory_ratio"), 0.1),
        ("CTC, trained weight: time at most 1.35", chunked("ctc", "trained", "time_ratio"), 1.35),
        ("smoothed cross-entropy: time at most 1.0", chunked("smoothed cross-entropy", "any", "time_ratio"), 1.0),
        (
            "smoothed cross-entropy: extra memory at most 1/3",
            chunked("smoothed cross-entropy", "any", "memory_ratio"),
            1 / 3,
        ),
    ],
    "decoding": [
        (
            "alignment alone, batch 1, largest V: at most 1/6.8 of the time of AT beam 5",
            speedups("SGA alignment"),
            1 / 6.8,
        ),
        (
            "with the trained model's mean number of passes, batch 1, largest V: at most 1/3 of the time of AT beam 5",
            speedups_at_trained_stopping,
            1 / 3,
        ),
    ],
    "free_decoding": [
        (
            "one length, 4 iterations and the denoiser, batch 1, largest V: at most 1/4 of the time of MSP beam 1",
            speedups(free_decoding.name_of(4, 1)),
            1 / 4,
        ),
        (
            "the same with --pack-weights, on the CPU: at most 1/4",
            speedups(free_decoding.name_of(4, 1) + free_decoding.PACKED),
            1 / 4,
        ),
        ("the same against MSP by torch's own products: at most 1/4", against_stock_products, 1 / 4),
    ],
    "trained": [
        (
            "sentences that converge leave the batch: decoding with 8 allowed passes at most 2.5 times the time of 1",
            passes_on_average,
            2.5,
        )
    ],
}
RENDERERS = {
    module.__name__.rsplit(".", 1)[1]: module
    for module in (
        vocab_losses,
        sga_training_step,
        decoding,
        free_decoding,
        trained,
        data_path,
        deltalm,
        nlu_data_path,
        cka,
        csr_data_path,
        word_mapping,
        veco,
        veco_data_path,
    )
}


def section(name: str) -> str:
    """One benchmark: what it measures, then a table and the bars for every machine."""
    module = RENDERERS[name]
    parts = [f"## {name}", (module.__doc__ or "").strip().split("\n\n    ")[0], f"`python -m benchmarks.{name}`"]
    for content in report.load(name):
        machine = ", ".join(f"{key} {value}" for key, value in content["machine"].items() if key != "device")
        options = ", ".join(f"{key} {value}" for key, value in content["options"].items())
        parts += [f"**{content['machine']['device']}** ({machine}); {options}", module.render(content)]
        parts += ["\n".join(verdict(content, bar) for bar in BARS.get(name, []))]
    return "\n\n".join(part for part in parts if part)


def verdict(content: Dict[str, Any], bar: Bar) -> str:
    """A line that says whether a bar holds."""
    text, values, limit = bar
    found = values(content)
    if not found:
        return f"- {text}: not measured"
    return (
        f"- {text}: {'holds' if max(found) <= limit else '**missed**'} ({', '.join(f'{value:.3f}' for value in found)})"
    )


def render() -> str:
    """The whole page."""
    made = "Made by `python -m benchmarks.results` from `results/*.json`. Ratios are within one run, round by round."
    head = f"# Speed and memory\n\n{made}"
    found = [name for name in RENDERERS if report.load(name)]
    missing = [f"`{name}`" for name in RENDERERS if name not in found]
    open_ends = [f"Not measured at full size yet: {', '.join(missing)}."] if missing else []
    return "\n\n".join([head, *(section(name) for name in found), *open_ends]) + "\n"


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
