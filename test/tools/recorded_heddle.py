#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stands for `heddle compile MODEL -o OUT FLAG…` where there is no compiler: gives what was compiled with these flags elsewhere.

HEDDLE_RECORDS   folder of the programs of one model, each under the name of its flags
HEDDLE_RECORDER  the compiler; where it is set it runs, and the program, or why there is none, is kept in the folder
"""
import os
import pathlib
import shutil
import subprocess
import sys


def record_name(flags):
    return "_".join("".join(c if c.isalnum() or c in "-.=" else "-" for c in flag) for flag in flags) or "plain"


def main():
    command, _, option, out, *flags = sys.argv[1:]
    if command != "compile" or option != "-o":
        sys.exit("recorded_heddle.py: knows only compile MODEL -o OUT FLAG…")
    record = pathlib.Path(os.environ["HEDDLE_RECORDS"]) / record_name(flags)
    refusal = record.with_name(record.name + ".refused")
    if "HEDDLE_RECORDER" in os.environ:
        record.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([os.environ["HEDDLE_RECORDER"], *sys.argv[1:]], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            refusal.write_text(done.stderr)
        else:
            shutil.copy(out, record)
    elif record.exists():
        shutil.copy(record, out)
    if refusal.exists():
        sys.stderr.write(refusal.read_text())
        sys.exit(2)
    if not record.exists():
        sys.exit(f"recorded_heddle.py: nothing was compiled with {' '.join(flags)}")


if __name__ == "__main__":
    main()
