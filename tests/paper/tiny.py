"""Experiments as small as they can be, through the same door as the command."""

import json

from probgeo.paper import reproduce


def outcome(name, folder):
    """The record of one experiment in a tiny setting, without an error."""
    reproduce([name], folder, tiny=True, progress=False)
    record = json.loads((folder / f"{name}.json").read_text())
    assert "error" not in record, record.get("traceback")
    for file in record["files"]:
        assert (folder / file).stat().st_size > 1000
        if file.endswith(".png"):
            assert (folder / file).with_suffix(".pdf").stat().st_size > 1000
    return record
