"""The options of the analyses; each is computed by the module of ``analysis`` that has its name."""

import argparse
import os
from typing import Any, Callable, Dict

from .analysis_options import (
    add_batch_options,
    add_model_options,
    add_output_options,
    add_text_options,
    check_model_files,
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

ENCODER = "a pretrained encoder, fairseq or Hugging Face"
READS_TEXT = "how the model reads text"
TSV = "table, tab-separated"


def parser_of(verb: str) -> Parser:
    """Make the parser of an analysis, described by the docstring of its module."""
    description = read_docstring(f"analysis.{verb.replace('-', '_')}")
    return new_parser(verb, description, formatter_class=argparse.RawDescriptionHelpFormatter)


def cka() -> Parser:
    """Build the parser of ``cka``."""
    parser = parser_of("cka")
    add = parser.add_argument
    add(
        "models",
        nargs="*",
        metavar="MODEL",
        help="one or two pretrained encoders, fairseq or Hugging Face",
    )
    add(
        "--text",
        nargs="+",
        metavar="LANG=FILE",
        help="one sentence per line; parallel for one model",
    )
    vectors = "vectors in place of models and text: (layers, sentences, width)"
    add("--vectors", nargs="+", metavar="LANG=FILE.npy", help=vectors)
    add("--vectors-b", nargs="+", metavar="LANG=FILE.npy", help="vectors of a second model")
    add("--all-layers", action="store_true", help="two models: compare each layer with each")
    add(
        "--permutations",
        type=int,
        default=5,
        metavar="N",
        help="permutations for the floor (default 5)",
    )
    add("--seed", type=int, default=1, metavar="N", help="seed of the permutations (default 1)")
    add_text_options(parser)
    add_output_options(parser)
    add_model_options(parser.add_argument_group(READS_TEXT))
    add_model_options(parser.add_argument_group("how the second model reads text"), "-b")
    return parser


def check_cka(args: argparse.Namespace) -> None:
    """Raise ValueError if a model or a file is missing."""
    for option in ("text", "vectors", "vectors_b"):
        check_named(f"--{option.replace('_', '-')}", getattr(args, option))
    for model in args.models:
        check_exists("MODEL", model)
    check_model_files(args)


def singular_values() -> Parser:
    """Build the parser of ``singular-values``."""
    parser = parser_of("singular-values")
    parser.add_argument("model", metavar="MODEL", help=ENCODER)
    parser.add_argument("model_b", metavar="MODEL_B", help="another one of the same shape")
    heads = "attention heads, required only if the files do not tell"
    parser.add_argument("--heads", type=int, metavar="N", help=heads)
    heads = "attention heads of the second model (default: the first one's)"
    parser.add_argument("--heads-b", type=int, metavar="N", help=heads)
    add_output_options(parser)
    return parser


def check_singular_values(args: argparse.Namespace) -> None:
    """Raise ValueError if a model is missing."""
    check_exists("MODEL", args.model)
    check_exists("MODEL_B", args.model_b)


def language_distance() -> Parser:
    """Build the parser of ``language-distance``."""
    parser = parser_of("language-distance")
    add = parser.add_argument
    models = "encoder-decoders: fairseq checkpoints, folders with model.pt, mBART"
    add("models", nargs="+", metavar="[NAME=]MODEL", help=models)
    add("--source", required=True, metavar="FILE", help="one sentence per line")
    add("--target", required=True, metavar="FILE", help="the same sentences in the other language")
    add(
        "--source-lang",
        required=True,
        metavar="LANG",
        help="as en or en_XX, a language of the model",
    )
    add(
        "--target-lang",
        required=True,
        metavar="LANG",
        help="as de or de_DE, a language of the model",
    )
    sentences = "largest number of sentences, from the beginning (default 20000)"
    add("--sentences", type=int, default=20000, metavar="N", help=sentences)
    add_batch_options(parser)
    add_output_options(parser, tsv=TSV)
    add_model_options(parser.add_argument_group("how the models read text (all of them)"))
    return parser


def check_language_distance(args: argparse.Namespace) -> None:
    """Raise ValueError if a model or a text is missing."""
    check_exists("--source", args.source)
    check_exists("--target", args.target)
    for model in args.models:
        if "=" not in model or os.path.exists(model):
            check_exists("MODEL", model)
        else:
            check_named("MODEL", [model])
    check_model_files(args)


def retrieval() -> Parser:
    """Build the parser of ``retrieval`` with its two kinds of task."""
    parser = parser_of("retrieval")
    tasks = parser.add_subparsers(dest="what", required=True)
    pair: Dict[str, Any] = {"nargs": 3, "action": "append", "metavar": ("PAIR", "FILE", "FILE")}
    mined: Dict[str, Any] = {
        "nargs": 4,
        "action": "append",
        "metavar": ("PAIR", "FILE", "FILE", "GOLD"),
    }
    accuracy = "accuracy of the best partner, two parallel files per pair"
    tatoeba = tasks.add_parser("tatoeba", help=accuracy)
    files = "as deu-eng FILE.deu FILE.eng; repeat for more pairs"
    tatoeba.add_argument("--pair", dest="test", required=True, help=files, **pair)
    chooses = "pair that chooses the layer; repeat for more pairs"
    tatoeba.add_argument("--dev-pair", dest="dev", default=[], help=chooses, **pair)
    add_directions(tatoeba)
    f1 = "F1 of mined pairs; lines are id<TAB>sentence, gold lines id<TAB>id"
    bucc = tasks.add_parser("bucc", help=f1)
    threshold = "pair that finds the threshold; repeat for more pairs"
    bucc.add_argument("--dev", required=True, help=threshold, **mined)
    bucc.add_argument("--test", default=[], help="the same pairs; repeat for more", **mined)
    for task in (tatoeba, bucc):
        task.add_argument("model", metavar="MODEL", help=ENCODER)
        layer = "a number, 0 being the embedding's output, or all (default)"
        task.add_argument("--layer", default="all", help=layer)
        score = "score of two vectors (default cosine)"
        task.add_argument("--score", choices=("cosine", "margin"), default="cosine", help=score)
        neighbours = "neighbours of the margin (default 4)"
        task.add_argument("--neighbours", type=int, default=4, metavar="K", help=neighbours)
        subsets = "print scores as fairseq-validate does too, for studies"
        task.add_argument("--subsets", action="store_true", help=subsets)
        add_text_options(task)
        add_output_options(task)
        add_model_options(task.add_argument_group(READS_TEXT))
    return parser


def add_directions(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which side of a pair looks for the other."""
    directions = (
        "forward: sentences of the first language look for the second (default, XTREME's); "
        "both: the other way too, and the mean"
    )
    choices = ("forward", "both")
    parser.add_argument("--directions", choices=choices, default=choices[0], help=directions)


def check_retrieval(args: argparse.Namespace) -> None:
    """Raise ValueError if the model or a text is missing."""
    check_exists("MODEL", args.model)
    for pair, *paths in [*args.dev, *args.test]:
        for path in paths:
            check_exists(f"{pair}:", path)
    check_model_files(args)


def retrieval_comparison() -> Parser:
    """Build the parser of ``retrieval-comparison``."""
    parser = parser_of("retrieval-comparison")
    source = "what retrieval tatoeba --json or pair-probe --json wrote"
    parser.add_argument("first", metavar="FIRST", help=source)
    parser.add_argument("others", metavar="OTHER", nargs="+", help="the same of other encoders")
    draws = "draws of the test (default 10000)"
    parser.add_argument("--samples", type=int, default=10000, metavar="N", help=draws)
    parser.add_argument("--seed", type=int, default=1, help="seed of the draws (default 1)")
    add_output_options(parser, plot=False)
    return parser


def check_retrieval_comparison(args: argparse.Namespace) -> None:
    """Raise ValueError if a file is missing."""
    for path in [args.first, *args.others]:
        check_exists("JSON", path)


def pair_probe() -> Parser:
    """Build the parser of ``pair-probe``."""
    parser = parser_of("pair-probe")
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
    return parser


def check_pair_probe(args: argparse.Namespace) -> None:
    """Raise ValueError if the model or a text is missing."""
    for name in ("train", "dev", "test"):
        check_named(f"--{name}", getattr(args, name))
    check_exists("MODEL", args.model)
    check_model_files(args)


def frequency_f1() -> Parser:
    """Build the parser of ``frequency-f1``."""
    parser = parser_of("frequency-f1")
    add = parser.add_argument
    add("--train", required=True, metavar="FILE", help="target side of the training text")
    add("--reference", required=True, metavar="FILE", help="one sentence per line")
    output = "translations of the same lines; each is compared with the first"
    add("--output", required=True, nargs="+", metavar="NAME=FILE", help=output)
    edges = "first frequency of each bucket but the lowest (default 100 1001)"
    add("--edges", type=int, nargs="+", default=[100, 1001], metavar="N", help=edges)
    kinds = ("auto", "word", "char")
    add(
        "--tokens",
        choices=kinds,
        default="auto",
        help="words, as those of --rouge-tokens (default auto)",
    )
    add("--cased", action="store_true", help="keep upper case")
    add(
        "--samples",
        type=int,
        default=1000,
        metavar="N",
        help="samples of the bootstrap (default 1000)",
    )
    add("--seed", type=int, default=1, metavar="N", help="seed of the bootstrap (default 1)")
    add_output_options(parser, tsv=TSV)
    return parser


def check_frequency_f1(args: argparse.Namespace) -> None:
    """Raise ValueError if a text is missing."""
    check_exists("--train", args.train)
    check_exists("--reference", args.reference)
    check_named("--output", args.output)


def training_curves() -> Parser:
    """Build the parser of ``training-curves``."""
    parser = parser_of("training-curves")
    add = parser.add_argument
    add(
        "runs",
        nargs="+",
        metavar="NAME=LOG",
        help="what fairseq-train printed; ratios are to the first",
    )
    metric = "as valid.bleu, train.loss (epochs) or train_inner.loss (default valid.loss)"
    add("--metric", default="valid.loss", metavar="LINE.NAME", help=metric)
    earlier = "logs of the stages that runs of these names started from, to be counted too"
    add("--earlier", nargs="+", default=[], metavar="NAME=LOG", help=earlier)
    add("--reach", type=float, metavar="X", help="value to reach (default: the worst run's best)")
    better = "which values are better (default: lower for loss and ppl, higher for others)"
    add("--better", choices=("lower", "higher"), help=better)
    against = "x axis of the plot: updates, or minutes of running (default updates)"
    add("--against", choices=("updates", "wall"), default="updates", help=against)
    add_output_options(parser, tsv="points of the curves, tab-separated")
    return parser


def check_training_curves(args: argparse.Namespace) -> None:
    """Raise ValueError if a log is missing."""
    check_named("NAME=LOG", args.runs)
    check_named("--earlier", args.earlier)


def transfer_table() -> Parser:
    """Build the parser of ``transfer-table``."""
    parser = parser_of("transfer-table")
    add = parser.add_argument
    add(
        "--log",
        nargs="+",
        required=True,
        metavar="MODEL/TASK=FILE",
        help="what fairseq-validate printed",
    )
    metric = "metric of a task (default: ndcg, f1 or accuracy)"
    add("--metric", nargs="+", default=[], metavar="TASK=NAME", help=metric)
    trained = "languages of the training, as en,de: adds averages without them"
    add("--trained-on", default="", metavar="LIST", help=trained)
    add_output_options(parser, tsv="a line per model, task, language and seed, tab-separated")
    return parser


def check_transfer_table(args: argparse.Namespace) -> None:
    """Raise ValueError if a log is missing."""
    check_named("--log", args.log)


def analysis(
    module: str,
    build_parser: Callable[[], Parser],
    check: Callable[[argparse.Namespace], None],
) -> Command:
    """Make the command that checks the outputs and calls ``work`` of a module of ``analysis``."""

    def work(args: argparse.Namespace) -> None:
        import_below("analysis.report").check_outputs(args)
        import_below(f"analysis.{module}").work(args)

    return Command(build_parser, work, check)


COMMANDS = {
    "cka": analysis("cka", cka, check_cka),
    "singular-values": analysis("singular_values", singular_values, check_singular_values),
    "language-distance": analysis("language_distance", language_distance, check_language_distance),
    "retrieval": analysis("retrieval", retrieval, check_retrieval),
    "retrieval-comparison": analysis(
        "retrieval_comparison",
        retrieval_comparison,
        check_retrieval_comparison,
    ),
    "pair-probe": analysis("pair_probe", pair_probe, check_pair_probe),
    "frequency-f1": analysis("frequency_f1", frequency_f1, check_frequency_f1),
    "training-curves": analysis("training_curves", training_curves, check_training_curves),
    "transfer-table": analysis("transfer_table", transfer_table, check_transfer_table),
}
