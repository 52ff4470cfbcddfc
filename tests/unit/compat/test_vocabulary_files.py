"""Cut, empty and foreign dictionaries and sentencepiece models are refused by name, in the stock classes too."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.models import FairseqEncoder, FairseqEncoderModel

import fairseq_plugins  # noqa: F401  patches the stock classes

GOOD = "▁one 10\ntwo 1\n▁three words 7 #fairseq:overwrite\n"


@pytest.mark.cases(
    "content where",
    (b"", "empty"),
    (GOOD.encode()[:-26], "line 3, the last one"),
    ("▁one 10\ntwo\n".encode(), "line 2, the last one"),
    ("▁one 10\n\nthree 3\n".encode(), "line 2, is"),
    (GOOD.encode() + bytes(64), "line 4, the last one"),
    (b"\xff\xfe" + GOOD.encode(), "UTF-8"),
    ("▁one 10\ntwo 1\ntwo 1\n".encode(), "'two'"),
)
def test_a_damaged_dictionary_is_named(tmp_path, content, where):
    path = tmp_path / "dict.de.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"dictionary .*dict\.de\.txt: .*{where}"):
        Dictionary.load(str(path))


def test_a_whole_dictionary_is_read_as_ever(tmp_path):
    (tmp_path / "dict.txt").write_text(GOOD, encoding="utf-8")
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols[4:] == ["▁one", "two", "▁three words"]


def test_a_damaged_sentencepiece_model_is_named(tmp_path, repo_root):
    whole = (repo_root / "examples/quickstart/masked_lm/sentencepiece.bpe.model").read_bytes()
    path = tmp_path / "spm.model"
    cfg = SimpleNamespace(sentencepiece_model=str(path), sentencepiece_enable_sampling=False, sentencepiece_alpha=None)
    for damaged in (b"", whole[: len(whole) // 2], b"no model\n"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"--sentencepiece-model .*spm\.model: is no sentencepiece model"):
            SentencepieceBPE(cfg)
    path.write_bytes(whole)
    assert SentencepieceBPE(cfg).encode("one")


def test_a_checkpoint_of_another_dictionary_says_so():
    def model(rows, width=3):
        encoder = FairseqEncoder(Dictionary())
        encoder.embed_tokens = torch.nn.Embedding(rows, width)
        return FairseqEncoderModel(encoder)

    state = model(9).state_dict()
    for entries, cut in ((8, "is it cut, or "), (10, "")):
        words = rf"9 rows in encoder\.embed_tokens\.weight, the data's dictionary {entries} entries .*: {cut}of another"
        with pytest.raises(ValueError, match=words):
            model(entries).load_state_dict(state)
    with pytest.raises(RuntimeError, match="size mismatch"):  # not the rows alone
        model(8, width=4).load_state_dict(state)
