"""Chromium and the program `pronk` for the checks and pictures of the live page."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
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
        with contextlib.closing(browser):
            browser.set_default_timeout(1000 * PATIENCE_S)
            yield browser


def end_on_signals():
    """Has SIGTERM end this script as Ctrl-C does, so that it ends what it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def start(pronk, arguments, folder, **options):
    """`pronk` in a process group of its own, which its children are in too: a sweep starts processes."""
    command = [str(pronk), *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, start_new_session=True, **options)


def kill(process):
    """Kills it and its children, if they are still there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Program:
    """`pronk` in the background, until the end of a `with`, and the address of its page."""

    def __init__(self, pronk, arguments, folder):
        self.words = open(pathlib.Path(folder) / f"{arguments[0]}.txt", "w+", encoding="utf-8")
        self.process = start(pronk, arguments, folder, stdout=self.words, stderr=subprocess.STDOUT)
        try:
            self.url = self.wait_for(r"(http://\S+)")
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

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
        kill(self.process)
        self.words.close()

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            print(f"{self.process.args} does not end, and is killed")
        finally:
            self.kill()


def run(pronk, arguments, folder):
    """Runs `pronk` to its end. Missing a target is no failure of these checks."""
    process = start(pronk, arguments, folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, words = process.communicate(timeout=10 * PATIENCE_S)
    finally:
        kill(process)
    if process.returncode not in (0, 1):
        raise AssertionError(f"{process.args} ended with {process.returncode}: {words[-2000:]}")
