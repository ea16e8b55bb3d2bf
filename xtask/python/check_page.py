r"""Checks the live page in a real browser: Debian's Chromium, driven by Playwright.

    python -m venv .venv && .venv/bin/pip install playwright
    .venv/bin/python xtask/python/check_page.py --pronk target/debug/pronk --chromium chromium --out target/page

Trains and sweeps, opens the page, and does what a reader does. Screenshots are left in `--out`. Exits with 1 and what
is wrong.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import page_faked
from page_browser import Program, chromium, end_on_signals, run
from page_reader import Reader, text_of, until, until_text

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "configs/cartpole.toml"
EVIL = "<img src=x onerror=\"document.title='owned'\">"
FAILURE = (
    f"environment 3 of rollout-1 ({EVIL}, incarnation 1) failed at step 17 of the episode with seed"
    " 8412345678901234567: state is NaN (to replay: reset with seed 8412345678901234567, then the 17 steps)"
)
ENDLESS = ["--set", "stop.episode_return_mean=none", "--set", "stop.env_steps=4000000000"]
EVALUATES = ["--set", "evaluation.every=100000 env-steps", "--set", "evaluation.episodes=2", "--set", "log.videos=true"]


RESULTS = "() => Number(document.querySelector('.head div:last-child dd')?.textContent.replaceAll(',', ''))"
NO_SIDEWAYS = "() => document.documentElement.scrollWidth <= innerWidth"


def check_growing(page):
    """A run that trains: everything moves, and nothing that the reader holds is lost."""
    until(page, "() => location.hash.startsWith('#/run/')")
    until(page, "() => document.querySelector('.title .state')?.textContent.includes('running')")
    until(page, f"() => ({RESULTS})() > 3")
    chart = page.locator(".chart .plot").first
    before, words = page.evaluate(RESULTS), chart.get_attribute("aria-label")
    bars = "() => [...document.querySelectorAll('.thread .bar span')].map((span) => span.style.flexGrow).join()"
    widths = page.evaluate(bars)
    page.locator(".slider input").focus()
    page.evaluate("scrollTo(0, 300)")
    until(page, f"(before) => ({RESULTS})() > before + 3", before)
    assert chart.get_attribute("aria-label") != words, "the curve grows"
    assert page.evaluate(bars) != widths, "the bars of the time ledger move"
    assert page.evaluate("document.activeElement.type") == "range", "the focus stays"
    assert page.evaluate("scrollY") == 300, "the page stays where it is scrolled to"

    picture = text_of_svg(page)
    for part in ["Workers", "Queue", "Learner", "Weights", "env-steps/s", "updates/s", "lag"]:
        assert part in picture, f"the pipeline says {part}: {picture}"
    assert page.locator(".pipeline .fill").count() == 1
    until(page, "() => document.querySelector('.sentence').textContent.length > 10")
    assert "Both ledgers close" in page.locator("main").inner_text()
    for state in ["learning", "stepping"]:
        assert state in text_of(page, ".legend"), f"{state} is in the time ledger"
    assert "trained once" in text_of(page, ".numbers")


def text_of_svg(page):
    return page.evaluate("() => document.querySelector('.pipeline').textContent")


def check_zoom(page):
    """What is zoomed in stays, until Escape."""
    plot = page.locator(".chart .plot .u-over").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.2 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], y, steps=5)
    shown = "() => (({ from, to }) => [Number(from), Number(to)])(document.querySelector('.chart .plot').dataset)"
    whole = page.evaluate(shown)
    page.mouse.up()
    page.mouse.move(5, 5)
    until(page, f"(end) => ({shown})()[1] < end", whole[1])
    before, zoomed = page.evaluate(RESULTS), page.evaluate(shown)
    until(page, f"(before) => ({RESULTS})() > before + 2", before)
    assert page.evaluate(shown) == zoomed, "the part that is zoomed in stays while the run goes on"
    page.locator(".chart .plot").first.focus()
    page.keyboard.press("Escape")
    until(page, f"(end) => ({shown})()[1] > end", whole[1])


def check_video(page):
    image = page.locator("img.video")
    image.wait_for(state="visible")
    until(page, "() => document.querySelector('img.video').naturalWidth > 0")
    assert "env-steps" in image.get_attribute("alt")


def check_copy(page):
    page.locator(".repeat .copy").click()
    until(page, "() => document.querySelector('.repeat .copy').textContent === 'Copied'")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command.startswith("pronk train ") and command.endswith("config.toml"), command


def check_killed(train, page, reader, watched):
    """A run that is killed is shown as killed, without a reload; its own page says that it is gone."""
    watched.locator("tr", has_text="live").locator("text=running").first.wait_for()
    with reader.expecting("net::ERR_"):
        train.kill()
        rows = "[...document.querySelectorAll('tr')].map((row) => row.textContent)"
        until(watched, f"() => {rows}.some((text) => text.includes('live') && text.includes('killed'))")
        until_text(page, ".connection.lost", "Connection lost, trying again: the server does not answer")
        reader.shot(page, "lost")
        page.close()


def check_comparison(page, reader):
    """Two runs, chosen with the keyboard alone, are laid over each other."""
    page.locator("input[type=search]").focus()
    page.keyboard.type("compared")
    until(page, "() => document.querySelectorAll('tbody tr').length === 4")
    boxes = page.locator("tbody input[type=checkbox]")
    for i in range(4):
        boxes.nth(i).focus()
        page.keyboard.press("Space")
    action = page.locator(".main-action")
    assert action.inner_text() == "Compare 4 runs"
    reader.shot(page, "list")
    action.focus()
    page.keyboard.press("Enter")
    page.locator(".chart .plot canvas").first.wait_for()
    lines = "() => [...document.querySelector('.lines').querySelectorAll('.name')].map((name) => name.textContent)"
    until(page, f"() => ({lines})().length === 2 && ({lines})().every((name) => name.includes('2 seeds'))")
    assert "learner.lr" in text_of(page, ".differences"), "the settings that differ"
    assert page.locator(".group-row").count() == 2, "medians in the table"
    reader.shot(page, "compare")
    page.locator(".choice input[value=single]").focus()
    page.keyboard.press("Space")
    until(page, f"() => ({lines})().length === 4")
    page.locator(".choice input[value=time]").check(force=True)
    until(page, "() => document.querySelector('.plot').getAttribute('aria-label').includes('wall time')")
    page.locator(".slider input").fill("0.8")
    until(page, "() => document.querySelector('.slider output').textContent === '0.80'")
    reader.shot(page, "compare-single")
    # With the keyboard, a chart reads its points.
    page.locator(".plot").first.focus()
    page.keyboard.press("ArrowRight")
    until(page, "() => document.querySelector('.chart figcaption span').textContent.startsWith('at ')")


def check_figures(page):
    """The median over seeds and the smoothing, against figures made by hand."""
    found = page.evaluate(
        """async () => {
            const { medianOf, smoothed } = await import('/assets/curves.js');
            const curve = (x, mean) => ({ x, curve: { x, mean } });
            const runs = [curve([0, 10, 20], [0, 10, 20]), curve([0, 20], [6, 6]), curve([0, 10], [9, 1])];
            const line = medianOf('', {}, runs);
            return { line, smooth: smoothed([1, 1, 4], 0.5) };
        }"""
    )
    line = found["line"]
    # Of three runs two reach 20, where the median is the mean of both.
    assert (line["x"], line["y"]) == ([0, 10, 20], [6, 6, 13]), line
    assert (line["lo"], line["hi"]) == ([0, 1, 6], [9, 10, 20]), line
    by_hand = [1, 1, (4 * 0.5 + 1 * 0.25 + 1 * 0.125) / 0.875]
    assert all(abs(a - b) < 1e-12 for a, b in zip(found["smooth"], by_hand)), found
    order = page.evaluate(
        """async () => {
            const { ranked } = await import('/assets/sweep.js');
            const rows = [[null, 9], [0, 8], [1, 5], [1, 6], [2, null]].map(([rung, value], trial) =>
                ({ rung, value, trial }));
            const order = (mode, rows) => ranked({ mode, rows }).map(({ trial }) => trial);
            return [order('max', rows), order('min', rows), order('max', rows.slice(0, 2))];
        }"""
    )
    assert order == [[3, 2, 1, 0, 4], [2, 3, 1, 0, 4], [0, 1]], f"the highest rung first, if there are any: {order}"
    said = page.evaluate(
        """async () => {
            const { traits } = await import('/assets/widgets.js');
            const names = ['appo-CartPole-v10-seed 10', 'CartPole-v1 · ppo'];
            return names.map((name) => traits({ name, env: 'CartPole-v1', algorithm: 'ppo', seed: 1 }).join());
        }"""
    )
    assert said == ["CartPole-v1,ppo,seed 1", "seed 1"], f"whatever a folder is called: {said}"


def check_sweep(page, reader):
    small = page.locator("tr.sweep", has_text="Sweep small")
    small.locator(".fold").click()
    page.locator("tr.trial").first.wait_for()
    small.locator("a").click()
    page.locator(".parallel .line").first.wait_for()
    rows = page.locator(".trials tbody tr")
    assert rows.count() == 4 and page.locator(".parallel .line").count() == 4
    texts = page.locator(".trials tbody tr td:nth-child(4)").all_inner_texts()
    values = [float(text.replace(",", "")) for text in texts]
    assert values == sorted(values, reverse=True), f"best first: {values}"
    rows.nth(1).locator("a").focus()
    until(page, "() => document.querySelectorAll('.parallel .chosen').length === 1")
    assert "Trial" in text_of(page, ".readout")
    page.evaluate("document.activeElement.blur()")
    box = page.locator(".parallel .strip").last.bounding_box()
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"])
    page.mouse.down()
    page.mouse.move(x, box["y"] + 0.25 * box["height"], steps=5)
    page.mouse.up()
    until(page, "() => document.querySelectorAll('.parallel .out').length > 0")
    visible = page.locator(".trials tbody tr:visible").count()
    assert 0 < visible < 4, f"the range leaves {visible} trials"
    reader.shot(page, "sweep")
    page.get_by_role("button", name="Clear ranges").click()
    until(page, "() => document.querySelectorAll('.parallel .out').length === 0")


def check_failures(page, reader):
    """A failure says worker, seed and step; hostile names are text."""
    page.locator("input[type=search]").fill("hostile")
    page.locator("tbody tr:not(.sweep) a").first.click()
    page.locator(".replay").first.wait_for()
    facts = page.locator(".fact").all_inner_texts()
    for fact in ["rollout-1 worker", "8412345678901234567 seed", "17 step"]:
        assert fact in facts, f"{fact} in {facts}"
    page.locator(".replay .copy").click()
    until(page, "() => document.querySelector('.replay .copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == "reset with seed 8412345678901234567, then the 17 steps"
    assert_is_text(page)
    reader.shot(page, "failures")
    others = page.locator(".tool select")
    others.select_option(index=1)
    page.locator(".panel", has_text="Difference to").locator("table, .none").first.wait_for()


def assert_is_text(page):
    """Names are shown as they are, and none has become an element or has run."""
    assert EVIL in page.locator("main").inner_text(), "the name is shown as it is"
    assert page.locator("img[src=x], [onerror]").count() == 0, "a name has become an element"
    assert "owned" not in page.title().replace(EVIL, ""), "a name has run"


def check_hostile(url, reader):
    """In every view."""
    page = reader.open(url + "#/")
    search = page.locator("input[type=search]")
    search.fill("hostile")
    page.locator("tr.sweep .fold").wait_for()
    assert_is_text(page)
    page.locator("tr.sweep a").click()
    page.locator(".parallel .line").first.wait_for()
    assert_is_text(page)
    assert EVIL in page.locator(".parallel title").all_text_contents()
    reader.shot(page, "hostile-sweep")
    page.locator(".brand").click()
    page.locator("tbody tr:not(.sweep) input").first.check()
    # Of runs with the same settings the names stand in the charts.
    search.fill("compared-0.001-s1")
    page.locator("tbody tr:not(.sweep) input").first.check()
    page.locator(".main-action").click()
    until_text(page, ".lines .name", EVIL)
    assert_is_text(page)
    page.close()


def check_access(page):
    """Landmarks, headings, and a focus that can be seen on everything that the Tab key reaches."""
    for landmark in ["h1", "main", "header.top"]:
        assert page.locator(landmark).count() == 1, landmark
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, a')].filter((one) => one.checkVisibility()
            && !(one.innerText || one.ariaLabel || one.labels?.[0]?.innerText)).map((one) => one.outerHTML)"""
    )
    assert not unnamed, f"without a name: {unnamed}"
    silent = page.evaluate(
        """() => [...document.querySelectorAll('.plot, .pipeline, .parallel')].filter((chart) => chart.checkVisibility()
            && !(chart.getAttribute('aria-label')?.length > 20)).map((chart) => chart.outerHTML.slice(0, 200))"""
    )
    assert not silent, f"charts without words: {silent}"
    page.reload()
    page.locator("main a, main button").first.wait_for()
    seen = set()
    for n in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate("""() => {
            const of = document.activeElement, shown = of.matches('.choice input') ? of.nextElementSibling : of;
            const { outlineStyle, outlineWidth } = getComputedStyle(shown);
            const isSeen = outlineStyle !== 'none' && parseFloat(outlineWidth) > 0;
            return [of.className + of.tagName + of.innerText + of.value, of === document.body, isSeen];
        }""")
        if n == 0:
            assert "skip" in focused[0], f"first the way to the content, not {focused}"
        if focused[1]:
            break
        assert focused[2], f"no visible focus on {focused[0]}"
        seen.add(focused[0])
    assert len(seen) > 5, seen


def check_narrow_and_dark(url, routes, reader):
    for name, route in routes.items():
        page = reader.open(url + route, 360, 740, color_scheme="dark")
        page.locator("main h1").wait_for()
        page.wait_for_timeout(1500)
        assert page.evaluate(NO_SIDEWAYS), f"{name} scrolls sideways on a phone"
        ground = page.evaluate(
            "() => getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
        )
        assert max(ground) < 60, f"{name} is not dark: {ground}"
        reader.shot(page, f"{name}-phone-dark")
        page.close()
    # Of the runs, this one alone is sure to have a video: the others may end while they still evaluate.
    page = reader.open(url, reduced_motion="reduce")
    page.locator("input[type=search]").fill("live")
    page.locator("tbody tr:not(.sweep) a", has_text="live").first.click()
    page.get_by_role("button", name="Play", exact=True).wait_for()
    assert not page.locator("img.video").is_visible(), "a video waits for its reader if motion is reduced"
    page.close()


def make_runs(pronk, folder):
    """What there is beside the run that is live: four runs to compare, a sweep, and a run with hostile names."""
    for lr in ["0.001", "0.0003"]:
        for seed in [1, 2]:
            limits = ["--set", "stop.episode_return_mean=none", "--set", "stop.env_steps=300000"]
            settings = ["--set", "learner.lr_schedule=none", "--set", f"learner.lr={lr}", *limits, *EVALUATES]
            run(pronk, ["train", CONFIG, "--seed", seed, *settings, "--out", f"runs/compared-{lr}-s{seed}"], folder)
    (folder / "sweep.toml").write_text(
        f"config = {json.dumps(str(CONFIG))}\nmetric = \"episode_return_mean\"\nmode = \"max\"\nsearch = \"grid\"\n"
        "seeds = [1]\n[parameters]\n\"stop.episode_return_mean\" = [\"none\"]\n\"stop.env_steps\" = [40000]\n"
        "\"learner.lr_schedule\" = [\"none\"]\n\"learner.lr\" = [0.0001, 0.001]\n"
        "\"model.fcnet_hiddens\" = [[64, 64], [16]]\n"
    )
    run(pronk, ["sweep", "sweep.toml", "--out", "sweeps/small", "--jobs", 1], folder)
    make_hostile(folder)


def make_hostile(folder):
    """A run and a sweep whose names, settings and texts are markup that would run a script."""
    hostile = folder / f"runs/hostile {EVIL}"
    shutil.copytree(folder / "runs/compared-0.001-s1", hostile)
    results = [json.loads(line) for line in (hostile / "results.jsonl").read_text().splitlines()]
    last = results[-1]
    last["workers"].update(failures_this_iter=1, newest_failures=[FAILURE])
    last["info"]["learner"][EVIL] = {"learner_stats": {EVIL: 1.0}}
    last["bottleneck"] = {**(last["bottleneck"] or {}), "sentence": EVIL}
    (hostile / "results.jsonl").write_text("".join(json.dumps(result) + "\n" for result in results))
    info = json.loads((hostile / "run.json").read_text())
    info["env"] = info["machine"]["host"] = info[EVIL] = EVIL
    (hostile / "run.json").write_text(json.dumps(info))
    sweep = folder / f"sweeps/hostile {EVIL}"
    shutil.copytree(folder / "sweeps/small", sweep)
    text = (sweep / "sweep.toml").read_text()
    (sweep / "sweep.toml").write_text(f"{text}{json.dumps(EVIL)} = {json.dumps([EVIL, 'other'])}\n")
    for n, path in enumerate(sorted(sweep.glob("*/trial.json"))):
        trial = json.loads(path.read_text())
        trial["parameters"][EVIL] = [EVIL, "other"][n % 2]
        path.write_text(json.dumps(trial))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["--pronk", "--chromium", "--out"]:
        arguments.add_argument(name, required=True)
    given = arguments.parse_args()
    pronk, out = pathlib.Path(given.pronk).resolve(), pathlib.Path(given.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    clipboard = {"permissions": ["clipboard-read", "clipboard-write"]}
    end_on_signals()
    with contextlib.ExitStack() as started:
        folder = pathlib.Path(started.enter_context(tempfile.TemporaryDirectory()))
        browser = started.enter_context(chromium(given.chromium, **clipboard))
        reader, done = Reader(browser, out), []

        def checked(check, *arguments):
            began = time.monotonic()
            check(*arguments)
            assert not reader.wrong, f"{check.__name__}: {reader.wrong}"
            done.append(check.__name__)
            print(f"  {check.__name__.removeprefix('check_')}: {time.monotonic() - began:.1f} s", flush=True)

        try:
            checked(make_runs, pronk, folder)
            live = ["--dashboard", "127.0.0.1:0", "--out", "runs/live"]
            train = started.enter_context(Program(pronk, ["train", CONFIG, *live, *ENDLESS, *EVALUATES], folder))
            watch = started.enter_context(Program(pronk, ["watch", "--address", "127.0.0.1:0"], folder))
            alone = reader.open(train.url)
            checked(check_growing, alone)
            checked(check_zoom, alone)
            checked(check_video, alone)
            checked(check_copy, alone)
            checked(check_access, alone)
            reader.shot(alone, "run")
            checked(page_faked.check_hidden, train.url, reader)
            watched = reader.open(watch.url)
            checked(check_killed, train, alone, reader, watched)
            checked(check_access, watched)
            checked(check_figures, watched)
            checked(check_comparison, watched, reader)
            routes = {"list": "#/", "compare": watched.evaluate("location.hash")}
            page = reader.open(watch.url)
            checked(check_sweep, page, reader)
            routes["sweep"] = page.evaluate("location.hash")
            page = reader.open(watch.url)
            checked(check_failures, page, reader)
            routes["run"] = page.evaluate("location.hash")
            checked(check_hostile, watch.url, reader)
            checked(page_faked.check_connection, watch.url, reader)
            checked(page_faked.check_looking, watch.url, reader)
            checked(page_faked.check_odd, watch.url, reader, routes["run"])
            checked(page_faked.check_gone_curves, watch.url, reader, routes["run"])
            checked(page_faked.check_many_evaluations, watch.url, reader, routes["run"])
            checked(page_faked.check_missing, watch.url, reader, routes["compare"])
            checked(page_faked.check_live_sweep, watch.url, reader, routes["sweep"])
            checked(check_narrow_and_dark, watch.url, routes, reader)
        except Exception as error:
            if reader.newest and not reader.newest.is_closed():
                reader.newest.screenshot(path=out / "failed.png", full_page=True)
            traceback.print_exc()
            print(f"the live page: {type(error).__name__}: {error}")
            print(f"after {done}; see {out}/failed.png; the browser says {reader.wrong}")
            return 1
    print(f"the live page: {len(done)} checks in Chromium passed; their pictures are in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
