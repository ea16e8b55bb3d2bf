"""What `benches/gpu.sh` reads from the output of its programs.

    python3 benches/gpu.py ratios pronk.txt torch.txt     # rows a second beside those of PyTorch
    python3 benches/gpu.py overlap timeline.json          # how much of the loading overlaps with learning
"""

import argparse
import json
import re
import sys

ROW = re.compile(r"(?P<name>.*?) +(?P<rows>\d+) +(?P<rate>\d+) rows/s")


def rates(path):
    """Rows a second by network and rows. Where PyTorch has two layouts, the faster one."""
    found = {}
    with open(path, encoding="utf-8") as lines:
        for match in filter(None, map(ROW.fullmatch, map(str.strip, lines))):
            key = match["name"].replace(" channels_last", ""), int(match["rows"])
            found[key] = max(found.get(key, 0), int(match["rate"]))
    return found


def ratios(args):
    pronk, torch = rates(args.pronk), rates(args.torch)
    both = [key for key in pronk if key in torch]
    if not both:
        sys.exit(f"{args.pronk} and {args.torch} have no row in common")
    print(f"{'':<34} {'rows':>6} {'pronk rows/s':>14} {'PyTorch rows/s':>15} {'ratio':>6}")
    for name, rows in both:
        ours, theirs = pronk[name, rows], torch[name, rows]
        print(f"{name:<34} {rows:>6} {ours:>14} {theirs:>15} {ours / theirs:>6.2f}")


def spans(path):
    """The spans of a timeline: name, begin and end in microseconds."""
    try:
        with open(path, encoding="utf-8") as file:
            events = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"{path} is not the timeline of a run that ended: {error}")
    open_spans, closed = {}, []
    for event in events:
        lane = event.get("pid"), event.get("tid")
        if event["ph"] == "B":
            open_spans.setdefault(lane, []).append((event["name"], event["ts"]))
        elif event["ph"] == "E":
            name, begin = open_spans[lane].pop()
            closed.append((name, begin, event["ts"]))
    return closed


def shared(some, others):
    """The time in which spans of `some` overlap with those of `others`, which are disjoint among themselves."""
    return sum(max(0, min(end, to) - max(begin, start)) for begin, end in some for start, to in others)


def overlap(args):
    all_spans = spans(args.timeline)
    # Before, the learner repeats one batch: not what a run does.
    start = max((end for name, _, end in all_spans if name == "alone"), default=0)

    def of(name):
        return sorted((begin, end) for span, begin, end in all_spans if span == name and begin >= start)

    loads, grads, waits = of("load"), of("grad"), of("queue")
    if not loads or not grads:
        sys.exit(f"{args.timeline} has {len(loads)} loads and {len(grads)} passes: run with stacks")
    whole = grads[-1][1] - grads[0][0]
    loading, learning = (sum(end - begin for begin, end in part) for part in (loads, grads))
    waiting = shared(waits, [(grads[0][0], grads[-1][1])])
    print(f"{len(grads)} passes and {len(loads)} loads in {whole / 1e6:.1f} s")
    print(f"learning {100 * learning / whole:.1f} % of the time, waiting for batches {100 * waiting / whole:.1f} %")
    print(f"a load takes {loading / len(loads) / 1e3:.2f} ms, a pass {learning / len(grads) / 1e3:.2f} ms")
    print(f"{100 * shared(loads, grads) / max(loading, 1e-9):.1f} % of the loading overlaps with learning")


def main():
    parser = argparse.ArgumentParser(description="Reads the output of the programs of benches/gpu.sh.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("ratios")
    command.add_argument("pronk")
    command.add_argument("torch")
    command.set_defaults(run=ratios)
    command = commands.add_parser("overlap")
    command.add_argument("timeline")
    command.set_defaults(run=overlap)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
