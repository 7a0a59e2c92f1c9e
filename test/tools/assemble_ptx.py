# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Assembles every PTX module that a program holds.

assemble_ptx.py PTXAS ARCHITECTURE PROGRAM FOLDER

Modules are constants that end with a NUL; they are left in FOLDER. Prints "N modules, M kernels"; exit status 1, after the
assembler's words, if it refuses one.
"""
import pathlib
import subprocess
import sys

MARK = b"\n.version "


def modules(data):
    end = 0
    while (mark := data.find(MARK, end)) >= 0:
        begin, end = data.rfind(b"\0", 0, mark) + 1, data.index(b"\0", mark)
        yield data[begin:end]


def main(ptxas, architecture, program, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    count = kernels = 0
    for text in modules(pathlib.Path(program).read_bytes()):
        path = folder / f"{count}.ptx"
        path.write_bytes(text)
        subprocess.run([ptxas, f"-arch={architecture}", path, "-o", path.with_suffix(".cubin")], check=True)
        count += 1
        kernels += text.count(b".entry ")
    print(f"{count} modules, {kernels} kernels")


try:
    main(*sys.argv[1:])
except subprocess.CalledProcessError as error:
    sys.exit(str(error))
