"""Opens a page in headless Chromium and says what is wrong with it."""

import html
import json
import os
import re
import shutil
import subprocess

import pytest

__all__ = ["opened"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 300

# Before anything else of the page, so that no error is missed.
_LISTEN = """<script>
window.problems = [];
window.addEventListener('error', e => window.problems.push(e.message || 'not loaded: ' + (e.target.src || e.target.href)), true);
window.addEventListener('unhandledrejection', e => window.problems.push(String(e.reason)));
for (const name of ['error', 'warn']) {
  const old = console[name];
  console[name] = (...what) => { window.problems.push(what.map(String).join(' ')); old.apply(console, what); };
}
</script>"""

# What each plot shows: its axes' titles, and the marks of its traces that have an area or a length.
_REPORT = """<script>
window.addEventListener('load', () => setTimeout(() => {
  const seen = element => { const box = element.getBoundingClientRect(); return box.width + box.height > 1; };
  const marks = '.points path, .point path, .point, .js-line, .js-fill';
  const plots = [...document.querySelectorAll('.plotly-graph-div')].map(plot => ({
    traces: (plot._fullData || []).filter(trace => trace.visible === true).length,
    marks: [...plot.querySelectorAll(marks)].filter(mark => seen(mark) && !mark.closest('.legend')).length,
    titles: [...plot.querySelectorAll('.infolayer g[class$=title] text')].map(text => text.textContent),
  }));
  const tables = [...document.querySelectorAll('table')].map(table => table.rows.length);
  const loaded = performance.getEntriesByType('resource').map(entry => entry.name).filter(name => !name.startsWith('data:'));
  const found = document.createElement('pre');
  found.id = 'found';
  found.textContent = JSON.stringify({problems: window.problems, plots, tables, loaded});
  document.body.append(found);
}, 500));
</script>"""


def _chromium():
    found = next((path for path in map(shutil.which, _NAMES) if path), None)
    if found is None:
        reason = "Chromium is missing (Debian: apt-get install chromium), which opens the pages"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def opened(page, folder) -> dict:
    """What a browser finds in a page.

    Parameters
    ----------
    page : Path
    folder : Path
        For a copy of the page, and the browser's profile.

    Returns
    -------
    dict
        `problems`: script errors and warnings. `plots`: of each the visible `traces`, the `marks` that are to be seen
        and the axes' `titles`. `tables`: rows of each. `loaded`: what was fetched beside the page.
    """
    chromium = _chromium()
    text = page.read_text(encoding="utf-8")
    assert text.count("<head>") == 1 and text.count("</body></html>") == 1
    copy = folder / "opened.html"
    watched = text.replace("<head>", f"<head>{_LISTEN}").replace("</body></html>", f"{_REPORT}</body></html>")
    copy.write_text(watched, encoding="utf-8")
    command = [
        chromium,
        "--headless",
        "--no-sandbox",  # root has none, and the page is our own
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,900",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        copy.as_uri(),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    found = re.search(r'<pre id="found">(.*?)</pre>', result.stdout, re.DOTALL)
    assert found, f"Chromium ended with {result.returncode} and without the page: {result.stderr[-2000:]}"
    return json.loads(html.unescape(found[1]))
