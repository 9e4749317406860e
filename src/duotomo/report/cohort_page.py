"""`cohort.html`: all cases of a cohort on one page, in any browser, without a network."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from duotomo.change.change import RESEARCH
from duotomo.cohort import Row, read_table
from duotomo.cohort.folder import CSV, PAGE, PARQUET
from duotomo.cohort.table import DONE, STATUSES
from duotomo.cohort.thumbnail import draw_thumbnail, thumbnail_of
from duotomo.io.durable import durable
from duotomo.io.paths import AnyPath
from duotomo.io.result_format import PAGE as CASE_PAGE
from duotomo.report.cohort_charts import histogram_svg
from duotomo.report.offline import offline_html

MOST_THUMBNAILS = 2000
"""On one page: some 60 MB. The others are behind their links."""

_MOST_BYTES = 1_000_000
_SCRIPT, _STYLE = "cohort_table.js", "cohort_table.css"


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A column of the table. text, value: of a row, to show and to sort by."""

    title: str
    name: str
    digits: int | None = None

    @property
    def is_number(self) -> bool:
        return self.digits is not None

    def text(self, row: Row) -> str:
        value = getattr(row, self.name)
        if value is None:
            return ""
        return f"{value:.{self.digits}f}" if self.is_number else str(value)

    def value(self, row: Row) -> str:
        value = getattr(row, self.name)
        return "" if value is None else str(value)


COLUMNS = (
    _Column(title="Case", name="case"),
    _Column(title="Status", name="status"),
    _Column(title="TRE in plane (mm)", name="tre_in_plane_mm", digits=2),
    _Column(title="TRE in depth (mm)", name="tre_in_depth_mm", digits=2),
    _Column(title="Moved, mean (mm)", name="mean_displacement_mm", digits=1),
    _Column(title="New", name="new", digits=0),
    _Column(title="Gone", name="gone", digits=0),
    _Column(title="Time (s)", name="wall_s", digits=0),
    _Column(title="Model", name="model"),
    _Column(title="Why", name="reason"),
)

CHARTS = (
    ("Expected TRE in plane (mm)", "tre_in_plane_mm"),
    ("Expected TRE in depth (mm)", "tre_in_depth_mm"),
    ("Mean motion (mm)", "mean_displacement_mm"),
    ("Time (s)", "wall_s"),
    ("New findings", "new"),
)


def write_cohort_page(folder: AnyPath) -> Path:
    """Write `cohort.html`, which shows the cohort in a folder.

    The page reads the folders of the cases alone, holds all it needs but their own pages, to which it links,
    and forbids the browser to fetch anything. It can be written again at any time.

    Parameters
    ----------
    folder : str or path
        That `duotomo.cohort.cohort` wrote to.

    Returns
    -------
    Path
        Of the page.

    Raises
    ------
    FileError
        If there is no cohort in the folder, or the page cannot be written.
    """
    folder = Path(folder)
    text = cohort_html(read_table(folder), folder)
    with durable("write_cohort_page", folder / PAGE) as fresh:
        fresh.write_text(text, encoding="utf-8")
    return folder / PAGE


def cohort_html(rows: Sequence[Row], folder: Path) -> str:
    """Return the page of rows. folder: in which their pictures and pages are."""
    script, style = (_part(name) for name in (_SCRIPT, _STYLE))
    body = f"""<header>{_head(rows, folder)}</header>
<main>
{_failures(rows)}{_charts(rows)}
<h2>Cases</h2>
{_tools(rows)}
{_table(rows, folder)}
</main>
<footer>{escape(RESEARCH)}</footer>
"""
    return offline_html(title=f"duotomo: {len(rows)} cases", style=style, script=script, body=body)


def _part(name: str) -> str:
    return (files("duotomo.report") / name).read_text(encoding="utf-8")


def _css(status: str) -> str:
    return status.replace(" ", "-")


def _head(rows: Sequence[Row], folder: Path) -> str:
    counts = Counter(row.status for row in rows)
    listed = "".join(
        f'<li><b>{counts[status]}</b><span class="status {_css(status)}">{status}</span></li>'
        for status in STATUSES
        if counts[status]
    )
    tables = " and ".join(
        f'<a href="{name}" download>{name}</a>'
        for name in (CSV, PARQUET)
        if name == CSV or (folder / name).exists()
    )
    cases = "1 case" if len(rows) == 1 else f"{len(rows)} cases"
    return (
        f'<h1>Breast tomosynthesis, {cases}</h1><p class="soft">TRE: how far a registered point is expected '
        f"to be off, the median over the breast. All rows: {tables}. For research; not a medical device.</p>"
        f'<ul class="counts">{listed}</ul>'
    )


def _failures(rows: Sequence[Row]) -> str:
    """Return what failed and why: one line for each reason."""
    reasons: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.status == "failed":
            # The place in the manifest differs from case to case.
            reasons[row.reason.removeprefix(f"{row.where}: ")].append(row)
    if not reasons:
        return ""
    lines = "".join(
        f"<li><b>{escape(', '.join(row.case for row in some))}</b>{_place(some)}: {escape(reason)}</li>"
        for reason, some in reasons.items()
    )
    return f'<section><h2>What failed, and why</h2><ul class="reasons">{lines}</ul></section>'


def _place(rows: Sequence[Row]) -> str:
    where = rows[0].where
    return (
        f" ({escape(where)})"
        if len(rows) == 1 and where and not rows[0].reason.startswith(f"{where},")
        else ""
    )


def _charts(rows: Sequence[Row]) -> str:
    shown = []
    for title, name in CHARTS:
        values = [float(value) for row in rows if (value := getattr(row, name)) is not None and row.folder]
        chart = histogram_svg(title, values)
        if chart:
            shown.append(f"<figure><figcaption>{escape(title)}</figcaption>{chart}</figure>")
    return (
        f'<section><h2>Distributions</h2><div class="charts">{"".join(shown)}</div></section>'
        if shown
        else ""
    )


def _tools(rows: Sequence[Row]) -> str:
    statuses = [status for status in STATUSES if any(row.status == status for row in rows)]
    options = "".join(f"<option>{status}</option>" for status in statuses)
    ways = "".join(
        f'<option value="{number} {way}">{escape(column.title)}, {said}</option>'
        for number, column in enumerate(COLUMNS, start=1)
        for way, said in (("up", "rising"), ("down", "falling"))
    )
    return (
        '<div id="tools" hidden><label>Search <input id="words" type="search"></label>'
        f'<label>Status <select id="status"><option value="">all</option>{options}</select></label>'
        f'<label class="sort">Sort <select id="sort"><option value=""></option>{ways}</select></label>'
        '<span id="shown" role="status"></span></div>'
    )


def _table(rows: Sequence[Row], folder: Path) -> str:
    heads = "".join(
        f'<th scope="col" class="{"number" if column.is_number else "text"}" '
        f'data-kind="{"number" if column.is_number else "text"}">'
        f'<button type="button">{escape(column.title)}</button></th>'
        for column in COLUMNS
    )
    body = "".join(_row(row, folder, number < MOST_THUMBNAILS) for number, row in enumerate(rows))
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Table of cases"><table id="cases">'
        "<thead><tr>"
        f'<th scope="col">Picture</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _row(row: Row, folder: Path, with_picture: bool) -> str:
    picture = _thumbnail(folder, row) if row.folder and with_picture else ""
    image = f'<img alt="Middle slice of {escape(row.case)}" src="{picture}">' if picture else ""
    cells = "".join(_cells(row, folder))
    return (
        f'<tr data-status="{escape(row.status)}"><td class="picture" data-label="">{image}</td>{cells}</tr>\n'
    )


def _cells(row: Row, folder: Path) -> Iterator[str]:
    for column in COLUMNS:
        shown = escape(column.text(row))
        kind = "number" if column.is_number else "text"
        if column.name == "case":
            page = f"{row.folder}/{CASE_PAGE}"
            shown = (
                f'<a href="{escape(page)}">{shown}</a>' if row.folder and (folder / page).exists() else shown
            )
        elif column.name == "status":
            shown = f'<span class="status {_css(row.status)}">{shown}</span>'
        elif column.name == "reason":
            # How a method ended well is on the case's own page.
            why = "" if row.status == DONE else row.reason
            kind, shown = "why", escape(" ".join(part for part in (row.differ.upper(), why) if part))
        value, label = escape(column.value(row)), escape(column.title)
        yield f'<td class="{kind}" data-label="{label}" data-value="{value}">{shown}</td>'


def _thumbnail(folder: Path, row: Row) -> str:
    """Return the picture of a case as a `data:` address; "" where there is none."""
    path = thumbnail_of(folder, row.case)
    if not path.is_file() and not draw_thumbnail(folder / row.folder, path):
        return ""
    data = path.read_bytes()
    return f"data:image/png;base64,{b64encode(data).decode()}" if len(data) <= _MOST_BYTES else ""
