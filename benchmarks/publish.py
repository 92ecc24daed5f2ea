"""What a run of the paper's experiments found, into the documentation.

    probgeo reproduce --out figures
    python benchmarks/publish.py figures   # without a folder: the page again, from old results

`docs/paper_results.json` is the source, `docs/paper.md` follows from it, and a test compares them.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from probgeo.paper.experiment import Claim
from probgeo.paper.report import MARKS, PAPER, Records, alt, in_order, kind_of_run, made_with, not_run, tally, total
from probgeo.paper.run import title_and_caption

ROOT = Path(__file__).parent.parent
RESULTS = Path("docs/paper_results.json")
PAGE = Path("docs/paper.md")
PICTURES = Path("docs/images/paper")


def publish(root: Path, out: Path) -> None:
    """Copy results and pictures of a run into a repository and write the page on them.

    Parameters
    ----------
    root : of the repository. Pictures in `docs/images/paper` that no longer belong there are
        deleted.
    out : the folder that `reproduce` wrote to.
    """
    source = out / "results.json"
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist; run `probgeo reproduce` into {out} first")
    records = _load(source)
    failed = [name for name, record in records.items() if "error" in record]
    if failed:
        raise ValueError(f"{failed[0]} ended in an error, run it again: {records[failed[0]]['error']}")
    page = paper_page(records)  # before anything is written: it may fail
    pictures = [file for record in records.values() for file in record["files"]]
    missing = [file for file in pictures if not (out / file).exists()]
    if missing:
        raise FileNotFoundError(f"{out / missing[0]} does not exist, but results.json names it")

    (root / PICTURES).mkdir(parents=True, exist_ok=True)
    for old in (root / PICTURES).iterdir():
        if old.suffix in (".png", ".gif") and old.name not in pictures:
            old.unlink()
    for file in pictures:
        shutil.copyfile(out / file, root / PICTURES / file)
    shutil.copyfile(source, root / RESULTS)
    _write(root, page)


def write_page(root: Path) -> None:
    """Write the page again, from results published before."""
    _write(root, paper_page(_load(root / RESULTS)))


def paper_page(records: Records) -> str:
    """`docs/paper.md`."""
    own = [claim for record in records.values() for claim in record.get("claims", [])]
    whole = [vars(question.answer(records)) for question in ABSTRACT]
    parts = [
        "# The paper, claim by claim",
        f"<!-- written by benchmarks/publish.py from {RESULTS.name}; do not edit -->",
        "What the abstract and Sec. 5 of the paper say, in our words, and what was measured here. "
        f"The paper is {_text(PAPER)}. All numbers are in [{RESULTS.name}]({RESULTS.name}). Slips "
        "of the paper are [on a page of their own](errata.md).",
        _run(records),
        "## The abstract",
        "Statements about the whole, answered from the numbers of the experiments below. That "
        "numerical uncertainty should be tracked through the pipeline is advice, and not judged.",
        _table(whole),
        "## The experiments",
        f"{tally(own)}.",
    ]
    for name in in_order(records):
        parts += _section(name, records)
    if missing := not_run(records):
        parts += ["### Not run", ", ".join(missing) + "."]
    return "\n\n".join(parts) + "\n"


def _write(root: Path, page: str) -> None:
    (root / PAGE).write_text(page, encoding="utf-8")


def _load(path: Path) -> Records:
    return json.loads(path.read_text(encoding="utf-8"))


# --- Markdown -----------------------------------------------------------------------------------


def _section(name: str, records: Records) -> list[str]:
    record = records[name]
    folder = PICTURES.relative_to(PAGE.parent).as_posix()
    return [
        f"### {_text(record['title'])}",
        *(f"![{_text(alt(record, file))}]({folder}/{file})" for file in record["files"]),
        *map(_text, title_and_caption(name)[1]),
        *([_table(record["claims"])] if record["claims"] else []),
    ]


def _run(records: Records) -> str:
    return f"{_text(kind_of_run(records))} {_text(made_with(records))}; total time: {total(records)}."


def _table(claims: Iterable[dict[str, str]]) -> str:
    rows = ["| the paper | measured here | verdict | why |", "| --- | --- | --- | --- |"]
    for claim in claims:
        verdict = f"{MARKS.get(claim['verdict'], '?')} {claim['verdict']}"
        cells = [claim["paper"], claim["measured"], verdict, claim.get("why", "")]
        rows.append("| " + " | ".join(map(_text, cells)) + " |")
    return "\n".join(rows)


def _text(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> _text("a|b <i> $x_1$ *")
    'a\\|b &lt;i&gt; \\$x_1\\$ \\*'
    """
    safe = re.sub(r"([\\|*`\[\]$~]|\b_|_\b)", r"\\\1", " ".join(text.split()))
    return escape(safe, quote=False)


# --- statements of the abstract which no single experiment owns ---------------------------------


@dataclass(frozen=True)
class Question:
    """A statement, the experiments that bear on it, and what their numbers say."""

    paper: str
    needs: tuple[str, ...]
    judge: Callable[[Records], tuple[str, str, str]]  # measured, verdict, why

    def answer(self, records: Records) -> Claim:
        missing = [name for name in self.needs if "numbers" not in records.get(name, {})]
        if missing:
            measured = f"needs {' and '.join(missing)}, not run"
            return Claim(self.paper, measured, "not tested")
        return Claim(self.paper, *self.judge(records))  # type: ignore[arg-type]


NOTICEABLE = 2.0  # times faster


def _posterior(records: Records) -> tuple[str, str, str]:
    numbers = records["fig1"]["numbers"]
    inside = [
        error <= 2 * std
        for solver, errors in numbers["largest_error"].items()
        for error, std in zip(errors, numbers["largest_std"][solver], strict=True)
    ]
    return (
        f"for {sum(inside)} of {len(inside)} curves of Fig. 1 the largest error is below twice the "
        "largest standard deviation",
        "agrees" if all(inside) else "partly" if any(inside) else "disagrees",
        "Figs. 1 to 5 solve boundary value problems; the principal geodesics of Figs. 3 and 6 are "
        "initial value problems.",
    )


def _less_sensitive(records: Records) -> tuple[str, str, str]:
    found = records["fig3"]["numbers"]["paper's"]
    apart = found["distance_of_means"]
    inside = apart <= 2 * found["mean_std_in_metric"]
    return (
        f"the mean by the paper's solver is {apart:.2g} from that of SciPy, and says of itself "
        f"that it has a numerical standard deviation of {found['mean_std_in_metric']:.2g}",
        "partly" if inside else "disagrees",
        "The error bar covers the error (two standard deviations), of which a point estimate would "
        "say nothing; it does not make the error smaller."
        if inside
        else "The error is more than two standard deviations.",
    )


def _new_algorithms(records: Records) -> tuple[str, str, str]:
    numbers = records["fig3"]["numbers"]
    verdicts = {claim["verdict"] for claim in records["fig3"]["claims"]}
    angles = " and ".join(f"{numbers[name]['angle_degrees']:.2g} ({name} solver)" for name in ("paper's", "default"))
    return (
        f"both work; the principal directions are {angles} degrees from that of the classical algorithm",
        verdicts.pop() if len(verdicts) == 1 else "partly",
        "",
    )


def _rough_and_fast(records: Records) -> tuple[str, str, str]:
    lengths, times = records["fig4"]["numbers"], records["fig5"]["numbers"]
    off = {name: lengths[name]["mean_relative_difference"] for name in ("paper's", "default")}
    ms = {name: times[name]["ms_in_batch"] for name in off}
    faster = times["scipy"]["ms"] >= NOTICEABLE * min(ms.values())
    trade = off["paper's"] > off["default"] and ms["paper's"] < ms["default"]
    told = ", ".join(
        f"the {name} solver {ms[name]:.2g} ms with lengths off by {off[name]:.1g} on average" for name in off
    )
    if trade:
        why = "The rougher of our two solvers is the faster one."
    elif off["paper's"] > off["default"]:
        why = "The rougher of our two solvers is not the faster one: speed has other reasons."
    else:
        why = "The paper's solver was not the rougher one here."
    return (
        f"a geodesic takes SciPy {times['scipy']['ms']:.2g} ms, in one batch {told}",
        "agrees" if faster and trade else "partly" if faster or trade else "disagrees",
        why,
    )


ABSTRACT = (
    Question(
        "The solver returns a joint Gaussian process posterior over the solutions of boundary and "
        "initial value problems.",
        ("fig1",),
        _posterior,
    ),
    Question(
        "Marginalising over numerical uncertainty makes statistics less sensitive to inaccuracies.",
        ("fig3",),
        _less_sensitive,
    ),
    Question("This leads to new algorithms for means and principal geodesics.", ("fig3",), _new_algorithms),
    Question("Results can be less precise, which enables a noticeable speed-up.", ("fig4", "fig5"), _rough_and_fast),
)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        publish(ROOT, Path(sys.argv[1]))
    else:
        write_page(ROOT)
