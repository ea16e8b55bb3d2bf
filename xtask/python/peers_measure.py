"""Runs a command to its end and prints JSON: its output, its seconds, and the most memory that its processes had.

The processes are the command's own and all that they start, also those whose parents have ended. `others` is how many
cores other processes, of those that were there when they were looked at, and other machines kept busy meanwhile.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

EVERY_S = 0.25  # processes are looked at
PR_SET_CHILD_SUBREAPER = 36


def main():
    first, limit, command = re.compile(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    # Processes whose parents end become children of this one, and are still counted and ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began, before, stolen_before = time.perf_counter(), processes(), stolen()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    found = {"out": [], "err": [], "first_s": None}

    def read(stream, name):
        for line in stream:
            if found["first_s"] is None and first.search(line):
                found["first_s"] = time.perf_counter() - began
            found[name].append(line)

    streams = [(process.stdout, "out"), (process.stderr, "err")]
    readers = [threading.Thread(target=read, args=args, daemon=True) for args in streams]
    for reader in readers:
        reader.start()
    peak, timed_out, others = 0, False, {}
    while process.poll() is None:
        now = processes()
        pids = descendants(now)
        peak = max(peak, sum(memory(pid) for pid in pids))
        others |= {pid: spent for pid, (_, spent) in now.items() if pid not in pids and pid != os.getpid()}
        if time.perf_counter() - began > limit:
            timed_out = True
            break
        time.sleep(EVERY_S)
    seconds = time.perf_counter() - began
    for pid in descendants(processes()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for reader in readers:
        reader.join(timeout=5)
    status = "timed out" if timed_out else process.wait()
    busy = sum(spent - before.get(pid, (0, 0.0))[1] for pid, spent in others.items())
    others = (busy + stolen() - stolen_before) / seconds
    print(json.dumps({
        "status": status, "process_s": seconds, "peak_mib": peak / 2**20, "first_s": found["first_s"], "others": others,
        "out": "".join(found["out"]), "err": "".join(found["err"])[-4000:],
    }))  # fmt: skip


def processes():
    """The parent of every process, and the seconds that it has computed."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(pid)] = int(fields[1]), sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return found


def stolen():
    """Seconds that the host of a virtual machine has taken from its cores."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def descendants(processes):
    """Those below this process."""
    children = {}
    for pid, (parent, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    found, ahead = set(), [os.getpid()]
    while ahead:
        below = children.get(ahead.pop(), [])
        found.update(below)
        ahead += below
    return found


def memory(pid):
    """Resident bytes; pages that several processes share count once in all."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


if __name__ == "__main__":
    main()
