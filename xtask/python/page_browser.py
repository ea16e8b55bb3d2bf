"""Chromium and the program `pronk` for the checks and pictures of the live page."""

import contextlib
import pathlib
import re
import subprocess
import tempfile
import time

from playwright.sync_api import sync_playwright

# Without services of its own: the page is all that it may reach.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
]
PATIENCE_S = 120


@contextlib.contextmanager
def chromium(path, **options):
    """A new browser with an empty profile."""
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=path, args=FLAGS, headless=True, **options
        )
        browser.set_default_timeout(1000 * PATIENCE_S)
        yield browser
        browser.close()


class Program:
    """`pronk` in the background, and the address of its page."""

    def __init__(self, pronk, arguments, folder):
        self.words = open(pathlib.Path(folder) / f"{arguments[0]}.txt", "w+", encoding="utf-8")
        command = [str(pronk), *map(str, arguments)]
        self.process = subprocess.Popen(command, cwd=folder, stdout=self.words, stderr=subprocess.STDOUT)
        self.url = self.wait_for(r"(http://\S+)")

    def wait_for(self, pattern):
        """What the pattern finds in the words of the program."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            self.words.seek(0)
            words = self.words.read()
            if found := re.search(pattern, words):
                return found[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in what {self.process.args} says: {words[-2000:]}")

    def kill(self):
        """As the kernel kills what takes too much memory: it cannot say how it ended."""
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()


def run(pronk, arguments, folder):
    """Runs `pronk` to its end. Missing a target is no failure of these checks."""
    command = [str(pronk), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10 * PATIENCE_S)
    if done.returncode not in (0, 1):
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
