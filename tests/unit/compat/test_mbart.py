"""Stock mBART: its task and its languages; generators disturb neither its training nor each other."""

import pytest
import torch
from fairseq import options, tasks
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator, SequenceGeneratorWithAlignment

from tests import builders
from tests.gpt_builders import mbart


def mbart_task(folder, langs="en,de", *more):
    line = [folder, "--task", "translation_from_pretrained_bart", "-s", "en", "-t", "de", "--langs", langs]
    words = [*line, "--arch", "mbart_base", *more]
    args = options.parse_args_and_arch(options.get_training_parser(), list(map(str, words)))
    return tasks.setup_task(args)


def test_the_task_has_its_options(tmp_path):
    builders.write_pair(tmp_path, "valid", "en", "de")
    task = mbart_task(tmp_path)
    task.load_dataset("valid")
    assert len(task.dataset("valid")) and task.args is task.cfg
    task.args = "of a subclass"
    assert task.args == "of a subclass"


def test_languages(tmp_path, monkeypatch):
    builders.write_pair(tmp_path, "valid", "en", "de")
    monkeypatch.setattr(tasks.translation.TranslationTask, "build_model", lambda *_, **__: "model")
    task = mbart_task(tmp_path)
    assert task.build_model(None) == "model"
    state = task.state_dict()
    task.load_state_dict(state)
    task.load_state_dict({})
    stored_task = {"_name": "translation_from_pretrained_bart", "langs": "en,de"}
    cfg = {"model": {"_name": "mbart_base"}, "task": stored_task}
    torch.save({"model": {}, "args": None, "cfg": cfg, "task_state": state}, tmp_path / "model.pt")
    start = "--finetune-from-model", tmp_path / "model.pt"
    for build, words in (
        (lambda: mbart_task(tmp_path, "de,en").load_state_dict(state), "was trained with en,de"),
        (lambda: mbart_task(tmp_path, "de,en", *start).build_model(None), "was trained with en,de"),
        (lambda: mbart_task(tmp_path, "en").build_model(None), r"--target-lang de: .* no \[de\]"),
    ):
        with pytest.raises(ValueError, match=words):
            build()


def batch(sentences=6):
    rows = builders.source_rows([7, 5, 7, 5, 7, 5][:sentences])
    sample = builders.batch(rows)
    sample["net_input"]["prev_output_tokens"] = sample["net_input"]["src_tokens"].flip(0)
    return sample


def forced(model):
    """Outputs of batches as in training; 5 is no multiple of the beam size."""
    return [model(**batch(sentences)["net_input"])[0].detach() for sentences in (6, 5)]


def outputs(made, model):
    found = made.generate([model], batch())
    return [[(beam["tokens"].tolist(), round(float(beam["score"]), 4)) for beam in sentence] for sentence in found]


def generator(models, beam, kind=SequenceGenerator):
    return kind(models, builders.dictionary(), beam_size=beam, max_len_b=8)


@pytest.mark.parametrize("kind", [SequenceGenerator, SequenceGeneratorWithAlignment])
@pytest.mark.parametrize("fails", [False, True])
def test_training_reads_its_batches_as_before(monkeypatch, fails, kind):
    models = [mbart(), mbart()]
    before = [one for model in models for one in forced(model)]
    made = generator(models, 3, kind)
    after_making = [one for model in models for one in forced(model)]
    with monkeypatch.context() as patch:
        if fails:
            patch.setattr(EnsembleModel, "forward_decoder", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                made.generate(models, batch())
        else:
            made.generate(models, batch())
    after_generating = [one for model in models for one in forced(model)]
    for found in (after_making, after_generating):
        assert all(torch.equal(one, other) for one, other in zip(before, found))


def test_generators_with_other_beam_sizes_do_not_disturb_each_other():
    alone = {beam: outputs(generator([model], beam), model) for beam in (1, 2, 3) for model in [mbart()]}
    model = mbart()
    made = {beam: generator([model], beam) for beam in (3, 1, 2)}
    for beam in (1, 3, 2, 1, 2, 3):
        assert outputs(made[beam], model) == alone[beam]
