"""What a benchmark leaves behind: a JSON file with machine and versions, and a table."""

import json
import os
import platform
import re
from pathlib import Path
from typing import Any, Dict, List, Sequence

import fairseq
import torch

FOLDER = "BENCHMARK_RESULTS"
"""Environment variable: the folder of the results, where it is not that of the repository."""
RESULTS = Path(os.environ.get(FOLDER, Path(__file__).resolve().parent / "results")).resolve()


def machine(device: torch.device) -> Dict[str, Any]:
    """Processor or GPU, threads and versions; nothing that names a host or a path."""
    info = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq": fairseq.__version__,
    }
    if device.type == "cuda":
        info["cuda"] = torch.version.cuda
    return info


def _processor() -> str:
    """Name of the CPU and what of AVX-512 and AMX it has."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    extra = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if re.search(rf"\b{flag}\b", text)]
    return f"{name.group(1) if name else platform.machine()} ({', '.join(extra)})"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; numbers are right-aligned."""
    body = [[str(cell) for cell in row] for row in rows]
    aligned = ["---:" if all(_is_number(row[index]) for row in body) else "---" for index in range(len(columns))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [list(columns), aligned, *body])


def _is_number(cell: str) -> bool:
    return bool(re.match(r"^[\d.,]+( .*)?$|^$", cell))


def write(name: str, device: torch.device, options: Dict[str, Any], results: Any) -> Path:
    """Write ``results/NAME-DEVICE.json``; returns its path."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}-{device.type}.json"
    content = {"benchmark": name, "machine": machine(device), "options": options, "results": results}
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def load(name: str) -> List[Dict[str, Any]]:
    """All committed results of a benchmark, CPU first, each with the stem of its ``file``."""
    paths = sorted(RESULTS.glob(f"{name}-*.json"))
    return [{**json.loads(path.read_text(encoding="utf-8")), "file": path.stem} for path in paths]


def section(name: str, module: Any) -> str:
    """A benchmark on a page: what it measures, then its table for every machine."""
    parts = [f"## {name}", (module.__doc__ or "").strip().split("\n\n    ")[0], f"`python -m benchmarks.{name}`"]
    for content in load(name):
        info = ", ".join(f"{key} {value}" for key, value in content["machine"].items() if key != "device")
        options = ", ".join(f"{key} {value}" for key, value in content["options"].items())
        parts += [f"**{content['machine']['device']}** ({info}); {options}", module.render(content)]
    return "\n\n".join(part for part in parts if part)
