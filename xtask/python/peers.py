"""Installs the peers of benches/peers.toml, measures them and pronk in turn, and writes docs/benchmarks.md.

A run that is in docs/benchmarks already is not made again: a command that was interrupted goes on. Round 0 of a work
tries every setting; the best of each library is measured in the rounds that follow.
"""

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import peers_page

KEPT = ["seconds", "env_steps", "env_steps_trained_per_s", "updates"]
WARM_UP_S = 3.0  # of runs that are measured by their results.jsonl, as of the peers'
LIMIT_S = 110
TRIES = 3
OTHERS = 0.1  # cores that other programs may keep busy in a run that counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", help="the works to measure; all by default")
    parser.add_argument("--root", type=Path, required=True, help="the repository")
    parser.add_argument("--folder", type=Path, required=True, help="where peers are installed and runs leave files")
    parser.add_argument("--bin-dir", type=Path, required=True, help="the programs of pronk")
    parser.add_argument("--prefix", default="", help="a command to run each measurement with")
    parser.add_argument("--quick", action="store_true", help="one round, two settings each")
    parser.add_argument("--table", action="store_true", help="measure nothing, only write the page")
    args = parser.parse_args()
    plan = tomllib.loads((args.root / "benches/peers.toml").read_text())
    known = [work["name"] for work in plan["works"]]
    if unknown := [name for name in args.works if name not in known]:
        sys.exit(f"there is no work {unknown[0]!r}; there are {', '.join(known)}")
    if not args.table:
        args.folder.mkdir(parents=True, exist_ok=True)
        wanted = [work for work in plan["works"] if work["name"] in (args.works or known)]
        missing = note_machine(args, plan, wanted)
        works = [Measured(args, work, missing) for work in wanted]
        for work in works:
            work.measure()
        if disturbed := sum(work.disturbed for work in works):
            print(f"{disturbed} runs were disturbed by other programs and are left out; call this again", flush=True)
    (args.root / "docs/benchmarks.md").write_text(peers_page.page(args.root, plan))


def install(args, plan, peers):
    """Those of the peers that could not be installed, and why."""
    missing = {}
    shared = args.folder / "torch"
    torch = plan["torch"]
    if not (shared / "torch").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", shared, *torch["packages"]]
        # The index of PyTorch has a build without CUDA, a tenth of the size.
        if why := failure([*pip, "--index-url", torch["index"], "--retries", "0", "--timeout", "20"]):
            print(f"{torch['index']}: {why}; trying PyPI", flush=True)
            if why := failure(pip):
                sys.exit(f"{torch['packages'][0]} could not be installed: {why}")
    for peer in peers:
        venv, packages = args.folder / peer["name"], "\n".join(peer["packages"])
        python, note = venv / "bin/python", venv / "packages.txt"
        if note.exists() and note.read_text() == packages:
            continue
        print(f"installing {peer['title']}", flush=True)
        why = failure([sys.executable, "-m", "venv", venv])
        if not why:
            for folder in venv.glob("lib/python*/site-packages"):
                (folder / "torch.pth").write_text(f"{shared.resolve()}\n{peer.get('site', '')}\n")
            environment = os.environ | peer.get("environment", {})
            pip = [python, "-m", "pip", "install", "--quiet", *peer.get("options", [])]
            if first := peer.get("before"):
                why = failure([*pip, *first], environment)
            why = why or failure([*pip, *peer["packages"]], environment)
        why = why or failure([python, "-c", f"import {peer['imports']}"], cwd=args.folder)
        if why:
            print(f"{peer['title']} could not be installed: {why}", flush=True)
            missing[peer["name"]] = why
        else:
            note.write_text(packages)
    return missing


def failure(command, environment=None, cwd=None):
    """Runs it; the line that says why it failed, if it did."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=cwd)
    except subprocess.TimeoutExpired:
        return "it took longer than 10 minutes"
    if run.returncode == 0:
        return None
    lines = [line.strip() for line in (run.stderr + run.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"error", line, re.IGNORECASE)]
    return (errors or lines or [f"status {run.returncode}"])[-1][:200]


def note_machine(args, plan, works):
    """Installs what the works need, and writes down the machine and the versions; returns the missing peers."""
    path = args.root / "docs/benchmarks/machines.json"
    noted = {"machines": {}, "versions": {}, "missing": {}}
    if path.exists():
        noted = json.loads(path.read_text())
    machine = this_machine()
    for work in works:
        runs = args.root / "docs/benchmarks" / f"{work['name']}.jsonl"
        if runs.exists() and noted["machines"][work["name"]] != machine:
            sys.exit(f"{runs} has runs of another machine: remove it, or measure there")
    needed = {run.get("venv", name) for work in works for name, run in work["runs"].items()}
    needed |= {name for work in works for name in re.findall(r"{([\w-]+)}", json.dumps(work["runs"]))}
    peers = [peer for peer in plan["peers"] if peer["name"] in needed]
    missing = install(args, plan, peers)
    noted["machines"] |= {work["name"]: machine for work in works}
    for peer in peers:
        noted["missing"].pop(peer["name"], None)
        if peer["name"] not in missing:
            python = args.folder / peer["name"] / "bin/python"
            names = list(dict.fromkeys([peer["project"], "torch", "gymnasium", "ale-py", "numpy"]))
            code = f"import importlib.metadata as m\nfor n in {names}: print(n, m.version(n))"
            run = subprocess.run([python, "-c", code], capture_output=True, text=True)
            noted["versions"][peer["name"]] = run.stdout.splitlines()
    noted["missing"] |= missing
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(noted, indent=1) + "\n")
    return missing


def this_machine():
    cpuinfo, meminfo = Path("/proc/cpuinfo").read_text(), Path("/proc/meminfo").read_text()
    release = platform.freedesktop_os_release()
    return {
        "cpu": re.search(r"model name\s*: (.*)", cpuinfo)[1],
        "cores": os.cpu_count(),
        "memory_gib": round(int(re.search(r"MemTotal:\s*(\d+)", meminfo)[1]) / 2**20, 1),
        "os": release["PRETTY_NAME"],
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def git(root):
    run = subprocess.run(["git", "-C", root, "log", "-1", "--format=%h of %cs"], capture_output=True, text=True)
    return run.stdout.strip()


class Measured:
    """A work and its runs so far."""

    def __init__(self, args, work, missing):
        self.args, self.work = args, work
        self.path = args.root / "docs/benchmarks" / f"{work['name']}.jsonl"
        self.runs = peers_page.read_runs(self.path)
        self.disturbed = 0
        self.rounds = 1 if args.quick else work["rounds"]
        self.peers = {name: run for name, run in work["runs"].items() if name not in missing}

    def measure(self):
        if self.work["kind"] == "rows":
            # Its settings are parts of the work, and all of them are measured.
            for turn in range(1, self.rounds + 1):
                for part in range(max(len(run["settings"]) for run in self.peers.values())):
                    self.turn(turn, lambda run: run["settings"][part : part + 1])
            return
        for nth in range(2 if self.args.quick else max(len(run["settings"]) for run in self.peers.values())):
            self.turn(0, lambda run: run["settings"][nth : nth + 1] if len(run["settings"]) > 1 else [])
        for turn in range(1, self.rounds + 1):
            self.turn(turn, None)

    def turn(self, turn, settings_of):
        """Each library once, with these settings, or with its best."""
        for peer, run in self.peers.items():
            chosen = settings_of(run) if settings_of else self.best(peer, run)
            for settings in chosen:
                if not any((r["peer"], r["settings"], r["round"]) == (peer, settings, turn) for r in self.runs):
                    self.run(peer, run, settings, turn)

    def best(self, peer, run):
        if len(run["settings"]) == 1:
            return run["settings"]
        best = peers_page.best_settings(self.work, self.runs, peer)
        return [best] if best is not None else []

    def run(self, peer, run, settings, turn):
        out = self.args.folder / "runs" / f"{self.work['name']}-{peer}"
        words = {"out": out, "root": self.args.root, "seed": turn + 1}
        words |= {python.parts[-3]: python for python in self.args.folder.glob("*/bin/python")}
        command = shlex.split(f"{run['command']} {settings}".format_map(words))
        if command[0].endswith(".py"):
            python = self.args.folder / run.get("venv", peer) / "bin/python"
            command = [str(python), str(self.args.root / "benches/peers" / command[0]), *command[1:]]
        else:
            command[0] = str(self.program(command[0]))
        environment = {name: str(value).format_map(words) for name, value in run.get("environment", {}).items()}
        outer = [*shlex.split(self.args.prefix), sys.executable, self.args.root / "xtask/python/peers_measure.py"]
        first = run.get("first", '"first_update_s"')
        for _ in range(TRIES):
            ended = subprocess.run(
                [*outer, first, str(self.work.get("limit_s", LIMIT_S)), *command],
                stdout=subprocess.PIPE, text=True, env=os.environ | environment, cwd=self.args.folder,
            )  # fmt: skip
            if ended.returncode != 0:
                sys.exit(f"{shlex.join(map(str, outer))} ended with status {ended.returncode}")
            measured = json.loads(ended.stdout)
            if measured["others"] <= OTHERS:
                break
            others = f"other programs kept {measured['others']:.2f} cores busy"
            print(f"{self.work['name']}, round {turn}: {peer} {settings}: {others}", flush=True)
        else:
            # Left out, so that the next call of the command tries again.
            self.disturbed += 1
            return
        record = {"peer": peer, "settings": settings, "round": turn} | record_of(self.work, measured)
        if peer == "pronk":
            # Programs from elsewhere may be of another commit.
            is_built = self.args.bin_dir.parent == self.args.folder.parent
            record["version"] = git(self.args.root) if is_built else "built elsewhere (`--bin-dir`)"
        self.runs.append(record)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        told = record.get("failed") or record.get("figure") or f"{len(record.get('rows', []))} rows"
        print(f"{self.work['name']}, round {turn}: {peer} {settings}: {told}", flush=True)

    def program(self, name):
        folder = self.args.bin_dir
        found = [folder / name, folder / "examples" / name]
        # Cargo adds a hash to the names of benches; the newest is the one it has just built.
        hashed = [path for path in (folder / "deps").glob(f"{name}-*") if not path.suffix and os.access(path, os.X_OK)]
        found += sorted(hashed, key=lambda path: path.stat().st_mtime, reverse=True)
        if path := next((path for path in found if path.is_file()), None):
            return path.resolve()
        sys.exit(f"{folder} has no program {name}")


def record_of(work, measured):
    """What is kept of a run."""
    about = {name: measured[name] for name in ("process_s", "peak_mib", "first_s", "others")}
    record = {name: round(value, 3) for name, value in about.items() if value is not None}
    lines = measured["out"].splitlines()
    if work["kind"] == "rows":
        rows = [match.groupdict() for line in lines if (match := re.match(work["pattern"], line))]
        if measured["status"] != 0 or not rows:
            return record | failed(measured)
        return record | {"rows": rows}
    result = {}
    for line in lines:
        if line.startswith("{"):
            result |= json.loads(line)
    # A target that was not reached is a result, and pronk's status says so.
    if not any(name in result for name in ("seconds", "first_update_s")) and "first_s" not in record:
        return record | failed(measured)
    if measured["status"] == "timed out" and work["figure"] != "first_s":
        return record | failed(measured)
    if "run" in result and (curve := Path(result["run"]) / "results.jsonl").exists():
        result |= rate(curve)
    kept = [*KEPT, "reached", "episode_return_mean"] if work.get("target") else KEPT
    record |= {name: round(result[name], 3) for name in kept if name in result}
    figure = (record | result).get(work["figure"])
    if figure is None:
        return record | {"failed": f"no {work['figure']} in what it printed"}
    return record | {"figure": round(figure, 3)}


def failed(measured):
    lines = [line for line in (measured["out"] + measured["err"]).splitlines() if line.strip()]
    status = measured["status"]
    why = "timed out" if status == "timed out" else f"status {status}: {lines[-1] if lines else 'no output'}"
    return {"failed": why[:200]}


def rate(curve):
    """Of the results of a run of pronk: env-steps trained a second, after the warm-up."""
    results = [json.loads(line) for line in curve.read_text().splitlines()]
    warm = [result for result in results if result["time_total_s"] >= WARM_UP_S]
    if len(warm) < 2:
        return {}
    steps, seconds = (warm[-1][name] - warm[0][name] for name in ("num_env_steps_trained_once", "time_total_s"))
    return {"env_steps_trained_per_s": steps / seconds}


if __name__ == "__main__":
    main()
