"""The page says what was measured, and nothing else."""

import copy
import re

import pytest
from report import calibrations, first, geodesics, page
from report.writing import factor, listed, table, verdict

FOUND = page.stored()


def test_the_page_in_the_docs_is_that_of_the_stored_results():
    assert FOUND
    assert page.PAGE.read_text() == page.page(FOUND)


def test_every_picture_on_the_page_exists():
    pictures = re.findall(r"\]\((images/[^)]+)\)", page.PAGE.read_text())
    assert pictures
    for picture in pictures:
        assert (page.PAGE.parent / picture).exists()


@pytest.mark.parametrize("name", sorted(FOUND))
def test_pictures_can_be_drawn_again(name, tmp_path):
    page.draw({name: FOUND[name]}, tmp_path)
    drawn = {file.name for file in tmp_path.iterdir()}
    assert drawn == {file.name for file in page.IMAGES.iterdir()} & drawn
    assert bool(drawn) == hasattr(page.SECTIONS[name], "PICTURE")


def test_a_library_that_cannot_be_run_is_named():
    found = copy.deepcopy({"geodesics": FOUND["geodesics"]})
    row = {"problem": "ones", "solver": "another", "broken": "ImportError: no such thing"}
    found["geodesics"]["result"]["rows"].append(row)
    assert "another could not be run: `ImportError: no such thing`" in page.page(found)


def test_a_slower_run_changes_the_verdict():
    """Verdicts follow the numbers: nothing of them is written down in advance."""
    found = copy.deepcopy({"geodesics": FOUND["geodesics"]})
    for row in found["geodesics"]["result"]["rows"]:
        if row["solver"] == "probgeo":
            row["time"] = 1e6
    assert "times faster than" not in page.page(found)


def test_other_machines_are_told_apart():
    found = copy.deepcopy(FOUND)
    next(iter(found.values()))["machine"] = "an abacus"
    assert re.search(r"^- .*: an abacus\.$", page.page(found), re.MULTILINE)


def test_verdicts_in_words():
    assert factor(3.0, "it") == "takes 3 times as long as it"
    assert factor(0.25, "it") == "is 4 times faster than it"
    text = verdict({"a": 2.0, "b": 8.0, "c": float("nan")}, "it")
    assert "takes 4 times as long as it" in text
    assert "2 to 8" in text
    assert "no comparison on c" in text
    assert "no problem on which both" in verdict({"a": float("nan")}, "it")


def test_judgements_of_error_bars():
    assert calibrations.judgement(0.95, 1.0) == "about right"
    assert calibrations.judgement(0.5, 30.0) == "too confident"
    assert calibrations.judgement(1.0, 0.01) == "too careful"
    assert "at some" in calibrations.judgement(0.95, 30.0)


def test_goals_are_met_or_missed():
    assert first.goal("it", 1.0, 2.0) == "It: 1 s, within the goal of 2 s."
    assert first.goal("it", 3.0, 2.0) == "It: 3 s, beyond the goal of 2 s."


def test_tables_and_lists():
    assert table(["a", "b"], [["x", 1]]) == "| a | b |\n| :--- | ---: |\n| x | 1 |"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a"]) == "a"


def test_data_sets_are_pooled_with_their_counts():
    row = {"solver": "s", "setting": 1e-3, "time": 1.0, "count": 10, "failures": 1, "false": 2}
    other = row | {"time": 4.0, "count": 20, "median_error": 1e-4}
    (found,) = geodesics.pooled([row | {"median_error": 1e-5}, other]).values()
    assert (found["time"], found["count"], found["failures"], found["false"]) == (3.0, 30, 2, 4)
    assert found["median_error"] == 1e-4
