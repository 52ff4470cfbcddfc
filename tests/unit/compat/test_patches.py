"""Each patch: the stock command works with it, and shows upstream's defect when only this patch is switched off."""

from typing import Any, Dict

import fairseq
import pytest

from fairseq_plugins import compat

pytestmark = pytest.mark.slow  # one subprocess for all of them, about 45 seconds of one core
Probes = Dict[str, Dict[str, Any]]
ABSENT = {  # defects that a fairseq does not have
    "0.12.2": {"lost_sentences", "permute_sentences"},
    "0.12.3.1": {"encoder_fast_path"},
}
NAMES = [patch.name for patch in compat.PATCHES if patch.name not in ABSENT.get(fairseq.__version__, set())]


@pytest.fixture(autouse=True)
def _has_the_defect(request: pytest.FixtureRequest) -> None:
    for name in ABSENT.get(fairseq.__version__, set()):
        if request.node.name == f"test_{name}":
            pytest.skip(f"fairseq {fairseq.__version__} does not have this defect")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "encoder_fast_path"])
def test_applied_unless_switched_off(probes: Probes, name: str) -> None:
    assert "error" not in probes[name]["on"], probes[name]["on"]
    assert set(probes[name]["on"]["applied"]) == set(NAMES)
    assert set(probes[name]["off"]["applied"]) == set(NAMES) - {name}


def test_lost_sentences(probes: Probes) -> None:
    on, off = probes["lost_sentences"]["on"], probes["lost_sentences"]["off"]
    assert (on["decoded"], on["few"], on["none"]) == (20, [0, 1, 2], [])
    assert (off["decoded"], off["few"]) == (16, [])
    assert "IndexError" in off["none"]


def test_safe_loading(probes: Probes) -> None:
    on, off = probes["safe_loading"]["on"], probes["safe_loading"]["off"]
    assert on["namespaces"] >= 1  # else the probe shows nothing
    assert on["loaded"] == {name: [[0, 1, 2], 0.5, "AverageMeter"] for name in ("numpy1", "numpy2")}
    assert "UnpicklingError" in off["error"]


def test_literal_options(probes: Probes) -> None:
    on, off = probes["literal_options"]["on"], probes["literal_options"]["off"]
    assert (off["code"], off["literal"], on["literal"]) == ([1], [7, 7], [7, 7])
    assert "no literal" in on["code"]


def test_distributed_objects(probes: Probes) -> None:
    assert probes["distributed_objects"]["on"]["lr"] == 0.5
    assert "UnpicklingError" in probes["distributed_objects"]["off"]["error"]


def test_epoch_resume(probes: Probes) -> None:
    on, off = probes["epoch_resume"]["on"], probes["epoch_resume"]["off"]
    assert on["difference"] == 0.0
    assert off["difference"] > 1e-4 or fairseq.__version__ == "0.12.2"  # there the noise alone is not renewed
    assert on["noise"] == 0.0
    assert off["noise"] > 1e-4
    assert on["workers"] <= 1  # those of earlier epochs have ended
    assert on["option"] == [True, "False"]  # unset, given
    assert on["hydra"] == [True, False]
    assert off["option"][0] is False


def test_mbart_task(probes: Probes) -> None:
    on, off = probes["mbart_task"]["on"], probes["mbart_task"]["off"]
    assert (on["decoded"], on["interactive"]) == (20, 1)
    assert "has no attribute 'args'" in off["error"]


def test_mbart_languages(probes: Probes) -> None:
    on, off = probes["mbart_languages"]["on"], probes["mbart_languages"]["off"]
    assert (on["same"], on["decoded_same"]) == (True, True)
    assert "--target-lang en: the dictionary has no [en], because --langs de lacks it" in on["lacking"]
    assert off["lacking"] is True
    for what in ("started", "resumed", "decoded"):
        assert "was trained with de,en; give the same languages in the same order" in on[what], on
        assert off[what] is True, off


def test_numpy2(probes: Probes) -> None:
    on, off = probes["numpy2"]["on"], probes["numpy2"]["off"]
    assert (on["eos"], on["crf"], on["buckets"]) == (2, 1, True)
    assert on["untouched"]
    assert "compat" in off["eos"]
    assert "'float'" in off["crf"]
    assert off["buckets"].startswith(("TypeError", "AttributeError"))  # numpy 2.4 refuses interpolation= first


def test_bf16(probes: Probes) -> None:
    assert probes["bf16"]["on"]["bfloat16"]
    assert probes["bf16"]["on"]["updates"] == 5
    assert "xla_device" in probes["bf16"]["off"]["error"]


def test_permute_sentences(probes: Probes) -> None:
    on, off = probes["permute_sentences"]["on"], probes["permute_sentences"]["off"]
    assert (on["denoising"], on["multilingual_denoising"]) == (0.5, 0.5)
    assert "invalid int value: '0.5'" in off["log"]


def test_checkpoint_errors(probes: Probes) -> None:
    assert probes["checkpoint_errors"]["on"]["shown"] == "ValueError: trained on another frozen model"
    assert probes["checkpoint_errors"]["off"]["shown"].startswith("Exception: Cannot load model parameters")


def test_own_run(probes: Probes) -> None:
    # Runs in the history (the file's, the first part, the second), updates, epoch, batches of it.
    on, off = probes["own_run"]["on"], probes["own_run"]["off"]
    assert (on["light"], on["whole"]) == ([3, 4, 1, 4], [3, 4, 1, 4])
    assert off["light"] == [2, 4, 1, 4]  # from the file again


def test_raw_sentences(probes: Probes) -> None:
    on, off = probes["raw_sentences"]["on"], probes["raw_sentences"]["off"]
    assert {name: text for name, text in on["empty"].items() if name != "H-1"} == {
        **{"S-0": "", "H-0": "", "S-1": "a b", "S-2": "", "H-2": ""}
    }
    assert on["empty"]["H-1"] == off["empty"]["H-1"] != ""
    assert off["empty"]["H-0"] != ""  # made up
    assert on["cut"]["S-0"] == "a b c"
    assert "Size of sample #0 is invalid" in off["cut"]
    assert "source line 3 has 6 tokens; valid: at most 4" in on["long"]


def test_validation_progress(probes: Probes) -> None:
    told = [f"'valid' subset: {number} of 5 batches" for number in range(5)]
    assert (probes["validation_progress"]["on"]["told"], probes["validation_progress"]["off"]["told"]) == (told, [])


def test_training_time(probes: Probes) -> None:
    assert {key: probes["training_time"][key]["updates"] for key in ("on", "off")} == {"on": 2, "off": 1}


def test_missing_start(probes: Probes) -> None:
    on, off = probes["missing_start"]["on"], probes["missing_start"]["off"]
    for option in ("--restore-file", "--finetune-from-model"):
        assert on[option].startswith(f"ValueError: {option} ")
        assert off[option] is True  # from random values


def test_finished_runs(probes: Probes) -> None:
    on, off = probes["finished_runs"]["on"], probes["finished_runs"]["off"]
    assert (on["update"], on["patience"]) == ([2, 2], [10, 10])
    assert (off["update"], off["patience"]) == ([2, 3], [10, 20])


def test_folder_lock(probes: Probes) -> None:
    on, off = probes["folder_lock"]["on"], probes["folder_lock"]["off"]
    assert on["held"].startswith("ValueError: --save-dir ")
    assert "process 17" in on["held"]
    assert "FileNotFoundError" in on["unsaved"]  # it ran, and wrote no checkpoint that the probe could read
    assert on["after"] == 2
    assert on["dummy"] is True
    assert (off["held"], off["dummy"]) == (True, False)


def test_renamed_options(probes: Probes) -> None:
    on, off = probes["renamed_options"]["on"], probes["renamed_options"]["off"]
    assert (on["fixed"], on["cosine"]) == ([0.5, None], [-1.0, 0.5])
    assert (off["fixed"], off["cosine"]) == ("refused", [-1.0, 0.5])
    assert (on["score"], off["score"]) == (["BLEU ="], ["BLEU4 ="])


def test_damaged_data(probes: Probes) -> None:
    on, off = probes["damaged_data"]["on"], probes["damaged_data"]["off"]
    assert "valid.de-en.en.bin: has" in on["opened"] and off["opened"] == 20


def test_damaged_vocabularies(probes: Probes) -> None:
    on, off = probes["damaged_vocabularies"]["on"], probes["damaged_vocabularies"]["off"]
    assert "dict.en.txt: line" in on["opened"]
    assert "dict.en.txt" not in off["opened"]


def test_decoding_builds(probes: Probes) -> None:
    assert [probes["decoding_builds"][state]["from_checkpoint"] for state in ("on", "off")] == [True, None]


def test_cpu_processes(probes: Probes) -> None:
    on, off = probes["cpu_processes"]["on"], probes["cpu_processes"]["off"]
    assert on["updates"] == {"pytorch_ddp": [3, 3], "legacy_ddp": [3, 3]}
    assert "--distributed-init-method tcp://127.0.0.1:1" in on["tcp"]
    assert off["tcp"] is None  # nothing trained, nothing said
    if fairseq.__version__ != "0.12.2":  # which waits for NCCL instead
        assert off["updates"] == {"pytorch_ddp": [5, 5]}  # two models, each on the whole set
        assert "WORLD_SIZE=2" in on["hydra"]
        assert "distributed_init_method=env://" in on["hydra"]
        assert off["hydra"] > 0  # a model of its own


def test_atomic_copies_on_a_full_disk(probes: Probes) -> None:
    on, off = probes["atomic_copies"]["on"], probes["atomic_copies"]["off"]
    for report in (on["copied"], on["saved"]):
        assert report.startswith("OSError")
        assert "The previous checkpoint_last.pt is untouched" in report
    assert on["left"] == "checkpoint_last.pt"
    assert on["files"] == ["checkpoint_last.pt", "new.pt"]  # no temporary file
    assert on["seconds"] < 2.0  # no pause, no further try
    assert off["left"].startswith("RuntimeError")


def test_kills_while_saving_leave_a_whole_checkpoint(probes: Probes) -> None:
    assert probes["atomic_copies"]["on"]["kills"] == [None] * 10


def test_beam_size(probes: Probes) -> None:
    assert probes["beam_size"]["on"]["difference"] == 0.0
    assert probes["beam_size"]["off"]["difference"] > 1e-4


def test_validation_text(probes: Probes) -> None:
    on, off = probes["validation_text"]["on"], probes["validation_text"]["off"]
    assert on["bleu"] < off["bleu"] - 5  # of every row [en] is right


def test_generation_shards(probes: Probes) -> None:
    one, other = probes["generation_shards"]["on"]["parts"]
    assert sorted([*one, *other]) == list(range(20))
    assert one and other
    assert len(probes["generation_shards"]["off"]["parts"][0]) == 20


def test_nan_gradients(probes: Probes) -> None:
    assert "FloatingPointError: update 2: gradients are NaN" in probes["nan_gradients"]["on"]["ending"]
    assert "StopIteration" in probes["nan_gradients"]["off"]["ending"]


def test_early_errors(probes: Probes) -> None:
    on, off = probes["early_errors"]["on"], probes["early_errors"]["off"]
    words = {
        "criterion": ["--criterion sga_ctc", "--task translation"],
        "fp16": ["--fp16", "--cpu"],
        "data": ["data folder", "absent"],
        "bpe": ["--bpe sentencepiece", "--remove-bpe"],
        "pretrained": ["absent"],
    }
    for what, named in words.items():
        assert on[what].split(":")[0] in ("ValueError", "MissingData"), on
        assert all(word in on[what] for word in named), on
        assert off[what] != on[what]


def test_empty_batches(probes: Probes) -> None:
    assert probes["empty_batches"]["on"]["found"] == [0.0, 0, {}]
    assert probes["empty_batches"]["off"]["found"].startswith("KeyError")
