# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The commands of the wheel: each becomes the program of its name in the wheel's own bin/."""
import os
import pathlib
import sys


def run():
    name = os.path.basename(sys.argv[0])
    program = pathlib.Path(__file__).parent / "installed" / "bin" / name
    os.execv(program, [str(program), *sys.argv[1:]])
