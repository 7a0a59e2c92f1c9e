# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_allocations.py COUNTER FEW MANY COMMAND…: the command asks as often for memory with -n FEW as with -n MANY.

COUNTER is the library of test/bench/count_allocations.c. Exit status 1 where the numbers differ.
"""
import os
import subprocess
import sys
import tempfile


def count(counter, tokens, command):
    with tempfile.NamedTemporaryFile("r") as counted:
        subprocess.run([*command, "-n", tokens], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "LD_PRELOAD": counter, "HEDDLE_ALLOCATIONS": counted.name})
        return int(counted.read())


def main(counter, few, many, *command):
    numbers = [count(counter, tokens, command) for tokens in (few, many)]
    print(f"{numbers[0]} requests for {few} tokens, {numbers[1]} for {many}")
    return int(numbers[0] != numbers[1] or not numbers[0])


sys.exit(main(*sys.argv[1:]))
