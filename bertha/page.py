"""Pages of plots and tables in one file each that needs nothing else: no other file, nothing from the net."""

import html
import os
from pathlib import Path

__all__ = ["COLOURS", "axis", "plot", "section", "table", "write_page"]

COLOURS = (
    "#3366cc",
    "#e69f00",
    "#109618",
    "#990099",
    "#0099c6",
    "#dd4477",
    "#8c6d31",
    "#66aa00",
    "#7f7f7f",
    "#b82e2e",
    "#17becf",
    "#bcbd22",
)
"""For what has no colour of its own, in order."""

_STYLE = """
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; color: #1c2733; margin: 0 auto;
  padding: 1.5rem 2rem 4rem; max-width: 1280px; background: #fff; }
h1 { font-size: 1.6rem; margin: 0 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .3rem; padding-top: .8rem; border-top: 1px solid #d9dfe5; }
p.note { color: #5a6876; margin: .2rem 0 .8rem; max-width: 62rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; color: #445261; border-bottom: 2px solid #c5ced6; }
td { text-align: right; border-bottom: 1px solid #e8ecf0; }
th, td { padding: .28rem .7rem; white-space: nowrap; }
th.text, td.text { text-align: left; }
td.wrap { white-space: normal; }
tbody tr:hover { background: #f4f7fa; }
tr.total td { font-weight: 600; border-top: 2px solid #c5ced6; }
"""


def axis(title) -> dict:
    """An axis of a plot, with its title."""
    return {"title": {"text": title}, "automargin": True}


def plot(figure, *, height) -> str:
    """A plotly figure, `height` pixels high and as wide as the page."""
    import plotly.io

    figure.update_layout(
        template="plotly_white",
        height=height,
        font={"family": "system-ui, 'DejaVu Sans', sans-serif", "size": 13},
        hoverlabel={"align": "left"},
    )
    return plotly.io.to_html(
        figure,
        include_plotlyjs=False,
        full_html=False,
        config={"displaylogo": False, "responsive": True, "scrollZoom": True},
    )


def table(columns, rows, *, text=(0,), wrap=(), total=False) -> str:
    """A table of plain texts.

    Parameters
    ----------
    columns : sequence of str
        Empty ones all: no head.
    rows : iterable of sequences of str
    text, wrap : sequence of int
        Columns whose cells begin at the left, and those of them that may take several lines; the others are numbers.
    total : bool
        Whether the last row is the sum of the others.
    """

    def cell(tag, number, content):
        classes = " ".join(["text"] * (number in text) + ["wrap"] * (number in wrap))
        return f'<{tag} class="{classes}">{html.escape(str(content))}</{tag}>'

    head = "".join(cell("th", number, name) for number, name in enumerate(columns))
    lines = ["".join(cell("td", number, content) for number, content in enumerate(row)) for row in rows]
    body = "".join(
        f"<tr{' class=total' if total and number == len(lines) - 1 else ''}>{line}</tr>"
        for number, line in enumerate(lines)
    )
    head = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def section(title, *contents, note="") -> str:
    """A part of a page: what `plot` and `table` returned, below a title and a note in plain text."""
    note = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return f"<section><h2>{html.escape(title)}</h2>{note}{''.join(contents)}</section>"


def write_page(path, *, title, contents) -> Path:
    """Writes a page, whole or not at all.

    Parameters
    ----------
    path : Path
    title : str
        Plain text.
    contents : sequence of str
        What `section`, `plot` and `table` returned.
    """
    from plotly.offline import get_plotlyjs

    path, title = Path(path), html.escape(title)
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w", encoding="utf-8") as file:
        file.write(
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
            f'<link rel="icon" href="data:,">\n'
            f"<style>{_STYLE}</style>\n<script>{get_plotlyjs()}</script></head>\n<body><h1>{title}</h1>\n"
        )
        file.writelines(f"{content}\n" for content in contents)
        file.write("</body></html>\n")
    os.replace(draft, path)
    return path
