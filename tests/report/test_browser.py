"""The page in a real browser: it fits a phone, follows the dark mode, and runs no script even if one slipped in. Needs Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from prefkit.report.html_report import write
from prefkit.runfolder import RunFolder

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
# Reports what the page looks like from inside, to the page that holds it in a frame.
PROBE = """<script>addEventListener("load", () => {
  const root = document.documentElement, style = getComputedStyle(document.body);
  const wide = [...document.querySelectorAll("main *")].filter(
    (e) => !e.closest(".scroll") && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.tagName);
  const small = [...document.querySelectorAll("svg text")].map((e) => e.getBoundingClientRect().height);
  const lost = [...document.querySelectorAll("svg text")].filter((e) => {
    const t = e.getBoundingClientRect(), s = e.ownerSVGElement.getBoundingClientRect();
    return t.width && (t.left < s.left - 1 || t.right > s.right + 1); }).map((e) => e.textContent);
  const rolled = [...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText);
  parent.postMessage(JSON.stringify({rolled, width: innerWidth, scroll: root.scrollWidth, wide, lost,
    text: Math.min(...small.filter((h) => h > 0)), back: style.backgroundColor, ink: style.color}), "*");
});</script></body>"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed, so the page was not looked at in a browser")


def chromium(page: Path, profile: Path, *flags: str) -> str:
    """Open a page and return the document that came of it."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--virtual-time-budget=3000", *flags, "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def seen(report: Path, folder: Path, width: int, *flags: str) -> dict[str, Any]:
    """What a reader with a window of this width sees. The window itself cannot be made this narrow, so the page stands in a frame."""
    probed = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", report.read_text("utf-8")).replace("</body>", PROBE)
    (folder / "probed.html").write_text(probed, encoding="utf-8")
    holder = folder / "holder.html"
    holder.write_text(
        f'<!doctype html><body style="margin:0"><iframe src="probed.html" width="{width}" height="800" style="border:0"></iframe>'
        '<pre id="seen"></pre><script>onmessage = (e) => { document.getElementById("seen").textContent = e.data; };</script>',
        encoding="utf-8",
    )
    found = re.search(r'<pre id="seen">(.+?)</pre>', chromium(holder, folder / "profile", "--window-size=1400,900", *flags))
    assert found, "the page did not load"
    return json.loads(html.unescape(found[1]))


@pytest.fixture(scope="module")
def report(demo_run: RunFolder) -> Path:
    return write(demo_run)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_a_phone_and_a_desk(report: Path, tmp_path: Path, width: int) -> None:
    found = seen(report, tmp_path, width)
    assert found["width"] == width
    assert found["scroll"] == width
    assert found["wide"] == []
    assert found["lost"] == []
    assert found["text"] > 9
    # A phone may roll a table in its own box; a desk need not.
    assert bool(found["rolled"]) == (width == 390)


def test_the_page_follows_the_dark_mode(report: Path, tmp_path: Path) -> None:
    light = seen(report, tmp_path, 800, "--blink-settings=preferredColorScheme=1")
    dark = seen(report, tmp_path, 800, "--blink-settings=preferredColorScheme=0")
    assert _brightness(light["back"]) > 200 > 100 > _brightness(light["ink"])
    assert _brightness(dark["back"]) < 60 < 200 < _brightness(dark["ink"])


def test_hostile_text_does_not_widen_the_page(tmp_path: Path, build_run: Any, hostile_answers: list[dict[str, Any]]) -> None:
    for row in hostile_answers:
        row["question"], row["database"] = "x" * 800, "d" * 200
    found = seen(write(build_run(answers=hostile_answers)), tmp_path, 390)
    assert found["scroll"] == 390
    assert found["wide"] == []


def test_a_script_that_slipped_in_would_not_run(report: Path, tmp_path: Path) -> None:
    attack = tmp_path / "attack.html"
    script = "<script>document.title = 'taken over'</script></body>"
    attack.write_text(report.read_text("utf-8").replace("</body>", script), encoding="utf-8")
    assert "<title>sql-gen: Training helped</title>" in chromium(attack, tmp_path / "profile")
    attack.write_text(re.sub(r"default-src 'none'", "default-src 'unsafe-inline'", attack.read_text("utf-8")), encoding="utf-8")
    assert "<title>taken over</title>" in chromium(attack, tmp_path / "profile")


def _brightness(colour: str) -> float:
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 3
