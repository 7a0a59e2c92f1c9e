# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""use_module.py PACKAGE IDS: what is Python's in the module `heddle`, on a package of test/models/llama; IDS are the program's answer to 1,2,3."""
import re
import sys

import heddle

path, ids = sys.argv[1], [int(one) for one in open(sys.argv[2]).read().split(",")]


def refused(pattern, action, *arguments, **options):
    try:
        action(*arguments, **options)
    except heddle.Error as error:
        assert re.search(pattern, str(error)), error
        assert error.status == "INVALID_INPUT", error.status
    else:
        sys.exit(f"not refused: {pattern}")


assert re.fullmatch(r"\d+\.\d+\.\d+", heddle.version)
with heddle.Package(path) as package:
    package.check()
    with heddle.Session(package, threads=1) as session:
        answer = session.generate([1, 2, 3], max_tokens=8, ignore_eos=True)
        assert answer.ids == ids, answer
        refused("256", session.append, [256])
        refused("32 bits", session.append, [1 << 32])
        refused("temperature", session.generate, [1], temperature=-1.0)
        refused("tokenizer", package.encode, "text")
    refused("Session is closed", session.append, [1])
refused("Package is closed", package.check)
refused("cannot be opened", heddle.Package, path + ".absent")
