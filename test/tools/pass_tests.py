# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pass_tests.py SOURCE: every pass has a test of its name.

A pass `heddle-NAME` of compiler/STAGE/Passes.td is run by test/STAGE/NAME.mlir, or by a file there whose name goes on (NAME-MORE.mlir): one
of its RUN lines holds `--heddle-NAME`. Prints each pass without such a line and exits with 1.
"""
import pathlib
import re
import sys

ARGUMENT = re.compile(r'^def \w+ : \w*Pass<"heddle-([\w-]+)"', re.MULTILINE)


def is_tested(folder, name):
    option = re.compile(rf"RUN:.*--heddle-{name}(?![\w-])")
    files = [folder / f"{name}.mlir", *folder.glob(f"{name}-*.mlir")]
    return any(option.search(path.read_text()) for path in files if path.exists())


def main():
    source = pathlib.Path(sys.argv[1])
    count, faults = 0, []
    for page in sorted(source.glob("compiler/*/Passes.td")):
        stage = page.parent.name
        for name in ARGUMENT.findall(page.read_text()):
            count += 1
            if not is_tested(source / "test" / stage, name):
                faults.append(f"compiler/{stage}/Passes.td: heddle-{name} is run by no test/{stage}/{name}.mlir")
    print(*faults, f"{count} passes, {len(faults)} without a test", sep="\n")
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main())
