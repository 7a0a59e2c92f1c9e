# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generates far beyond a sliding window, so that pages of the cache are recycled and states go from one to the next, and compares with one pass over
the same tokens.

check_window.py HEDDLE FOLDER [FLAG…]     FOLDER and FLAGs as check_golden.py has them

One pass in a single step keeps every page until it ends. Both agree within check_golden's AGREE, and to the bit with
--deterministic; 1, 2 and 3 threads to the bit always. Exit status 1 if not.
"""
import sys
import tempfile

from check_golden import AGREE, GREEDY, Failure, Model, expect, integers


def main():
    heddle, folder, *flags = sys.argv[1:]
    with tempfile.TemporaryDirectory() as box:
        model = Model(heddle, folder, "", "", box, "--precise", *flags)
        prompt = max((model.prompt(case) for case in model.of_kind("greedy")), key=len)
        inputs = {"input_ids": integers([prompt])}
        generate = ["-n", str(model.context - len(prompt)), *GREEDY]
        try:
            for mode, limit in ([], AGREE), (["--deterministic"], 0.0):
                out, whole_file = model.io(inputs, *generate, *mode, "--threads", "1")
                for threads in "2", "3":
                    if model.io(inputs, *generate, *mode, "--threads", threads)[1] != whole_file:
                        raise Failure(f"{threads} threads and 1 give different bytes {' '.join(mode)}")
                ids, cached = list(out["ids"][2]), out["generated_logits"][2]
                whole, = model.logits([prompt + ids[:-1]], *mode)
                expect(f"{len(ids)} tokens after {len(prompt)} {' '.join(mode)}", cached, whole[-len(cached):], limit)
        except Failure as failure:
            print(failure)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
