# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""use_module.py PACKAGE IDS: what the module `heddle` gives for a package of test/models/llama; IDS are the program's answer to 1,2,3."""
import re
import sys

import heddle

path, ids = sys.argv[1], [int(one) for one in open(sys.argv[2]).read().split(",")]


def refused(pattern, action, *arguments, **options):
    try:
        action(*arguments, **options)
    except heddle.Error as error:
        assert re.search(pattern, str(error)), error
        assert error.status in (1, 2)
    else:
        sys.exit(f"not refused: {pattern}")


assert re.fullmatch(r"\d+\.\d+\.\d+", heddle.version())
with heddle.Package(path) as package:
    package.check()
    assert (package.context, package.vocab_size) == (128, 256), (package.context, package.vocab_size)
    with heddle.Session(package, threads=1) as session:
        seen = []
        answer = session.generate([1, 2, 3], max_tokens=8, ignore_eos=True, on_token=lambda token, text: seen.append(token))
        assert answer.ids == seen == ids, (answer, seen)
        assert session.length() == 10
        session.reset()
        assert session.generate([1, 2, 3], max_tokens=8, ignore_eos=True, on_token=lambda token, text: True).ids == ids[:1]

        session.reset()
        try:
            session.generate([1, 2, 3], ignore_eos=True, on_token=lambda token, text: {}["absent"])
        except KeyError as error:
            assert error.args == ("absent",)
        else:
            sys.exit("an exception of on_token is lost")
        refused("256", session.generate, [256])
        refused("32 bits", session.generate, [1 << 32])
        refused("temperature", session.generate, [1], temperature=-1.0)
        refused("tokenizer", session.generate, "text")
    refused("session is closed", session.generate, [1])
refused("package is closed", package.check)
refused("cannot be opened", heddle.Package, path + ".absent")
