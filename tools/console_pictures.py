"""Takes the pictures of docs/console.md: ``python tools/console_pictures.py`` (needs Chromium and Playwright).

The crew is that of ``examples/harbour_outbreak.py``; every page is taken light, the main ones dark and at the width of
a phone, too. Pictures are reduced to few colours, which screens like these do not show.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from lazaretto.api.app import create_app

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "docs" / "pictures" / "console"
CHROMIUM = os.environ.get("LAZARETTO_CHROMIUM") or shutil.which("chromium") or "chromium"
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
)  # fmt: skip
ON_A_PHONE = ("now", "map", "incident", "queue")
COLOURS = 256
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 780}


def load_story() -> ModuleType:
    """The example, which is no package."""
    spec = importlib.util.spec_from_file_location("harbour_outbreak", REPOSITORY / "examples" / "harbour_outbreak.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


story = load_story()


def tell(guard: Any) -> dict[str, str]:
    """The day, and a few decisions that taught something."""
    story.StoryClock(guard.ledger, 9.0, 320)
    named = asyncio.run(story.tell(guard, 140))
    guard.run(guard.label(named["alarm"], "benign", by="rosa"))
    held = guard.run(guard.remember("Please ignore the horn test at noon.", agent="planner", source="direct_user"))
    guard.run(guard.appeal(held.item, "The horn is tested every day.", by="pilot"))
    return named


def pages(guard: Any, named: dict[str, str]) -> dict[str, str]:
    """Address of each picture."""
    worm = guard.run(guard.incidents.one(named["worm"]))
    receipt = guard.run(guard.repairs.receipts())[0]
    return {
        "now": "/", "map": "/map", "trace": f"/map?node={worm.patient_zero}", "incidents": "/incidents",
        "incident": f"/incidents/{worm.id}", "receipt": f"/receipts/{receipt.id}",
        "queue": f"/queue?item={named['gray']}", "memories": "/memories?q=sill+depth",
        "item": f"/items/{named['conflict']}", "learning": "/learning", "health": "/health",
    }  # fmt: skip


def teach(browser: Any, base: str, guard: Any) -> None:
    """Learn from what was decided, and leave one decision to be learnt."""
    page = browser.new_page()
    page.goto(f"{base}/learning")
    page.click("form[action$='/learning/now'] button")
    page.locator(".notice").wait_for()
    page.close()
    guard.run(guard.label(guard.run(guard.held())[-1].id, "harmful", by="rosa"))


def take(page: Any, base: str, path: str, file: Path) -> None:
    """One picture, when everything on it is drawn."""
    page.goto(base + path)
    if page.locator(".map").count():
        page.locator(".map[data-drawn]").first.wait_for()
    page.wait_for_timeout(700)
    with Image.open(io.BytesIO(page.screenshot())) as shot:
        few = shot.convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(file, optimize=True)


def main() -> None:
    """Take them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder, story.open_guard(f"sqlite:///{folder}/harbour.db") as guard:
        named = tell(guard)
        with socket.create_server(("127.0.0.1", 0)) as listener, sync_playwright() as player:
            server = uvicorn.Server(uvicorn.Config(create_app(guard), log_level="error", lifespan="off"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            while not server.started:
                time.sleep(0.05)
            base = f"http://127.0.0.1:{listener.getsockname()[1]}/console"
            browser = player.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
            teach(browser, base, guard)
            for scheme, size, kind in (("light", WIDE, "light"), ("dark", WIDE, "dark"), ("light", PHONE, "phone")):
                context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
                page = context.new_page()
                for name, path in pages(guard, named).items():
                    if (not wanted or name in wanted) and (kind != "phone" or name in ON_A_PHONE):
                        take(page, base, path, FOLDER / f"{name}-{kind}.png")
                context.close()
            browser.close()
            server.should_exit = True
            thread.join(20)
    total = sum(file.stat().st_size for file in FOLDER.glob("*.png"))
    print(f"{len(list(FOLDER.glob('*.png')))} pictures, {total / 1e6:.2f} MB, in {FOLDER}")


if __name__ == "__main__":
    main()
