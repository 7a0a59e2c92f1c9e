# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the manual page of `heddle` from what it says of itself.

man_page.py HEDDLE OUT: runs HEDDLE with --help, and each command with --help, and writes OUT in the form of man(7).
"""
import pathlib
import re
import subprocess
import sys


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip("\n")


def as_is(text):
    """Lines that keep their columns. A line may not begin with a control character of roff's."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return ".nf\n" + "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n")) + "\n.fi\n"


def main(heddle, out):
    version = said(heddle, "--version").split()[1]
    general = said(heddle, "--help")
    first, rest = general.split("\n", 1)
    page = f'.TH HEDDLE 1 "" "heddle {version}"\n.SH NAME\nheddle \\- {first[0].lower() + first[1:].rstrip(".").replace("heddle ", "", 1)}\n'
    page += ".SH SYNOPSIS\n" + as_is(rest.strip("\n"))
    for command in dict.fromkeys(re.findall(r"^  heddle ([a-z]+) ", general, re.MULTILINE)):
        page += f".SH HEDDLE {command.upper()}\n" + as_is(said(heddle, command, "--help"))
    pathlib.Path(out).write_text(page)


if __name__ == "__main__":
    main(*sys.argv[1:])
