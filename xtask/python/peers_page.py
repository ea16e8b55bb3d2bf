"""Writes docs/benchmarks.md from the runs in docs/benchmarks."""

import json
import statistics
import textwrap


def read_runs(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def succeeded(run):
    """Whether the run has a figure to compare: a target that was missed has none."""
    return "figure" in run and run.get("reached", True)


def best_settings(work, runs, peer):
    """The settings with the best figure of the first round; None if none succeeded."""
    tried = [run for run in runs if run["peer"] == peer and run["round"] == 0 and succeeded(run)]
    if not tried:
        return None
    return (max if work["better"] == "more" else min)(tried, key=lambda run: run["figure"])["settings"]


def page(root, plan):
    folder = root / "docs/benchmarks"
    found = json.loads((folder / "machines.json").read_text())
    titles = {"pronk": "pronk"} | {peer["name"]: peer["title"] for peer in plan["peers"]}
    measured = [(work, read_runs(folder / f"{work['name']}.jsonl")) for work in plan["works"]]
    own = [run["version"] for _, runs in measured for run in runs if run["peer"] == "pronk"]
    found["versions"]["pronk"] = list(dict.fromkeys(own))
    parts = [wrapped(HEAD), machines(found, plan["works"], titles)]
    for work, runs in measured:
        # Before that, settings are still tried.
        if any(run["round"] > 0 for run in runs):
            make = rows_section if work["kind"] == "rows" else section
            parts.append(make(work, runs, titles))
    parts.append(lines_of_code(root, plan, titles))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def wrapped(text):
    """In the columns that pages of this repository have."""
    paragraphs = text.strip().split("\n\n")
    fill = lambda text: textwrap.fill(text, 108, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(part if part.startswith("#") else fill(part) for part in paragraphs)


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def machines(found, works, titles):
    """What was measured where: a column for each machine."""
    measured_on = {}
    for work in works:
        if this := found["machines"].get(work["name"]):
            measured_on.setdefault(json.dumps(this), []).append(work["title"])
    # The machine of most works comes first, and the others name what they measured.
    ordered = sorted(measured_on.items(), key=lambda item: -len(item[1]))
    columns = [json.loads(text) for text, _ in ordered]
    heads = ["", ""] if len(ordered) == 1 else ["", "all else", *("; ".join(titles) for _, titles in ordered[1:])]
    rows = [
        ["CPU", *(f"{this['cpu']}, {this['cores']} cores" for this in columns)],
        ["memory", *(f"{this['memory_gib']} GiB" for this in columns)],
        ["system", *(f"{this['os']}, Linux {this['kernel']}, Python {this['python']}" for this in columns)],
    ]
    versions = []
    for name, title in titles.items():
        if name in found["missing"]:
            versions.append([title, f"not measured, as it could not be installed: `{plain(found['missing'][name])}`"])
        elif own := found["versions"].get(name):
            versions.append([title, ", ".join(own)])
    return "\n\n".join(["## Machine and versions", table(heads, rows), table(["library", "versions"], versions)])


def plain(text):
    return text.replace("|", "/").replace("`", "'")


def number(value):
    if value is None:
        return "–"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(values):
    """Median and range."""
    if not values:
        return "–"
    if len(values) == 1:
        return number(values[0])
    return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"


def section(work, runs, titles):
    """A table of the best settings, one row for each library, and one of all runs."""
    medians, rows, listed = {}, [], []
    for peer in work["runs"]:
        own = [run for run in runs if run["peer"] == peer]
        for settings in work["runs"][peer]["settings"]:
            if line := all_runs(titles[peer], settings, [run for run in own if run["settings"] == settings]):
                listed.append(line)
        counted = [run for run in own if run["round"] > 0]
        good = [run for run in counted if succeeded(run)]
        if good:
            medians[peer] = statistics.median(run["figure"] for run in good)
        if not own:
            continue
        cells = [titles[peer], code(counted[0]["settings"]) if counted else "none succeeded"]
        cells += [spread([run["figure"] for run in good]), ratio(work, medians, peer)]
        if work.get("target"):
            cells += [spread([run["env_steps"] for run in good]), f"{len(good)} of {len(counted)}"]
            cells += [spread([run["process_s"] for run in good])]
        # A shorter run is looked at too seldom.
        cells.append(spread([run["peak_mib"] for run in good if run["process_s"] >= 1]))
        rows.append(cells)
    heads = ["library", "best settings", work["unit"], RATIO[work["better"]]]
    if work.get("target"):
        heads += ["env-steps", "reached", "seconds with start-up"]
    heads.append("peak memory, MiB")
    parts = [f"## {work['title']}", wrapped(work["about"]), table(heads, rows)]
    parts.append(f"All runs, in {work['unit']}:\n\n" + table(["library", "settings", "choice", "rounds"], listed))
    return "\n\n".join(part.strip() for part in parts)


def ratio(work, medians, peer):
    if peer not in medians or "pronk" not in medians:
        return "–"
    more, less = medians["pronk"], medians[peer]
    return f"{number(more / less if work['better'] == 'more' else less / more)}×"


RATIO = {"more": "pronk is so many times faster", "less": "pronk needs so many times less"}


def all_runs(title, settings, runs):
    if not runs:
        return None
    told = {run["round"]: result(run) for run in runs}
    rounds = ", ".join(told[turn] for turn in sorted(told) if turn > 0)
    return [title, code(settings), told.get(0, "–"), rounds or "–"]


def code(text):
    return f"`{text}`" if text else ""


def result(run):
    if "failed" in run:
        return f"failed: `{plain(run['failed'])}`"
    return number(run["figure"]) + ("" if run.get("reached", True) else " (missed)")


def rows_section(work, runs, titles):
    """A table with a row for each case of the work, and each library's figures."""
    libraries = {"pronk": "pronk", "theirs": work["theirs"]} | ({"also": work["also"]} if "also" in work else {})
    figures = {}
    for run in runs:
        for row in run.get("rows", []):
            # Where a library has several ways to run a network, the fastest counts.
            names = {name: value for name, value in row.items() if name.startswith("name")}
            case = ", ".join(names.values()).replace(" channels_last", "").replace(" compiled", "")
            own = {"pronk" if run["peer"] == "pronk" else "theirs": row.get("figure")} | row
            for library in libraries:
                if own.get(library) is not None:
                    rounds = figures.setdefault(case, {}).setdefault(library, {})
                    rounds[run["round"]] = max(rounds.get(run["round"], 0.0), float(own[library]))
    rows = []
    for case, found in figures.items():
        if not {"pronk", "theirs"} <= found.keys():
            continue
        medians = {library: statistics.median(rounds.values()) for library, rounds in found.items()}
        ours = medians.pop("pronk")
        cells = [case, number(ours)]
        for library in list(libraries)[1:]:
            theirs = medians.get(library)
            cells += [number(theirs), f"{number(ours / theirs)}×" if theirs else "–"]
        cells += [", ".join(number(value) for value in found.get(library, {}).values()) for library in libraries]
        rows.append(cells)
    heads = [work["case"], "pronk"]
    heads += [head for title in list(libraries.values())[1:] for head in (title, "ratio")]
    heads += [f"{title}, all runs" for title in libraries.values()]
    return "\n\n".join([f"## {work['title']}", wrapped(work["about"]), table(heads, rows)])


def lines_of_code(root, plan, titles):
    rows = []
    for name, path in plan["smallest"].items():
        text = (root / path).read_text().splitlines()
        code = [line for line in text if line.strip() and not line.strip().startswith(("#", "//"))]
        rows.append([titles[name], str(len(code)), f"[`{path}`](../{path})"])
    return "\n\n".join(["## Lines of code", wrapped(LINES), table(["library", "lines", "file"], rows)])


HEAD = """# Benchmarks

`cargo xtask peers` made this page, of the works, peers and settings in
[`benches/peers.toml`](../benches/peers.toml); every run is in [`docs/benchmarks/`](benchmarks). Libraries
take turns, run by run. Each tries its settings once, in a round that does not count (*choice*); the setting
that was best is measured in the rounds that follow. Settings whose every try was disturbed are not listed.
Figures are medians, with the range in brackets.

A run counts only if other programs kept at most a tenth of a core busy meanwhile. *Peak memory* is the most
that a run's processes had resident together, looked at four times a second, of runs of a second or more;
pages that they share count once.
"""

LINES = """
What a user writes to train CartPole-v1 to a mean return of 475 over 100 episodes, without blank lines and
comments. In pronk that is a config file.
"""
