# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""search_paths.py FOLDER: of every ELF file below FOLDER, the folders in which it looks for libraries lie beside it. Prints their number."""
import pathlib
import sys

from elf import Elf


def main(folder):
    count = 0
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_symlink() or not path.is_file() or path.open("rb").read(4) != b"\x7fELF":
            continue
        count += 1
        for entry in Elf(path).search_paths():
            if not entry.startswith("$ORIGIN/"):
                sys.exit(f"{path}: looks for libraries in '{entry}'")
    print(count, "files")


if __name__ == "__main__":
    main(*sys.argv[1:])
