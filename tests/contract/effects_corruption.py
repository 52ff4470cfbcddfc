"""Options of span corruption: the pre-training task, and the translation task that mixes it in."""

from typing import Any, List

from tests.contract.effects import BASES, Run, flips

SMALL = ["--tokens-per-sample", "30", "--add-sentinels", "20"]
BASES["task span_corruption"] = [
    *("{data}", "--task", "span_corruption", "--arch", "transformer", "--pairs", "en-de", "--monolingual", "en", *SMALL)
]
BASES["task translation_mixing"] = [
    *("{data}", "--task", "translation_mixing", "--arch", "transformer", "-s", "en", "-t", "de"),
    *("--mix-monolingual", "de", *SMALL),
]


def _items(run: Run) -> List[Any]:
    """Source and target of every item; those of mixed-in text are the last."""
    return [[run.dataset[index][side].tolist() for side in ("source", "target")] for index in range(len(run.dataset))]


def _symbols(run: Run) -> List[str]:
    return list(run.task.source_dictionary.symbols)


def _streams(run: Run) -> List[int]:
    """Which stream every text of an epoch comes from."""
    return [run.dataset.place_of(index)[0] for index in range(len(run.dataset))]


def _batches(run: Run) -> int:
    return len(run.dataset.batch_by_size(run.dataset.ordered_indices(), max_sentences=2))


flips("task span_corruption: data", [("{data}", "{other_data}")], lambda run: len(run.dataset))
flips("task span_corruption: pairs", ["--pairs", "en-de,en-fr"], lambda run: len(run.dataset))
flips("task span_corruption: monolingual", ["--monolingual", "en,de"], lambda run: len(run.dataset))
flips("task span_corruption: pair_mask_prob", ["--pair-mask-prob", "0.2"], _items)
flips("task span_corruption: pair_share", ["--pair-share", "0.2"], _streams)
flips("task span_corruption: no_target_sentinels", ["--no-target-sentinels"], _items)
flips("task span_corruption: sampling_temperature", ["--sampling-temperature", "9"], _streams)
flips("task translation_mixing: mix_monolingual", ["--mix-monolingual", "de,en"], lambda run: len(run.dataset))
flips("task translation_mixing: mix_share", ["--mix-share", "0.8"], _batches)
flips("task translation_mixing: mix_data", ["--mix-data", "{other_data}"], lambda run: len(run.dataset))
flips(
    "task translation_mixing: sampling_temperature",
    ["--sampling-temperature", "9"],
    lambda run: run.dataset.corrupted.probabilities.tolist(),
    # Pieces of 5 tokens: the languages have 42 and 50.
    base=[
        *("--mix-monolingual", "de,en", "--mix-data", "{other_data}"),
        *("--sample-break-mode", "none", "--tokens-per-sample", "6"),
    ],
)
for _task in ("span_corruption", "translation_mixing"):
    flips(f"task {_task}: mask_prob", ["--mask-prob", "0.4"], _items)
    flips(f"task {_task}: mean_span", ["--mean-span", "1"], _items, base=["--mask-prob", "0.4"])
    flips(f"task {_task}: tokens_per_sample", ["--tokens-per-sample", "15"], lambda run: len(run.dataset))
    flips(f"task {_task}: sample_break_mode", ["--sample-break-mode", "eos"], lambda run: len(run.dataset))
    # Braces are doubled where a command line is filled in.
    flips(f"task {_task}: sentinels", ["--sentinels", "[{{}}]"], _symbols)
    flips(f"task {_task}: add_sentinels", ["--add-sentinels", "25"], _symbols)
