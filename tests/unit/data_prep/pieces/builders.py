"""Stand in for fairseq-preprocess; tests/cli runs the real one."""

from fairseq.data import Dictionary, indexed_dataset

from data_prep.pieces import binarize


def fake_preprocess(job, folder):
    """Write the files that fairseq-preprocess writes for a pair."""
    pair, sources = job.pair, job.sources()
    dictionary = Dictionary.load(str(job.dictionary))
    folder.mkdir()
    for name in binarize._fairseq_names(job.splits):
        for lang in pair:
            stem = str(folder / f"{name.output}.{pair[0]}-{pair[1]}.{lang}")
            options = {"impl": "mmap", "vocab_size": len(dictionary)}
            builder = indexed_dataset.make_builder(stem + ".bin", **options)
            for line in sources[f"{name.split}.{lang}"].read_text().splitlines():
                builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
            builder.finalize(stem + ".idx")
    for lang in pair:
        dictionary.save(str(folder / f"dict.{lang}.txt"))
