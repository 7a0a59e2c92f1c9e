# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""opencl_source.py FILE NAME: prints the kernels of the OpenCL programs that FILE, an object or a binary, holds as text, of those whose name holds NAME.

Exit status 1 where there is none.
"""
import pathlib
import re
import sys


def main(path, name):
    kernels = [kernel for text in re.findall(rb"[\t\n\x20-\x7e]{200,}", pathlib.Path(path).read_bytes())
               for kernel in re.findall(rf"^__kernel void \w*{name}\w*\(.*?^\}}", text.decode("ascii"), re.S | re.M)]
    print("\n".join(kernels))
    return 0 if kernels else f"no kernel of {path} has '{name}' in its name"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
