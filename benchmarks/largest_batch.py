"""The largest batch whose training step fits on the GPU: the options of ``fairseq-train``, its Trainer, and a search.

    python -m benchmarks.largest_batch [--at-most SENTENCES] [--within 0.02] DATA --task ... --max-tokens ...

A batch is the longest item of the training set, as often as it fits: until memory runs out, the number is doubled, then bisected.
A step is forward, backward and the optimizer's. Prints a line of JSON.
"""

import argparse
import gc
import json
import time
from typing import Any, Callable, Dict, List, Sequence, Tuple
from unittest import mock

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

import fairseq_plugins  # noqa: F401  (registers what the options name)

from .measure import say, synchronise

CUDA = torch.device("cuda")
TIMED = 5


def search(fits: Callable[[int], bool], at_most: int, within: float = 0.0) -> Tuple[int, List[int]]:
    """The largest number from 1 to ``at_most`` that fits, 0 if none does, and the numbers that were tried.

    Args:
        fits: whether a number fits; one that is larger than one that does not fit does not either.
        at_most: the end of the search.
        within: share of the number by which the next larger one that was tried may differ from it.
    """
    low, high, tried = 0, at_most + 1, []
    while high - low > max(1, int(within * low)):
        number = min(2 * low or 1, at_most) if high > at_most else (low + high) // 2
        tried.append(number)
        if fits(number):
            low = number
        else:
            high = number
    return low, tried


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether an error says so; libraries of CUDA have errors of their own."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or any(
        text in str(error) for text in ("out of memory", "ALLOC_FAILED")
    )


def configuration(line: Sequence[str]) -> Any:
    """fairseq's configuration of a training."""
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), list(line)))


class Steps:
    """Training steps of one model, with a batch of any size."""

    def __init__(self, line: Sequence[str]):
        cfg = configuration(line)
        torch.manual_seed(cfg.common.seed)
        task = tasks.setup_task(cfg.task)
        model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
        self.trainer = Trainer(cfg, task, model, criterion)
        task.load_dataset("train", epoch=1)
        self.data = task.dataset("train")
        longest = max(range(len(self.data)), key=self.data.num_tokens)
        self.item, self.tokens = self.data[longest], int(self.data.num_tokens(longest))

    def sample(self, sentences: int) -> Any:
        """A batch of so many."""
        return self.data.collater([self.item] * sentences)

    def run(self, sentences: int, count: int) -> float:
        """Seconds of ``count`` steps."""
        sample = self.sample(sentences)
        synchronise(CUDA)
        start = time.perf_counter()
        for _ in range(count):
            self.trainer.train_step([sample], raise_oom=True)
        synchronise(CUDA)
        return time.perf_counter() - start

    def fits(self, sentences: int) -> bool:
        """Whether a step with so many sentences has enough memory; the second one has the optimizer's state, too."""
        try:
            self.run(sentences, 2)
            found = True
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            found = False
        self.release()
        say(f"{sentences} x {self.tokens} tokens {'fit' if found else 'do not fit'}")
        return found

    def release(self) -> None:
        """Give back what no step holds any more, an error's frames included."""
        self.trainer.zero_grad()
        gc.collect()
        torch.cuda.empty_cache()


def measure(line: Sequence[str], at_most: int, within: float) -> Dict[str, Any]:
    """The largest batch with its memory and speed. ``line``: options of ``fairseq-train``."""
    steps = Steps(line)
    sentences, tried = search(steps.fits, at_most, within)
    result = {"sentences": sentences, "tokens": sentences * steps.tokens, "length": steps.tokens, "tried": tried}
    result["end"] = sentences == at_most
    if sentences:
        torch.cuda.reset_peak_memory_stats(CUDA)
        with mock.patch.object(
            torch.cuda, "reset_peak_memory_stats"
        ):  # the trainer would forget the peak after each step
            seconds = steps.run(sentences, TIMED)
        result["tokens_per_s"] = round(TIMED * result["tokens"] / seconds, 1)
        result["peak"] = torch.cuda.max_memory_allocated(CUDA)
    return result


def cells(row: Dict[str, Any]) -> List[str]:
    """A result as it is shown, behind the method and the precision."""
    size = f"{row['tokens']:,}" + (" or more" if row["end"] else "")
    speed = ["", ""]
    if row["sentences"]:
        speed = [f"{row['peak'] / 2**30:.2f}", f"{row['tokens_per_s']:,.0f}"]
    return [size, str(row["length"]), f"{row['sentences']:,}", *speed]


COLUMNS = ["tokens of a step (--max-tokens)", "length", "sentences", "peak GiB", "tokens/s"]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--at-most", type=int, default=2**16, help="sentences at which the search ends")
    parser.add_argument("--within", type=float, default=0.02, help="how near the result is, as a share")
    chosen, line = parser.parse_known_args()
    print(json.dumps(measure(line, chosen.at_most, chosen.within)))


if __name__ == "__main__":
    main()
