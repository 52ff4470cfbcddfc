"""Store the rows of a benchmark with machine and versions, and print them as a table.

A benchmark is a module: its docstring asks the question, ``measure`` returns one row (a dictionary)
per variant, ``render`` makes the Markdown of a stored file, and ``main`` is the command line.
"""

import argparse
import json
import os
import platform
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

import fairseq
import torch

from .measure import parse_device, say

FOLDER = "BENCHMARK_RESULTS"
"""Environment variable: folder of the results, if not that of the repository."""

RESULTS = Path(os.environ.get(FOLDER, Path(__file__).resolve().parent / "results")).resolve()

SPREAD = "{0[0]:.2f} ({0[1]:.2f} to {0[2]:.2f})"
"""Form of a ratio: median and range over the rounds."""

MEDIAN = "{0[0]:.1f}"
"""Form of a ratio of which only the median is shown."""

Row = Dict[str, Any]


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: heading.
        source: key of a row, or a function of the row.
        form: format string of a cell.
        unit: factor that a number is multiplied with; 1000 shows seconds as milliseconds.
    """

    title: str
    source: Union[str, Callable[[Row], Any]]
    form: str = "{}"
    unit: Optional[float] = None

    def cell(self, row: Row) -> str:
        """Format the cell of a row; a missing number is an empty cell."""
        content = row.get(self.source) if isinstance(self.source, str) else self.source(row)
        if content is None:
            return ""
        return self.form.format(content if self.unit is None else self.unit * content)


# ---- Command line. ----


def build_parser(
    doc: Optional[str],
    rounds: int = 0,
    on_gpu: bool = False,
) -> argparse.ArgumentParser:
    """Build the parser of a benchmark.

    Args:
        doc: docstring of the module.
        rounds: default of ``--rounds``; 0: no such option.
        on_gpu: offer ``--device``.
    """
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=kind)
    if on_gpu:
        default = "cuda" if torch.cuda.is_available() else "cpu"
        text = "cpu or cuda (default: cuda if there is a GPU)"
        parser.add_argument("--device", type=parse_device, default=default, help=text)
    if rounds:
        text = "timed rounds (default: %(default)s)"
        parser.add_argument("--rounds", type=int, default=rounds, help=text)
    return parser


def publish(
    name: str,
    options: argparse.Namespace,
    rows: Sequence[Row],
    render: Callable[[Dict[str, Any]], str],
    unstored: Sequence[str] = (),
    **facts: Any,
) -> Path:
    """Write ``NAME-DEVICE.json`` into the folder of results and print its table.

    Args:
        name: name of the benchmark.
        options: command line; ``device`` is the device that was measured (default: the CPU).
        rows: one row per variant.
        render: makes the table.
        unstored: options that are not stored, such as paths of this machine.
        facts: stored beside the options, such as versions of peers.
    """
    device = getattr(options, "device", torch.device("cpu"))
    stored_names = {*vars(options)} - {"device", *unstored}
    content = {
        "benchmark": name,
        "machine": describe_machine(device),
        "options": {**{option: getattr(options, option) for option in stored_names}, **facts},
        "results": list(rows),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}-{device.type}.json"
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(render(content))
    say(f"wrote {path}")
    return path


def describe_machine(device: torch.device) -> Dict[str, Any]:
    """Describe processor or GPU, threads and versions; nothing names a host or a path."""
    on_gpu = device.type == "cuda"
    machine = {
        "device": torch.cuda.get_device_name(device) if on_gpu else _describe_processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq": fairseq.__version__,
    }
    return {**machine, "cuda": torch.version.cuda} if on_gpu else machine


def _describe_processor() -> str:
    """Return the name of the CPU and its vector extensions."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    names = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    extensions = [flag for flag in names if re.search(rf"\b{flag}\b", text)]
    return f"{name.group(1) if name else platform.machine()} ({', '.join(extensions)})"


# ---- Tables and pages. ----


def table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Make a Markdown table; columns of numbers are right-aligned."""
    body = [[column.cell(row) for column in columns] for row in rows]
    rules = ["---:" if all(map(_is_number, cells)) else "---" for cells in zip(*body)]
    lines = [[column.title for column in columns], rules, *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _is_number(cell: str) -> bool:
    return bool(re.match(r"^[\d.,]+( .*)?$|^$", cell))


def load(name: str) -> List[Dict[str, Any]]:
    """Read all stored results of a benchmark, CPU first; ``file`` is the stem of the file."""
    paths = sorted(RESULTS.glob(f"{name}-*.json"))
    return [{**json.loads(path.read_text(encoding="utf-8")), "file": path.stem} for path in paths]


def section(name: str, benchmark: Any) -> str:
    """Make the section of a page: the question, then one table per machine."""
    question = (benchmark.__doc__ or "").strip().split("\n\n    ")[0]
    parts = [f"## {name}", question, f"`python -m benchmarks.{name}`"]
    for content in load(name):
        machine = content["machine"]
        versions = ", ".join(f"{key} {machine[key]}" for key in machine if key != "device")
        options = ", ".join(f"{key} {option}" for key, option in content["options"].items())
        parts += [f"**{machine['device']}** ({versions}); {options}", benchmark.render(content)]
    return "\n\n".join(parts)
