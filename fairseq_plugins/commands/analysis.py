"""The options of the analyses; each is computed by the module of ``analysis`` that has its name."""

import argparse
import os
from typing import Any, Callable, Dict, NamedTuple, Tuple

from .analysis_options import (
    add_batch_options,
    add_model_options,
    add_number,
    add_output_options,
    add_text_options,
    check_inputs,
)
from .command import (
    Command,
    Parser,
    check_exists,
    check_named,
    import_below,
    new_parser,
    read_docstring,
)
from .retrieval import add_retrieval_options, check_pairs

ENCODER = "a pretrained encoder, fairseq or Hugging Face"
READS_TEXT = "how the model reads text"
TSV = "table, tab-separated"


def add_cka_options(parser: Parser) -> None:
    """Add the options of ``cka``."""
    add = parser.add_argument
    models = "one or two pretrained encoders, fairseq or Hugging Face"
    add("models", nargs="*", metavar="MODEL", help=models)
    text = "one sentence per line; parallel for one model"
    add("--text", nargs="+", metavar="LANG=FILE", help=text)
    vectors = "vectors in place of models and text: (layers, sentences, width)"
    add("--vectors", nargs="+", metavar="LANG=FILE.npy", help=vectors)
    add("--vectors-b", nargs="+", metavar="LANG=FILE.npy", help="vectors of a second model")
    add("--all-layers", action="store_true", help="two models: compare each layer with each")
    add_number(parser, "--permutations", 5, "permutations for the floor")
    add_number(parser, "--seed", 1, "seed of the permutations")
    add_text_options(parser)
    add_output_options(parser)
    add_model_options(parser.add_argument_group(READS_TEXT))
    add_model_options(parser.add_argument_group("how the second model reads text"), "-b")


def add_singular_values_options(parser: Parser) -> None:
    """Add the options of ``singular-values``."""
    add = parser.add_argument
    add("model", metavar="MODEL", help=ENCODER)
    add("model_b", metavar="MODEL_B", nargs="?", help="another one of the same shape, to compare")
    heads = "attention heads, required only if the files do not tell"
    add("--heads", type=int, metavar="N", help=heads)
    heads = "attention heads of the second model (default: the first one's)"
    add("--heads-b", type=int, metavar="N", help=heads)
    add_output_options(parser)


def add_language_distance_options(parser: Parser) -> None:
    """Add the options of ``language-distance``."""
    add = parser.add_argument
    models = "encoder-decoders: fairseq checkpoints, folders with model.pt, mBART"
    add("models", nargs="+", metavar="[NAME=]MODEL", help=models)
    add("--source", required=True, metavar="FILE", help="one sentence per line")
    add("--target", required=True, metavar="FILE", help="the same sentences in the other language")
    for side, codes in (("source", "en or en_XX"), ("target", "de or de_DE")):
        language = f"as {codes}, a language of the model"
        add(f"--{side}-lang", required=True, metavar="LANG", help=language)
    add_number(parser, "--sentences", 20000, "largest number of sentences, from the beginning")
    add_batch_options(parser)
    add_output_options(parser, tsv=TSV)
    add_model_options(parser.add_argument_group("how the models read text (all of them)"))


def check_models(args: argparse.Namespace) -> None:
    """Raise ValueError if a model of ``language-distance``, a path or NAME=PATH, is missing."""
    for model in args.models:
        if "=" not in model or os.path.exists(model):
            check_exists("MODEL", model)
        else:
            check_named("MODEL", [model])


def add_retrieval_comparison_options(parser: Parser) -> None:
    """Add the options of ``retrieval-comparison``."""
    source = "what retrieval tatoeba --json or pair-probe --json wrote"
    parser.add_argument("first", metavar="FIRST", help=source)
    parser.add_argument("others", metavar="OTHER", nargs="+", help="the same of other encoders")
    add_number(parser, "--samples", 10000, "draws of the test")
    add_number(parser, "--seed", 1, "seed of the draws")
    add_output_options(parser, plot=False)


def add_pair_probe_options(parser: Parser) -> None:
    """Add the options of ``pair-probe``."""
    parser.add_argument("model", metavar="MODEL", help=ENCODER)
    purposes = {
        "train": "trains the classifier",
        "dev": "chooses layer and penalty",
        "test": "is scored; repeat for more languages",
    }
    for name, purpose in purposes.items():
        form: Dict[str, Any] = {"required": True, "action": "append", "metavar": "LANG=FILE"}
        text = f"file of sentence, sentence, class in each line; {purpose}"
        parser.add_argument(f"--{name}", help=text, **form)
    add_text_options(parser)
    numbers = "JSON file of every number, and of which test pairs were right"
    parser.add_argument("--json", metavar="FILE", help=numbers)
    add_model_options(parser.add_argument_group(READS_TEXT))


def add_frequency_f1_options(parser: Parser) -> None:
    """Add the options of ``frequency-f1``."""
    add = parser.add_argument
    add("--train", required=True, metavar="FILE", help="target side of the training text")
    add("--reference", required=True, metavar="FILE", help="one sentence per line")
    output = "translations of the same lines; each is compared with the first"
    add("--output", required=True, nargs="+", metavar="NAME=FILE", help=output)
    edges = "first frequency of each bucket but the lowest (default 100 1001)"
    add("--edges", type=int, nargs="+", default=[100, 1001], metavar="N", help=edges)
    words = "words, as those of --rouge-tokens (default auto)"
    add("--tokens", choices=("auto", "word", "char"), default="auto", help=words)
    add("--cased", action="store_true", help="keep upper case")
    add_number(parser, "--samples", 1000, "samples of the bootstrap")
    add_number(parser, "--seed", 1, "seed of the bootstrap")
    add_output_options(parser, tsv=TSV)


def add_training_curves_options(parser: Parser) -> None:
    """Add the options of ``training-curves``."""
    add = parser.add_argument
    runs = "what fairseq-train printed; ratios of updates and minutes are to the first run's"
    add("runs", nargs="+", metavar="NAME=LOG", help=runs)
    metric = "as valid.bleu, train.loss (epochs) or train_inner.loss (default valid.loss)"
    add("--metric", default="valid.loss", metavar="LINE.NAME", help=metric)
    earlier = "log of an earlier stage of the run NAME; its updates and minutes count too"
    add("--earlier", nargs="+", default=[], metavar="NAME=LOG", help=earlier)
    add("--reach", type=float, metavar="X", help="value to reach (default: the worst run's best)")
    better = "which values are better (default: lower for loss and ppl, higher for others)"
    add("--better", choices=("lower", "higher"), help=better)
    against = "x axis of the plot: updates, or minutes of running (default updates)"
    add("--against", choices=("updates", "wall"), default="updates", help=against)
    add_output_options(parser, tsv="points of the curves, tab-separated")


def add_transfer_table_options(parser: Parser) -> None:
    """Add the options of ``transfer-table``."""
    add = parser.add_argument
    logs = "what fairseq-validate printed"
    add("--log", nargs="+", required=True, metavar="MODEL/TASK=FILE", help=logs)
    metric = "metric of a task (default: ndcg_xglue, ndcg, f1 or accuracy)"
    add("--metric", nargs="+", default=[], metavar="TASK=NAME", help=metric)
    trained = "languages of the training, as en,de: adds averages without them"
    add("--trained-on", default="", metavar="LIST", help=trained)
    add_output_options(parser, tsv="a line per model, task, language and seed, tab-separated")


class Analysis(NamedTuple):
    """An analysis: its options, and the arguments that name input files."""

    add_options: Callable[[Parser], None]
    files: Tuple[str, ...] = ()  # arguments that hold a path or several
    named_files: Tuple[str, ...] = ()  # arguments that hold several NAME=PATH
    check: Callable[[argparse.Namespace], None] = lambda args: None  # looks at other inputs


ANALYSES = {
    "cka": Analysis(add_cka_options, ("models",), ("text", "vectors", "vectors_b")),
    "singular-values": Analysis(add_singular_values_options, ("model", "model_b")),
    "language-distance": Analysis(
        add_language_distance_options, ("source", "target"), check=check_models
    ),
    "retrieval": Analysis(add_retrieval_options, ("model",), check=check_pairs),
    "retrieval-comparison": Analysis(add_retrieval_comparison_options, ("first", "others")),
    "pair-probe": Analysis(add_pair_probe_options, ("model",), ("train", "dev", "test")),
    "frequency-f1": Analysis(add_frequency_f1_options, ("train", "reference"), ("output",)),
    "training-curves": Analysis(add_training_curves_options, named_files=("runs", "earlier")),
    "transfer-table": Analysis(add_transfer_table_options, named_files=("log",)),
}
"""Verb -> analysis."""


def make_command(verb: str, analysis: Analysis) -> Command:
    """Make the command of a verb.

    Its help text is the docstring of the module of ``analysis`` that has the verb's name. The
    command runs the module's function ``work``.
    """
    module = f"analysis.{verb.replace('-', '_')}"

    def build_parser() -> Parser:
        """Build the parser of the verb."""
        layout = argparse.RawDescriptionHelpFormatter
        parser = new_parser(verb, read_docstring(module), formatter_class=layout)
        analysis.add_options(parser)
        return parser

    def check(args: argparse.Namespace) -> None:
        """Raise ValueError if an input is missing."""
        check_inputs(args, analysis.files, analysis.named_files)
        analysis.check(args)

    def work(args: argparse.Namespace) -> None:
        """Check that the outputs can be written, then compute."""
        import_below("analysis.report").check_outputs(args)
        import_below(module).work(args)

    return Command(build_parser, work, check)


COMMANDS = {verb: make_command(verb, analysis) for verb, analysis in ANALYSES.items()}
