"""Test the load of the service at small size: every answer is the expected one."""

import argparse

from benchmarks import service_load
from tests.runtime.folders import write_folder


def test_no_answer_is_lost_or_wrong(tmp_path):
    text = tmp_path / "text.de"
    text.write_text("eins drei\nzwei\ndrei zwei eins\n", encoding="utf-8")
    model = str(write_folder(tmp_path / "model"))
    options = argparse.Namespace(model=model, text=str(text), requests=90, seed=1)
    rows = service_load.measure(options)
    assert [row["phase"] for row in rows] == list(service_load.PHASES)
    for row in rows:
        assert (row["answered"], row["wrong_kinds"]) == (90, [])
        assert row["translated"] + sum(row["refused"].values()) == 90
    assert {"400", "404", "413"} == {status for row in rows for status in row["refused"]}
    assert "| kill -9 and restart | 90 |" in service_load.render({"results": rows})
