"""CKA of two models over many sentences, from vectors in memory-mapped files: seconds, and how near to the machine's floor.

    python -m benchmarks.cka [--layers 24] [--sentences 10000] [--width 1024] [--permutations 1] [--rounds 3] [--vectors DIR]

Random float32 vectors, a file of layers × sentences × width a model, read in chunks of rows; both estimates of CKA of every layer
with its twin. The floor is the time that the products alone take at the rate of a large float32 product on this machine: three a
layer (each side with itself, one with the other), and one more for each permutation. Making the files is not timed.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import torch
from torch import Tensor

from fairseq_plugins.analysis.vectors import read_vectors
from fairseq_plugins.ops.cka import Cka, cka_of_pairs

from . import measure, report
from .floor import peak_rates


def write_vectors(path: Path, layers: int, sentences: int, width: int, seed: int) -> None:
    """A file of random vectors, written a layer at a time; an existing one of this size is kept."""
    if path.is_file() and read_vectors(str(path)).values.shape == (layers, sentences, width):
        return
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(layers, sentences, width))
    generator = torch.Generator().manual_seed(seed)
    for layer in range(layers):
        file[layer] = torch.randn(sentences, width, generator=generator).numpy()
    file.flush()


def compare_layers(first: Tensor, second: Tensor, permutations: int) -> List[Cka]:
    """CKA of every layer with its twin; (layers, sentences, width) each."""
    layers = len(first)
    pairs = [(layer, layers + layer) for layer in range(layers)]
    return list(cka_of_pairs([*first, *second], pairs, permutations, space="features"))


def gigaflops(options: argparse.Namespace, permutations: int) -> float:
    """What the products need: 2 N C² operations each."""
    return 2e-9 * options.sentences * options.width**2 * options.layers * (3 + permutations)


def measure_all(options: argparse.Namespace, folder: Path) -> List[Dict[str, Any]]:
    """Rows of the table: without permutations and with them."""
    sides = []
    for number, name in enumerate("ab"):
        path = folder / f"{name}.npy"
        write_vectors(path, options.layers, options.sentences, options.width, number + 1)
        sides.append(read_vectors(str(path)).values)
    rates = peak_rates(torch.device("cpu"))
    counts = sorted({0, options.permutations})
    calls = {str(count): (lambda count=count: compare_layers(*sides, count)) for count in counts}
    timings = measure.time_side_by_side(calls, options.rounds, torch.device("cpu"), warmup=0)
    rows = []
    for count in counts:
        seconds, work = timings[str(count)].median, gigaflops(options, count)
        rows.append(
            {
                "permutations": count,
                "seconds": round(seconds, 2),
                "gflop": round(work, 1),
                "gflops": round(work / seconds, 1),
                "machine_gflops": round(rates["gflops"], 1),
                "floor_seconds": round(work / rates["gflops"], 2),
            }
        )
    return rows


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = [
        [
            row["permutations"],
            f"{row['seconds']:.1f}",
            f"{row['gflop']:,.0f}",
            f"{row['gflops']:.0f}",
            f"{row['machine_gflops']:.0f}",
            f"{row['floor_seconds']:.1f}",
        ]
        for row in content["results"]
    ]
    columns = ["permutations", "seconds", "GFLOP", "GFLOP/s", "a large product's GFLOP/s", "floor, seconds"]
    return report.table(columns, rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=24, help="of each model")
    parser.add_argument("--sentences", type=int, default=10000, help="N")
    parser.add_argument("--width", type=int, default=1024, help="C")
    parser.add_argument("--permutations", type=int, default=1, help="of the second row of the table")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    parser.add_argument(
        "--vectors", type=Path, help="keep the files there (2 GB at full size; default: a temporary folder)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the table, write no result")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cka-") as temporary:
        results = measure_all(options, options.vectors or Path(temporary))
    print(render({"results": results}))
    shown = {name: value for name, value in vars(options).items() if name not in ("vectors", "dry_run")}
    if not options.dry_run:
        path = report.write("cka", torch.device("cpu"), shown, results)
        measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
