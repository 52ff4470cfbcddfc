"""Test stock mBART: its task, its languages, and generators that do not disturb the model."""

import pytest
import torch
from fairseq import options, tasks
from fairseq.sequence_generator import (
    EnsembleModel,
    SequenceGenerator,
    SequenceGeneratorWithAlignment,
)

from tests import builders
from tests.gpt_builders import mbart


def mbart_task(folder, languages="en,de", more=""):
    line = f"{folder} --task translation_from_pretrained_bart -s en -t de --langs {languages}"
    words = f"{line} --arch mbart_base {more}".split()
    return tasks.setup_task(options.parse_args_and_arch(options.get_training_parser(), words))


def test_the_task_loads_data_and_compares_languages(tmp_path, monkeypatch):
    builders.write_pair(tmp_path, "valid", "en", "de")
    monkeypatch.setattr(tasks.translation.TranslationTask, "build_model", lambda *_, **__: "model")
    task = mbart_task(tmp_path)
    task.load_dataset("valid")
    assert len(task.dataset("valid")) and task.args is task.cfg
    task.args = "of a subclass"
    assert task.args == "of a subclass"
    assert task.build_model(None) == "model"
    state = task.state_dict()
    task.load_state_dict(state)
    task.load_state_dict({})
    stored_task = {"_name": "translation_from_pretrained_bart", "langs": "en,de"}
    cfg = {"model": {"_name": "mbart_base"}, "task": stored_task}
    file = tmp_path / "model.pt"
    torch.save({"model": {}, "args": None, "cfg": cfg, "task_state": state}, file)
    with pytest.raises(ValueError, match="was trained with en,de"):
        mbart_task(tmp_path, "de,en").load_state_dict(state)
    with pytest.raises(ValueError, match="was trained with en,de"):
        mbart_task(tmp_path, "de,en", f"--finetune-from-model {file}").build_model(None)
    with pytest.raises(ValueError, match=r"--target-lang de: .* no \[de\]"):
        mbart_task(tmp_path, "en").build_model(None)


def make_batch(sentences=6):
    sample = builders.batch(builders.source_rows([7, 5, 7, 5, 7, 5][:sentences]))
    sample["net_input"]["prev_output_tokens"] = sample["net_input"]["src_tokens"].flip(0)
    return sample


def training_outputs(models):
    """Return the outputs of training batches; 5 is no multiple of the beam size."""
    return [
        model(**make_batch(sentences)["net_input"])[0].detach()
        for model in models
        for sentences in (6, 5)
    ]


def make_generator(models, beam, kind=SequenceGenerator):
    return kind(models, builders.dictionary(), beam_size=beam, max_len_b=8)


def hypotheses(generator, model):
    return [
        [(beam["tokens"].tolist(), round(float(beam["score"]), 4)) for beam in sentence]
        for sentence in generator.generate([model], make_batch())
    ]


@pytest.mark.parametrize("kind", [SequenceGenerator, SequenceGeneratorWithAlignment])
@pytest.mark.parametrize("fails", [False, True])
def test_a_generator_does_not_change_training(monkeypatch, fails, kind):
    models = [mbart(), mbart()]
    before = training_outputs(models)
    generator = make_generator(models, 3, kind)
    after = [training_outputs(models)]
    if fails:
        monkeypatch.setattr(EnsembleModel, "forward_decoder", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            generator.generate(models, make_batch())
    else:
        generator.generate(models, make_batch())
    after.append(training_outputs(models))
    for outputs in after:
        assert all(map(torch.equal, outputs, before))


def test_generators_of_different_beam_sizes_do_not_disturb_each_other():
    expected = {}
    for beam in (1, 2, 3):
        model = mbart()
        expected[beam] = hypotheses(make_generator([model], beam), model)
    model = mbart()
    generators = {beam: make_generator([model], beam) for beam in (3, 1, 2)}
    for beam in (1, 3, 2, 1, 2, 3):
        assert hypotheses(generators[beam], model) == expected[beam]
