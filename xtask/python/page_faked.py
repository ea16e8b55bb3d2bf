"""Checks of the live page with answers and connections that are not as a server's usually are."""

import contextlib

from page_reader import text_of, until, until_text

LIST = "**/api/runs"
# Counts the connections for events, and lets a check hide the page.
COUNTED = """
    window.sources = [];
    const Counted = class extends EventSource {
        constructor(...given) { super(...given); sources.push(this); }
    };
    window.EventSource = Counted;
    let isHidden = false;
    Object.defineProperty(document, 'hidden', { get: () => isHidden });
    window.hide = (value) => {
        isHidden = value;
        document.dispatchEvent(new Event('visibilitychange'));
    };
"""
OPEN_SOURCES = "() => sources.filter((source) => source.readyState !== EventSource.CLOSED).length"


@contextlib.contextmanager
def faked(page, path, change):
    """Until the end of a `with`, answers at this path come as `change(answer)` leaves them."""

    def answer(route):
        response = route.fetch()
        body = response.json()
        change(body)
        route.fulfill(response=response, json=body)

    page.route(path, answer)
    yield
    page.unroute_all(behavior="wait")


def refresh(page):
    """Has the page ask for its runs anew, as it does when its tab is seen again."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def check_hidden(url, reader):
    """A page that cannot be seen has no connection, and asks for nothing."""
    page = reader.open(url, script=COUNTED)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    until_text(page, ".connection", "Live")
    until(page, "() => document.querySelectorAll('.chart canvas').length > 0")
    page.evaluate("hide(true)")
    assert page.evaluate(OPEN_SOURCES) == 0, "a hidden page has a connection"
    # What has been asked for is still answered.
    page.wait_for_timeout(1500)
    before = len(asked)
    page.wait_for_timeout(2500)
    assert len(asked) == before, f"a hidden page asks for {asked[before:]}"
    with page.expect_request("**/api/runs/*"):
        page.evaluate("hide(false)")
    until(page, f"() => ({OPEN_SOURCES})() === 1")
    until_text(page, ".connection", "Live")
    page.close()


def check_connection(url, reader):
    """A lost connection has a reason, one that is refused a link, and one that comes back is said to."""
    page = reader.open(url)
    until_text(page, ".connection", "Live")
    with reader.expecting("net::ERR_", "401"):
        gone = ("**/api/events", lambda route: route.abort("connectionrefused"))
        page.route(*gone)
        refresh(page)
        until_text(page, ".connection.lost", "the server does not answer")
        page.unroute(*gone)
        until_text(page, ".connection.live", "Connected again")
        refused = ("**/api/events", lambda route: route.fulfill(status=401, json={"error": "no token"}))
        page.route(*refused)
        refresh(page)
        until_text(page, ".connection.refused", "refuses the access token")
        link = page.get_by_role("link", name="Log in")
        assert link.is_visible() and link.get_attribute("href") == "/"
        page.unroute(*refused)
        until_text(page, ".connection.live", "Connected again")
        assert not link.is_visible()
        page.close()


def check_looking(url, reader):
    """Folders that are still being looked into are not said to have no runs; a sweep may wait."""
    page = reader.open(url + "#/")
    page.locator("tbody tr").first.wait_for()

    def none_yet(answer):
        answer.update(runs=[], sweeps=[], is_complete=False)

    def some(answer):
        answer.update(is_complete=False)
        answer["sweeps"][0]["state"] = "waiting"

    def none(answer):
        answer.update(runs=[], sweeps=[], is_complete=True)

    for change, selector, text in [
        (none_yet, ".none", "Looking for runs"),
        (some, ".bar-of-tools .aside", "so far"),
        (some, ".state.waiting", "waiting"),
        (none, ".none", "No runs yet"),
    ]:
        with faked(page, LIST, change):
            page.reload()
            until_text(page, selector, text)
    page.close()


def check_odd(url, reader, run):
    """An odd figure in one run is said in place, and all else is shown."""
    page = reader.open(url + "#/")
    page.locator("tbody tr").first.wait_for()
    rows = page.locator("tbody tr").count()

    def odd_runs(answer):
        one, other = [run for run in answer["runs"] if run["sweep"] is None][:2]
        one.update(began=1e300, env_steps="many", episode_return="high", wall_secs="long", state="constructor")
        other["name"] = None

    def odd_run(answer):
        answer["steps"] = {"rows": [{}]}
        answer["rate"] = answer["lag"] = None
        answer["summary"]["began"] = "yesterday"

    with reader.expecting("Error"):
        with faked(page, LIST, odd_runs):
            page.reload()
            until_text(page, "tbody th .odd", "This cannot be shown")
            assert page.locator("tbody tr").count() == rows, "the other runs are there"
            assert page.locator(".odd").count() == 1
            for text in ["many", "high", "long"]:
                assert text in text_of(page, "tbody"), f"{text} is shown as it is"
            assert page.locator(".state.unknown").count() == 2
        page.evaluate("(hash) => { location.hash = hash; }", run)
        until(page, "() => document.querySelectorAll('.chart canvas').length > 3")
        assert page.locator(".odd").count() == 0
        with faked(page, "**/api/runs/*", odd_run):
            refresh(page)
            until(page, "() => document.querySelectorAll('.panel > .odd').length === 3")
            assert "yesterday" in text_of(page, ".about")
            reader.shot(page, "odd")
        refresh(page)
        until(page, "() => document.querySelectorAll('.odd').length === 0")
        page.close()


def check_gone_curves(url, reader, run):
    """Charts of curves that are gone go, and a plot ends with its chart and its view."""
    page = reader.open(url + "#/")
    page.locator("tbody tr").first.wait_for()
    page.evaluate(
        """() => {
            window.undestroyed = new Set();
            const Old = uPlot;
            window.uPlot = function (...given) {
                const plot = new Old(...given), destroy = plot.destroy;
                undestroyed.add(plot);
                plot.destroy = () => { undestroyed.delete(plot); destroy.call(plot); };
                return plot;
            };
            Object.assign(window.uPlot, Old);
        }"""
    )
    undrawn = "() => [undestroyed.size, document.querySelectorAll('.uplot').length]"
    policies = "() => [...document.querySelectorAll('.panel h3')].filter((one) => one.textContent === 'another').length"
    charts = "() => document.querySelectorAll('.panel .small').length"

    def with_another(answer):
        answer["learner"]["another"] = next(iter(answer["learner"].values()))

    def with_fewer(answer):
        max(answer["learner"].values(), key=len).pop()

    with faked(page, "**/api/runs/*", with_another):
        page.evaluate("(hash) => { location.hash = hash; }", run)
        until(page, f"() => ({policies})() === 1")
    refresh(page)
    until(page, f"() => ({policies})() === 0")
    before = page.evaluate(charts)
    with faked(page, "**/api/runs/*", with_fewer):
        refresh(page)
        until(page, f"(before) => ({charts})() === before - 1", before)
    drawn, shown = page.evaluate(undrawn)
    assert drawn == shown > 3, f"{drawn} plots, of which {shown} are shown"
    page.evaluate("location.hash = '#/'")
    page.locator("tbody tr").first.wait_for()
    assert page.evaluate(undrawn) == [0, 0], "plots outlive their view"
    page.close()


def check_many_evaluations(url, reader, run):
    """All evaluations are counted, and the newest is one of them, however few points their curve has."""
    page = reader.open(url + run)
    page.locator(".chart .plot canvas").first.wait_for()

    def many(answer):
        answer["summary"].update(evaluations=5000, newest_evaluation=77)

    with faked(page, "**/api/runs/*", many):
        page.reload()
        for figure in ["5,000 evaluations", "77"]:
            until_text(page, ".panel dd", figure)
    page.close()


def check_missing(url, reader, comparison):
    """A comparison names the runs that it lacks, with the reason."""
    page = reader.open(f"{url}{comparison},nosuchrun")
    until_text(page, ".notes li", "nosuchrun")
    lost = comparison.split("/")[-1].split(",")[0]

    def without_one(answer):
        answer["runs"] = [run for run in answer["runs"] if run["id"] != lost]
        answer["missing"] = [{"id": lost, "reason": "its disk is away"}]

    with faked(page, "**/api/curves?*", without_one):
        page.reload()
        until_text(page, ".notes li", "its disk is away")
    page.close()


def check_live_sweep(url, reader, sweep):
    """Neither the focus nor a drag is lost when a trial comes."""
    page = reader.open(url + "#/")
    newer = []

    def live(answer):
        waiting = {"run": None, "value": None, "env_steps": None, "state": "waiting"}
        row = answer["rows"][0]
        answer["rows"].append({**row, **waiting, "trial": 90} if len(newer) < 2 else {**row, "trial": 90})
        # The worst trial becomes better than the others.
        row = min(answer["rows"][:4], key=lambda row: row["value"])
        row["value"] = 5e3 if newer else row["value"]
        for n, value in enumerate(newer):
            answer["rows"].append({**row, "trial": 91 + n, "value": value})

    def come(value):
        newer.append(value)
        refresh(page)
        until(page, "(n) => document.querySelectorAll('.trials tbody tr').length === n", 5 + len(newer))

    visible = "() => [...document.querySelectorAll('.trials tbody tr')].filter((row) => row.checkVisibility())" \
        ".map((row) => row.querySelector('th').textContent)"
    focused = "() => document.activeElement.textContent"
    with faked(page, "**/api/sweeps/*", live):
        page.evaluate("(hash) => { location.hash = hash; }", sweep)
        until(page, "() => document.querySelectorAll('.trials tbody tr').length === 5")
        link = page.locator(".trials tbody a").last
        name = link.inner_text()
        link.focus()
        come(1e4)
        assert page.evaluate(focused) == name, "the focus stays at its trial"
        until_text(page, ".readout", name.capitalize())
        until_text(page, ".state", "waiting")
        page.locator(".trials tr[tabindex]").focus()
        come(1e4)
        assert page.evaluate(focused) == "trial 90" and page.evaluate("document.activeElement.tagName") == "A"
        page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
        box = page.locator(".parallel .strip").last.bounding_box()
        x = box["x"] + box["width"] / 2
        page.mouse.move(x, box["y"])
        page.mouse.down()
        page.mouse.move(x, box["y"] + 0.5 * box["height"], steps=5)
        left = page.evaluate(visible)
        assert 0 < len(left) < 7, left
        come(1e6)
        assert page.evaluate(visible) == left, "a range is of values, and stays when the axis grows"
        page.mouse.move(x, box["y"] - 5, steps=5)
        until(page, f"(n) => ({visible})().length !== n", len(left))
        page.mouse.up()
        page.mouse.move(5, 5)
        page.get_by_role("button", name="Clear ranges").click()
        until(page, f"() => ({visible})().length === 8")
    page.close()
