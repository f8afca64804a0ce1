"""What a page is made of: sections with tables and figures; how it becomes Markdown and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@dataclass(frozen=True)
class Table:
    """Cells as text below a head; `words` are the left-aligned columns, all others hold numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: frozenset[str]

    def aligned(self) -> list[tuple[str, bool]]:
        """(column, whether it holds numbers)."""
        return [(name, name not in self.words) for name in self.head]


@dataclass(frozen=True)
class Figure:
    """A plot: `file` beside the page, `alt` in words, and the numbers that it draws and carries."""

    file: str
    alt: str
    kind: str  # 'bars', 'ratios' or 'roofline'
    data: Any


@dataclass(frozen=True)
class Section:
    """One heading with what stands below it, in this order: notes, table, figure, code."""

    title: str
    notes: Sequence[str] = ()
    table: Table | None = None
    figure: Figure | None = None
    code: str = ""
    level: int = 2


@dataclass(frozen=True)
class Page:
    """A whole report. The same page always renders to the same bytes: it holds no time of its own."""

    title: str
    notes: Sequence[str] = ()
    sections: Sequence[Section] = field(default_factory=tuple)

    @property
    def figures(self) -> list[Figure]:
        return [section.figure for section in self.sections if section.figure]


def render_markdown(page: Page) -> str:
    """The page as Markdown with pipe tables."""
    return _render("report.md.j2", page, autoescape=False)


def render_html(page: Page) -> str:
    """The page as one HTML file; only its plots lie beside it."""
    return _render("report.html.j2", page, autoescape=True)


def _render(template: str, page: Page, autoescape: bool) -> str:
    environment = Environment(
        loader=PackageLoader("tilewright_reports"),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = _markdown_cell
    return environment.get_template(template).render(page=page)


def _markdown_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
