# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What figures are taken on: the processor, and who else uses it meanwhile."""
import os
import pathlib
import resource
import time

# Of what /proc/cpuinfo lists, what kernels are chosen by.
FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx_vnni", "avx512_fp16", "amx_bf16", "amx_int8",
            "asimddp", "bf16", "i8mm", "sve")


def processor():
    """(name, features that matter here)."""
    lines = [line.split(":", 1) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if ":" in line]
    said = {key.strip(): value.strip() for key, value in reversed(lines)}
    flags = said.get("flags", said.get("Features", "")).split()
    return said.get("model name", "unknown processor"), [name for name in FEATURES if name in flags]


def seconds_of(pid):
    """CPU seconds of a process that runs, all threads together; 0 once it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Others:
    """How many cores all other processes used inside a with block, hypervisor's included: .cores. `peer` is a process of ours that runs on."""

    def __init__(self, peer=None):
        self.peer, self.cores = peer, 0.0

    def seconds(self):
        busy = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = busy[3] + busy[4]
        own = sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
        return (sum(busy) - idle) / os.sysconf("SC_CLK_TCK") - own - (seconds_of(self.peer.pid) if self.peer else 0.0)

    def __enter__(self):
        self.began, self.before = time.monotonic(), self.seconds()
        return self

    def __exit__(self, *_):
        self.cores = max(0.0, (self.seconds() - self.before) / max(time.monotonic() - self.began, 1e-3))
