"""Several processes: what a training on CPU does with the job that it joined."""

import torch.distributed as dist
from fairseq.dataclass.configs import FairseqConfig

from fairseq_plugins.compat import processes


def test_a_training_leaves_the_job_that_it_joined_and_no_other(tmp_path, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    cfg = FairseqConfig()
    cfg.common.cpu = True
    joined = []

    def stock(cfg, main):
        if not dist.is_initialized():
            dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
        joined.append(dist.is_initialized())
        return "result"

    assert processes.call_main(stock, cfg, None) == "result"
    assert joined == [True] and not dist.is_initialized()

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/other", rank=0, world_size=1)
    try:
        processes.call_main(stock, cfg, None)
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()
