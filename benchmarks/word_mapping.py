"""Mapping two vocabularies without a dictionary: seconds and memory, at the size of a small corpus and at 200,000 words a side.

    python -m benchmarks.word_mapping [--sizes 3254x3568x200,200000x200000x300] [--rounds 3] [--threads N]

Random float32 vectors in clusters; the second side is the first one rotated, with noise. Timed are the unsupervised seed, one
iteration of self-learning (a tenth of the similarities seen, or all), and, at the end, the maps of all words. Memory is what a
whole mapping of two iterations needs, the vectors of both sides included. Reading and writing files is not timed. The floor is the
one product of the vectors that take part, at the rate of a large float32 product on this machine.
"""

import argparse
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import Tensor

from fairseq_plugins.ops.word_mapping import (
    Learned,
    SelfLearning,
    induced_pairs,
    learn_maps,
    normalise,
    orthogonal_maps,
    similarity_seed,
)

from . import measure, report
from .floor import peak_rates

CLUSTERS = 300


def parse_sizes(text: str) -> List[Tuple[int, int, int]]:
    """Words of both sides and dimensions, as ``3254x3568x200``."""
    sizes = []
    for item in text.split(","):
        numbers = item.split("x")
        if len(numbers) != 3 or not all(number.isdecimal() and int(number) > 1 for number in numbers):
            raise ValueError(f"--sizes {item}: valid: WORDSxWORDSxDIMENSIONS, separated by commas")
        sizes.append((int(numbers[0]), int(numbers[1]), int(numbers[2])))
    return sizes


def make_sides(first: int, second: int, width: int, seed: int = 1) -> Tuple[Tensor, Tensor]:
    """Vectors that belong together, word by word; (first, width) and (second, width)."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLUSTERS, width, generator=generator)
    words = max(first, second)
    x = centres[torch.arange(words) % CLUSTERS].add_(torch.randn(words, width, generator=generator))
    turn = torch.linalg.qr(torch.randn(width, width, generator=generator))[0]
    y = (x[:second] @ turn).add_(torch.randn(second, width, generator=generator), alpha=0.3)
    return x[:first].clone(), y


def map_all(first: int, second: int, width: int, device: torch.device) -> Learned:
    """A whole mapping of two iterations, the vectors included."""
    x, y = (normalise(side.to(device)) for side in make_sides(first, second, width))
    learned = learn_maps(x, y, similarity_seed(x, y), SelfLearning(iterations=2))
    for side, to_common in zip((x, y), learned.maps):
        torch.nn.functional.normalize(side @ to_common)
    return learned


def time_parts(size: Tuple[int, int, int], rounds: int, device: torch.device) -> Dict[str, measure.Timing]:
    """Seconds of each part of a mapping."""
    x, y = (normalise(side.to(device)) for side in make_sides(*size))
    options = SelfLearning()
    seed = similarity_seed(x, y)
    maps = orthogonal_maps(x[seed[0]], y[seed[1]])
    first, second = x[: options.words] @ maps.source, y[: options.words]

    def iteration(keep: float) -> None:
        pairs, _ = induced_pairs(first, second, keep, options, torch.Generator().manual_seed(1))
        orthogonal_maps(x[pairs[0]], y[pairs[1]])

    calls: Dict[str, Callable[[], Any]] = {
        "unsupervised seed": lambda: similarity_seed(x, y),
        "iteration, a tenth seen": lambda: iteration(0.1),
        "iteration, all seen": lambda: iteration(1.0),
        "maps of all words": lambda: (x @ maps.source, y @ maps.target),
    }
    return measure.time_side_by_side(calls, rounds, device)


def measure_size(size: Tuple[int, int, int], rounds: int, device: torch.device) -> List[Dict[str, Any]]:
    """Rows of the table of one size."""
    name, most = "x".join(map(str, size)), SelfLearning().words
    timings = time_parts(size, rounds, device)
    rows: List[Dict[str, Any]] = [
        {"size": name, "part": part, "seconds": round(timing.median, 3)} for part, timing in timings.items()
    ]
    work = 2e-9 * min(size[0], most) * min(size[1], most) * size[2]
    rows.append(
        {"size": name, "part": "floor of an iteration", "seconds": round(work / peak_rates(device)["gflops"], 3)}
    )
    memory = measure.peak_memory(lambda: map_all(*size, device), device)
    return [*rows, {"size": name, "part": "memory of a mapping", "bytes": memory}]


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = [
        [
            row["size"],
            row["part"],
            f"{row['seconds']:.3f}" if "seconds" in row else "",
            f"{row['bytes'] / 1e9:.2f}" if "bytes" in row else "",
        ]
        for row in content["results"]
    ]
    return report.table(["words x words x dimensions", "part", "seconds", "GB"], rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", default="3254x3568x200,200000x200000x300", help="WORDSxWORDSxDIMENSIONS, separated by commas"
    )
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch")
    parser.add_argument("--device", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument("--dry-run", action="store_true", help="print the table, write no result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = measure.pick_device(options.device)
    results = [row for size in parse_sizes(options.sizes) for row in measure_size(size, options.rounds, device)]
    print(render({"results": results}))
    if not options.dry_run:
        path = report.write("word_mapping", device, {"sizes": options.sizes, "rounds": options.rounds}, results)
        measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
