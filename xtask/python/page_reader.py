"""A reader of the live page: a page of a browser, and everything that its console and network say."""

import contextlib

from page_browser import PATIENCE_S


class Reader:
    """Opens pages, and keeps in `wrong` what no page may say or ask for."""

    def __init__(self, browser, out):
        self.browser, self.out, self.wrong, self.expected, self.newest = browser, out, [], (), None

    def open(self, url, width=1280, height=800, script=None, **media):
        page = self.newest = self.browser.new_page()
        if script:
            page.add_init_script(script)
        page.set_viewport_size({"width": width, "height": height})
        if media:
            page.emulate_media(**media)
        page.on("console", self.on_console)
        page.on("pageerror", lambda error: self.wrong.append(f"script error: {error}"))
        page.on("dialog", lambda dialog: (self.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        origin = "/".join(url.split("/")[:3])
        page.on("request", lambda request: self.on_request(request, origin))
        page.goto(url)
        return page

    @contextlib.contextmanager
    def expecting(self, *words):
        """The console may say what has one of these words in it."""
        self.expected = words
        yield
        self.expected = ()

    def on_console(self, message):
        is_expected = any(words in message.text for words in self.expected)
        if message.type in ("error", "warning") and not is_expected:
            self.wrong.append(f"console: {message.text}")

    def on_request(self, request, origin):
        if request.method != "GET":
            self.wrong.append(f"a request that could change something: {request.method} {request.url}")
        if not request.url.startswith((origin, "data:")):
            self.wrong.append(f"a request to another place: {request.url}")

    def shot(self, page, name):
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(600)
        page.screenshot(path=self.out / f"{name}.png", full_page=True)


def text_of(page, selector):
    return page.locator(selector).first.inner_text()


def until(page, condition, argument=None):
    """Waits for a condition in JavaScript."""
    page.wait_for_function(condition, arg=argument, timeout=1000 * PATIENCE_S)


def until_text(page, selector, text):
    """Waits until an element that the selector finds has this in its text."""
    until(
        page,
        "([selector, text]) => [...document.querySelectorAll(selector)].some((one) => one.textContent.includes(text))",
        [selector, text],
    )
