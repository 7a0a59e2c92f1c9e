# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compile and a program cost beside speed: memory that is no file's, bytes of code, time to the first token, allocations."""
import os
import pathlib
import subprocess
import tempfile
import time

import elf


def memory_of(pid):
    """Resident bytes of a process and its children that are no file's pages."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError:  # it has ended
        return 0
    own = sum(1024 * int(status[key].split()[0]) for key in ("RssAnon", "RssShmem") if key in status)
    return own + sum(map(memory_of, children))


def measure_command(command):
    """(seconds, most of memory_of) of a run, looked at every 5 ms."""
    with tempfile.TemporaryFile("w+") as said:
        start, most = time.perf_counter(), 0
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=said)
        while process.poll() is None:
            most = max(most, memory_of(process.pid))
            time.sleep(0.005)
        seconds = time.perf_counter() - start
        said.seek(0)
        if process.returncode:
            raise RuntimeError((said.read().strip() or f"exit status {process.returncode}").splitlines()[-1])
    return seconds, most


def seconds_to_output(command):
    """From the start of a process to the first byte that it prints."""
    start = time.perf_counter()
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        first = process.stdout.read(1)
        seconds = time.perf_counter() - start
        process.stdout.read()
    if not first:
        raise RuntimeError(f"{pathlib.Path(command[0]).name} printed nothing")
    return seconds


def loaded_bytes(path):
    """Of an object or a program."""
    return elf.Elf(path).loaded_bytes()


def allocations(command, counter):
    """How often a program asks for memory. `counter`: the library that counts (count_allocations.c)."""
    with tempfile.NamedTemporaryFile("r") as counted:
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "LD_PRELOAD": str(counter), "HEDDLE_ALLOCATIONS": counted.name})
        return int(counted.read())
