r"""Makes the pictures of the live page in the docs: trains, opens the page in Debian's Chromium, and takes them.

    python -m venv .venv && .venv/bin/pip install playwright pillow
    .venv/bin/python xtask/python/make_pictures.py --pronk target/debug/pronk --chromium chromium --docs docs

Writes `page.png` and `guide/pictures/{curves,ledger,pipeline}.png`.
"""

import argparse
import contextlib
import io
import pathlib
import sys
import tempfile

from PIL import Image

from page_browser import PATIENCE_S, Program, chromium, end_on_signals, run

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "configs/cartpole.toml"
MOST_BYTES = 150_000
EVALUATES = ["--set", "evaluation.every=250000 env-steps", "--set", "evaluation.episodes=5", "--set", "log.videos=true"]
STEADY = ["--set", "learner.lr_schedule=none"]


def save(picture, path):
    """With fewer colours only if it must be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    n_bytes = path.stat().st_size
    print(f"{path}: {image.width} × {image.height}, {n_bytes:,} bytes")
    if n_bytes > MOST_BYTES:
        raise SystemExit(f"{path} has {n_bytes:,} bytes, more than {MOST_BYTES:,}: take a smaller picture")


def answer_of(route, folder):
    """Answers with paths as a reader has them who trains in a folder of their own, not in a temporary one."""
    response = route.fetch()
    route.fulfill(response=response, body=response.text().replace(f"{folder}/", ""))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["--pronk", "--chromium", "--docs"]:
        arguments.add_argument(name, required=True)
    given = arguments.parse_args()
    pronk, docs = pathlib.Path(given.pronk).resolve(), pathlib.Path(given.docs).resolve()
    end_on_signals()
    with contextlib.ExitStack() as started:
        folder = pathlib.Path(started.enter_context(tempfile.TemporaryDirectory())).resolve()
        browser = started.enter_context(chromium(given.chromium))
        for lr in ["0.001", "0.0003"]:
            for seed in [1, 2, 3]:
                limits = ["--set", "stop.episode_return_mean=none", "--set", "stop.env_steps=3000000"]
                settings = [*STEADY, "--set", f"learner.lr={lr}", *limits]
                run(pronk, ["train", CONFIG, "--seed", seed, *settings, "--out", f"runs/lr-{lr}-s{seed}"], folder)
        endless = ["--set", "stop.episode_return_mean=none", "--set", "stop.env_steps=4000000000"]
        slowly = [*STEADY, "--set", "learner.lr=0.0004"]
        live = ["--dashboard", "127.0.0.1:0", "--seed", 1, "--out", "runs/cartpole", *slowly]
        train = started.enter_context(Program(pronk, ["train", CONFIG, *live, *endless, *EVALUATES], folder))
        watch = started.enter_context(Program(pronk, ["watch", "--address", "127.0.0.1:0"], folder))
        page = browser.new_page()
        page.set_viewport_size({"width": 1280, "height": 880})
        page.route("**/api/runs/*", lambda route: answer_of(route, folder))
        page.goto(train.url)
        # Long enough for a curve that is worth a look, and a video.
        steps = "Number(document.querySelectorAll('.head dd')[2]?.textContent.replaceAll(',', ''))"
        page.wait_for_function(f"() => {steps} > 2500000", timeout=1000 * PATIENCE_S)
        has_video = "() => document.querySelector('img.video')?.naturalWidth > 0"
        page.wait_for_function(has_video, timeout=1000 * PATIENCE_S)
        page.locator(".slider input").fill("0.6")
        page.evaluate("document.activeElement.blur()")
        page.wait_for_timeout(1000)
        save(page.screenshot(), docs / "page.png")
        # The head of the page would lie over what it is scrolled to.
        page.evaluate("document.querySelector('.top').style.position = 'static'")
        for name, heading in [("ledger", "Where the time went"), ("pipeline", "Pipeline")]:
            panel = page.locator(".panel", has=page.get_by_role("heading", name=heading, exact=True))
            save(panel.screenshot(), docs / f"guide/pictures/{name}.png")
        page = browser.new_page()
        page.set_viewport_size({"width": 900, "height": 800})
        page.goto(watch.url)
        page.locator("input[type=search]").fill("lr-")
        has_all = "() => document.querySelectorAll('tbody tr').length === 6"
        page.wait_for_function(has_all, timeout=1000 * PATIENCE_S)
        for box in page.locator("tbody input[type=checkbox]").all():
            box.check()
        page.locator(".main-action").click()
        page.locator(".plot canvas").first.wait_for()
        page.locator(".slider input").fill("0.6")
        page.evaluate("document.activeElement.blur()")
        page.wait_for_timeout(1000)
        save(page.locator(".panel").first.screenshot(), docs / "guide/pictures/curves.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
