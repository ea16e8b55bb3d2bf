"""Runs a command to its end and prints JSON: its output, its seconds, and the most memory that its processes had.

The processes are the command's own and all that they start, also those whose parents have ended. `others` is how many
cores all other programs kept busy meanwhile.
"""

import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time

EVERY_S = 0.25  # memory is looked at
PR_SET_CHILD_SUBREAPER = 36


def main():
    first, limit, command = re.compile(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    # Processes whose parents end become children of this one, and are still counted and ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began, busy_before = time.perf_counter(), busy()
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
    peak, timed_out, spent = 0, False, {}
    while process.poll() is None:
        pids = descendants(os.getpid())
        peak = max(peak, sum(memory(pid) for pid in pids))
        spent |= {pid: seconds for pid in pids if (seconds := cpu(pid)) is not None}
        if time.perf_counter() - began > limit:
            timed_out = True
            break
        time.sleep(EVERY_S)
    seconds, busy_after = time.perf_counter() - began, busy()
    left = descendants(os.getpid())
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for reader in readers:
        reader.join(timeout=5)
    status = "timed out" if timed_out else process.wait()
    reap()
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    # The time of a process whose parent does not wait for it is in no parent's sum.
    own = max(own, sum(spent.values()))
    others = max(0.0, busy_after - busy_before - own) / seconds
    print(json.dumps({
        "status": status, "process_s": seconds, "peak_mib": peak / 2**20, "first_s": found["first_s"], "others": others,
        "out": "".join(found["out"]), "err": "".join(found["err"])[-4000:],
    }))  # fmt: skip


def busy():
    """Seconds that the cores have been busy, all together."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def reap():
    """Waits for what has ended, so that its time counts as the command's."""
    try:
        while os.waitpid(-1, 0):
            pass
    except ChildProcessError:
        pass


def descendants(root):
    """All processes below this one."""
    children = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(pid))
    found, ahead = [], [root]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def cpu(pid):
    """Seconds that it has computed."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None


def memory(pid):
    """Resident bytes; pages that several processes share count once in all."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


if __name__ == "__main__":
    main()
