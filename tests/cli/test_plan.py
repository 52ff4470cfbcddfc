"""What a training needs of memory, from its command line."""

from .commands import last_line

SGA = "--task sga_translation -s en -t de --arch sga_tiny --criterion sga_ctc --optimizer adam --max-tokens 200"


def table(done):
    """Component -> its cells; what follows the table, by its first words."""
    lines = [line.split("  ") for line in done.stdout.splitlines() if "  " in line]
    return {cells[0]: [cell.strip() for cell in cells[1:] if cell.strip()] for cells in lines}


def test_a_plan_for_gpus_that_are_not_here(world, run_cli, user_dir, tmp_path):
    line = f"{world.data} --user-dir {user_dir} {SGA} --pretrained-mlm {world.masked_lm} --save-dir {tmp_path / 'run'}"
    found = table(run_cli("fairseq_plugins", "plan", *line.split(), "--fp16", "--devices", "4", cwd=tmp_path))
    assert found["component"] == ["trained", "frozen", "weights", "gradients", "optimizer", "activations"]
    trained, frozen, *_ = found["frozen"]
    assert trained == "0" and int(frozen.replace(",", "")) > world.pieces * 16
    assert found["encoder_prompts"][1] == "0" and found["all"][1] == frozen
    assert found["peak"][0].split(",")[1].startswith(" in the ")
    assert "of each: 0.0 for the exchange of gradients" in found["4 devices"][0]
    assert not list(tmp_path.iterdir())
    for more, expected in (("--amp", "--amp: is not planned"), ("--devices 0", "--devices must be at least 1; got 0")):
        done = run_cli("fairseq_plugins", "plan", *line.split(), *more.split(), check=False)
        assert expected in last_line(done)
