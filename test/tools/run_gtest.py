# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a GoogleTest program, a share of its cases on each core.

run_gtest.py RESULTS LABEL PROGRAM [FILTER]   FILTER: part of the names of the cases to run

For share N: RESULTS/LABEL.N.json, GoogleTest's report; .log, all that the program said; .died, where a signal ended it: which, and in which
case. Prints failures, and ends with status 1 where there are any.
"""
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys

# What GoogleTest says of cases that pass.
SILENT = ("[ RUN      ]", "[       OK ]", "[----------]", "[==========] Running", "Running main()", "Note:")


def run_share(results, label, program, case_filter, share, shares):
    """The lines of a share that are worth reading, and its exit status."""
    report, log, died = (results / f"{label}.{share}.{kind}" for kind in ("json", "log", "died"))
    environment = dict(os.environ, GTEST_TOTAL_SHARDS=str(shares), GTEST_SHARD_INDEX=str(share))
    command = [program, f"--gtest_output=json:{report}", *([f"--gtest_filter=*{case_filter}*"] if case_filter else [])]
    with log.open("w") as out:
        status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out).returncode
    lines = log.read_text(errors="replace").splitlines()
    if status < 0:
        started = [line.split("]", 1)[1].strip() for line in lines if line.startswith("[ RUN      ]")]
        died.write_text(f"{signal.Signals(-status).name} in {started[-1] if started else 'no case'}")
    return [line for line in lines if line and not line.startswith(SILENT)], status


def main(arguments):
    results, label, program, *case_filter = arguments
    results = pathlib.Path(results)
    for stale in results.glob(f"{label}.[0-9]*"):
        stale.unlink()
    shares = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(shares) as pool:
        runs = [pool.submit(run_share, results, label, program, case_filter[0] if case_filter else "", share, shares)
                for share in range(shares)]
    failed = False
    for run in runs:
        lines, status = run.result()
        print(*lines, sep="\n", end="\n" if lines else "")
        failed |= status != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
