# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a compiled model is hardened and runs on any machine with glibc 2.34.

check_elf.py FILE [--lib] [--exports NAME,…]

Prints one line per broken promise and exits with 1 if there is any. --lib: a shared library instead of an executable.
--exports: exactly these symbols are defined for others; without it an executable may define none.
"""
import argparse
import sys

from elf import (DF_1_NOW, DF_1_PIE, DF_BIND_NOW, DF_TEXTREL, DT_FLAGS, DT_FLAGS_1, DT_RPATH, DT_RUNPATH, DT_TEXTREL, ET_DYN,
                 PF_W, PF_X, PT_GNU_RELRO, PT_GNU_STACK, PT_LOAD, Elf)

NEWEST_GLIBC = (2, 34)
LOADERS = {62: "ld-linux-x86-64.so.2", 183: "ld-linux-aarch64.so.1"}


def flags(dynamic, tag):
    return dynamic[tag][0] if dynamic[tag] else 0


def check_loading(elf, is_lib):
    """Position-independent, relocated once and then read-only."""
    dynamic = elf.dynamic()
    if elf.type != ET_DYN:
        yield f"not position-independent: e_type is {elf.type}"
    if not is_lib and not flags(dynamic, DT_FLAGS_1) & DF_1_PIE:
        yield "not marked as a position-independent executable"
    if is_lib and elf.interpreter():
        yield "a library with a program interpreter"
    if not is_lib and [path.rsplit("/", 1)[-1] for path in elf.interpreter()] != [LOADERS.get(elf.machine)]:
        yield f"program interpreter {elf.interpreter()}, expected {LOADERS.get(elf.machine)}"
    if not elf.segments_of(PT_GNU_RELRO):
        yield "no RELRO segment"
    if not (flags(dynamic, DT_FLAGS_1) & DF_1_NOW or flags(dynamic, DT_FLAGS) & DF_BIND_NOW):
        yield "RELRO is partial: symbols are bound lazily"
    if dynamic[DT_TEXTREL] or flags(dynamic, DT_FLAGS) & DF_TEXTREL:
        yield "text relocations"
    if dynamic[DT_RPATH] or dynamic[DT_RUNPATH]:
        yield "a library search path is built in"


def check_segments(elf):
    stacks = elf.segments_of(PT_GNU_STACK)
    if not stacks:
        yield "no PT_GNU_STACK: the stack is executable by default"
    if any(segment.flags & PF_X for segment in stacks):
        yield "the stack is executable"
    for segment in elf.segments_of(PT_LOAD):
        if segment.flags & PF_W and segment.flags & PF_X:
            yield f"the segment at {segment.address:#x} is writable and executable"
    for section in elf.sections:
        if section.name in (".heddle.package", ".heddle.weights"):
            if section.flags & 2 or section.address:
                yield f"{section.name} is loaded with the program instead of being mapped on demand"


def check_needs(elf):
    allowed = {"libc.so.6", "libm.so.6", LOADERS.get(elf.machine)}
    for name in elf.needed():
        if name not in allowed:
            yield f"needs {name}"
    for library, version in elf.needed_versions():
        prefix, _, number = version.partition("_")
        if prefix != "GLIBC" or tuple(int(part) for part in number.split(".")) > NEWEST_GLIBC:
            yield f"needs {version} of {library}"


def check_exports(elf, expected):
    exported = {symbol.name for symbol in elf.symbols() if symbol.defined and symbol.is_global and not symbol.is_hidden}
    surplus = sorted(exported - expected)
    if surplus:
        yield f"defines {len(surplus)} symbols for others: {', '.join(surplus[:8])}"
    for name in sorted(expected - exported):
        yield f"does not define {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--lib", action="store_true")
    parser.add_argument("--exports", default="")
    options = parser.parse_args()
    elf = Elf(options.file)
    faults = [*check_loading(elf, options.lib), *check_segments(elf), *check_needs(elf),
              *check_exports(elf, set(filter(None, options.exports.split(","))))]
    for fault in faults:
        print(f"{options.file}: {fault}")
    if not faults:
        print(f"{options.file}: hardened, needs {', '.join(elf.needed())}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
