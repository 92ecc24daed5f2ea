"""The report, the published page, and that they say what the records say."""

import html
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import publish as publishing
import pytest
from publish import paper_page, publish, write_page

from probgeo.paper import run
from probgeo.paper.experiment import Settings
from probgeo.paper.report import kind_of_run, write_report
from probgeo.paper.run import EXPERIMENTS
from tests.paper import synthetic

ROOT = Path(__file__).parent.parent.parent
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """What is in a page: elements, the text of each kind of element, and whether all are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((tuple(self.open), data))

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    def text(self, within="body"):
        return " ".join("".join(t for path, t in self.texts if within in path).split())


@pytest.fixture
def report(tmp_path):
    found = synthetic.records()
    synthetic.draw(tmp_path, found)
    (tmp_path / "fig1.pdf").write_bytes(b"%PDF")
    write_report(tmp_path, found)
    return tmp_path


@pytest.fixture
def page(report):
    return Page((report / "index.html").read_text(encoding="utf-8"))


class TestReport:
    def test_results_are_the_records_and_strict_json(self, report):
        def refuse(constant):
            raise AssertionError(constant)

        text = (report / "results.json").read_text(encoding="utf-8")
        found, expected = json.loads(text, parse_constant=refuse), synthetic.records()
        expected["fig1"]["numbers"]["not_a_number"] = None
        assert found == expected

    def test_all_figures_are_there_with_alternative_text(self, report, page):
        sources = [image["src"] for image in page.all("img")]
        assert sorted(sources) == ["fig1.png", "fig1_animated.gif", "fig3.png"]
        assert all((report / source).exists() for source in sources)
        alts = [image["alt"] for image in page.all("img")]
        assert all(alts)
        assert len(set(alts)) == len(alts)

    def test_a_pdf_is_linked_where_there_is_one(self, page):
        links = [link["href"] for link in page.all("a") if link["href"].endswith(".pdf")]
        assert links == ["fig1.pdf"]

    def test_nothing_comes_from_the_network_and_nothing_is_a_script(self, page):
        assert not {tag for tag, _ in page.elements} & {"script", "link", "iframe"}
        places = [a.get("src") or a.get("href") for _, a in page.elements]
        assert not [p for p in places if p and re.match(r"\w+:|//", p)]

    def test_links_within_the_page_lead_somewhere(self, page):
        ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
        assert len(set(ids)) == len(ids)
        inner = {link["href"][1:] for link in page.all("a") if link["href"].startswith("#")}
        assert inner <= set(ids)

    def test_all_claims_are_in_the_table(self, page):
        cells = page.text("tbody")
        for record in synthetic.records().values():
            for claim in record["claims"]:
                assert all(claim[key] in cells for key in claim)
        assert "✓ agrees" in cells
        assert "4 claims: 1 agrees, 1 partly, 1 disagrees, 1 not tested" in page.text()

    def test_everything_is_escaped(self, report):
        text = (report / "index.html").read_text(encoding="utf-8")
        assert "<script" not in text
        assert "&lt;script&gt;" in text

    def test_experiments_stand_in_the_order_of_the_paper(self, page):
        sections = [section["id"] for section in page.all("section")]
        assert sections == ["fig1", "fig2", "fig3"]

    def test_an_error_is_shown(self, page):
        assert "ended in an error. ValueError: no such <thing>" in page.text()
        assert "Traceback: <module>" in page.text("pre")

    def test_what_is_missing_is_said_before_the_claims(self, page):
        assert "Ended in an error: Fig. 2." in page.text("header")
        assert "Not run: fig4, fig5, fig3-right, fig6 and errata." in page.text("header")

    def test_what_was_not_run_can_be_copied(self, page):
        missing = [name for name in EXPERIMENTS if name not in synthetic.records()]
        assert page.text("code") == f"probgeo reproduce {' '.join(missing)}"

    def test_a_quick_run_says_so(self, page):
        assert "This was a quick run. A quick run uses fewer points" in page.text("header")

    def test_a_full_run_says_so_too_and_a_mixed_one_which(self):
        found = synthetic.records()
        found["fig1"]["quick"] = found["fig2"]["quick"] = False
        assert kind_of_run(found).startswith("Quick runs: fig3.")
        found["fig3"]["quick"] = False
        assert kind_of_run(found) == "This was a full run."

    def test_time_machine_and_captions(self, page):
        assert "Total time: 5 min 0 s" in page.text("header")
        assert "x86_64, Python 3.11.7" in page.text("header")
        assert "Grey: points whose distribution makes a Riemannian manifold." in page.text("section")

    def test_all_numbers_are_listed(self, report):
        text = (report / "index.html").read_text(encoding="utf-8")
        listed = re.findall("<summary>All numbers</summary>\n<pre>(.*?)</pre>", text, re.S)
        numbers = synthetic.records()["fig3"]["numbers"]
        assert json.loads(html.unescape(listed[1])) == numbers

    def test_nothing_run_is_a_page_as_well(self, tmp_path):
        write_report(tmp_path, {})
        page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
        assert "No experiment has measured a claim yet." in page.text()
        assert page.all("img") == []


@pytest.fixture
def out(tmp_path):
    found = synthetic.without_errors()
    synthetic.draw(tmp_path / "out", found)
    write_report(tmp_path / "out", found)
    return tmp_path / "out"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root/docs").mkdir(parents=True)
    (tmp_path / "root/README.md").write_text("# By hand\n")
    return tmp_path / "root"


def files_of(root):
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


class TestPublish:
    def test_results_pictures_and_page_but_not_the_readme(self, root, out):
        publish(root, out)
        files = files_of(root)
        assert files[publishing.RESULTS] == (out / "results.json").read_bytes()
        for file in ("fig1.png", "fig1_animated.gif", "fig3.png"):
            assert files[publishing.PICTURES / file] == (out / file).read_bytes()
        page = (root / publishing.PAGE).read_text(encoding="utf-8")
        assert "| Means agree. | measured | ✓ agrees |" in page
        assert files[Path("README.md")] == b"# By hand\n"

    def test_links_lead_somewhere(self, root, out):
        (root / "docs/errata.md").touch()
        publish(root, out)
        page = root / publishing.PAGE
        targets = re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        assert targets
        assert [t for t in targets if not (page.parent / t).exists()] == []

    def test_twice_is_once(self, root, out):
        publish(root, out)
        once = files_of(root)
        publish(root, out)
        assert files_of(root) == once
        write_page(root)
        assert files_of(root) == once

    def test_pictures_of_an_earlier_run_go(self, root, out):
        publish(root, out)
        (root / publishing.PICTURES / "fig0.png").touch()
        publish(root, out)
        assert not (root / publishing.PICTURES / "fig0.png").exists()

    def test_an_experiment_that_failed_is_not_published(self, root, tmp_path):
        write_report(tmp_path, synthetic.records())
        with pytest.raises(ValueError, match="fig2 ended in an error"):
            publish(root, tmp_path)

    def test_a_folder_without_results_is_an_error(self, root, tmp_path):
        with pytest.raises(FileNotFoundError, match="probgeo reproduce"):
            publish(root, tmp_path / "nowhere")

    def test_a_missing_picture_is_an_error_and_nothing_is_written(self, root, out):
        (out / "fig1.png").unlink()
        before = files_of(root)
        with pytest.raises(FileNotFoundError, match=r"fig1\.png"):
            publish(root, out)
        assert files_of(root) == before


class TestPage:
    def test_claims_do_not_break_the_tables(self):
        text = paper_page(synthetic.without_errors())
        assert "<script" not in text
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}

    def test_the_order_of_the_records_does_not_matter(self):
        found = synthetic.without_errors()
        again = dict(reversed(found.items()))
        assert paper_page(found) == paper_page(again)

    def test_statements_of_the_abstract_are_answered_from_the_numbers(self):
        answers = {q.paper: q.answer(synthetic.without_errors()) for q in publishing.ABSTRACT}
        posterior, sensitive, algorithms, fast = answers.values()
        assert posterior.verdict == "partly"
        assert "3 of 4 curves" in posterior.measured
        assert sensitive.verdict == "disagrees"  # 0.12 apart, standard deviation 0.022
        assert "is 0.12 from that of SciPy" in sensitive.measured
        assert algorithms.verdict == "partly"
        assert fast.verdict == "not tested"
        assert "needs fig4 and fig5, not run" in fast.measured

    @pytest.mark.parametrize(
        ("paper_ms", "scipy_ms", "verdict"),
        [(0.5, 4.5, "agrees"), (5.0, 4.5, "partly"), (0.5, 0.6, "partly"), (5.0, 1.5, "disagrees")],
    )
    def test_speed_must_come_from_roughness(self, paper_ms, scipy_ms, verdict):
        lengths = {"paper's": 1e-2, "default": 1e-6}
        found = {
            "fig4": {"numbers": {k: {"mean_relative_difference": v} for k, v in lengths.items()}},
            "fig5": {
                "numbers": {
                    "paper's": {"ms_in_batch": paper_ms},
                    "default": {"ms_in_batch": 1.0},
                    "scipy": {"ms": scipy_ms},
                }
            },
        }
        (question,) = [q for q in publishing.ABSTRACT if "speed-up" in q.paper]
        assert question.answer(found).verdict == verdict

    def test_what_was_not_run_is_listed(self):
        assert "### Not run" in paper_page(synthetic.without_errors())


def test_the_published_page_follows_from_its_results():
    records = json.loads((ROOT / publishing.RESULTS).read_text(encoding="utf-8"))
    again = "it does not follow from docs/paper_results.json: run python benchmarks/publish.py"
    assert (ROOT / publishing.PAGE).read_text(encoding="utf-8") == paper_page(records), again
    for file in (file for record in records.values() for file in record["files"]):
        assert (ROOT / publishing.PICTURES / file).exists()


class Deadly(Settings):
    """Settings whose first use ends the process, as the system does when memory runs out."""

    def choose(self, full, quick, tiny=None):
        os._exit(9)


def test_a_process_that_is_killed_costs_only_what_it_was_at(tmp_path):
    settings = Deadly(quick=True, seed=0, tiny=True)
    run._write(tmp_path, "fig1", settings, {"numbers": {}})
    long_ago = 1e9
    os.utime(tmp_path / "fig1.json", (long_ago, long_ago))
    run._in_a_process((tmp_path, settings, {"fig4": "", "errata": ""}))
    records = run.records_in(tmp_path)
    assert "error" not in records["fig1"]
    for name in ("fig4", "errata"):
        assert records[name]["error"] == "its process ended with 9"
        assert records[name]["seed"] == 0
