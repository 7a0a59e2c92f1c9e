# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an installed Heddle loads of the machine: libraries that are not in its own folder, and the versions of them that it asks for.

machine_libraries.py PREFIX [MORE…]: prints the field Depends of a Debian package that holds PREFIX: the packages of those libraries, each no
older than the first that had all the versions, and MORE. deb-symbols(5) says which package had a version first.
"""
import collections
import functools
import pathlib
import re
import subprocess
import sys

# Of programs and libraries that run here; what outputs are linked with lies elsewhere.
FOLDERS = ("bin", "lib", "lib/heddle/host/bin", "lib/heddle/host/lib")


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(prefix):
    """{library: {versions}} of the machine's libraries, and {library: its file}."""
    prefix = pathlib.Path(prefix)
    files = [path for folder in FOLDERS if (prefix / folder).is_dir() for path in sorted((prefix / folder).iterdir())
             if path.is_file() and not path.is_symlink() and is_elf(path)]
    own = {path.name for path in files}
    versions, found = collections.defaultdict(set), {}
    for path in files:
        name = ""
        for line in said("readelf", "-W", "--dynamic", "--version-info", path).splitlines():
            if needs := re.search(r"\(NEEDED\) .*\[(.*)\]", line):
                versions[needs[1]]  # also where no version is asked for
            elif needs := re.search(r"Version: 1  File: (\S+)", line):
                name = needs[1]
            elif needs := re.search(r"Name: (\S+)  Flags: \S+  Version: \d+", line):
                versions[name].add(needs[1])
        found.update(re.findall(r"^\s*(\S+) => (/\S+)", said("ldd", path), re.MULTILINE))
    return {name: asked for name, asked in versions.items() if name not in own}, found


def compare(left, right):
    return -1 if subprocess.run(["dpkg", "--compare-versions", left, "lt", right], check=False).returncode == 0 else 1


def dependencies(prefix):
    versions, found = needed(prefix)
    oldest = collections.defaultdict(lambda: ["0"])  # of each package
    for name, asked in versions.items():
        if name.startswith("ld-linux"):
            continue  # the C library's loader
        path = pathlib.Path(found[name])
        # dpkg knows a file of /usr/lib under /lib where it was packed there.
        owners = said("dpkg-query", "--search", f"*{str(path.resolve()).removeprefix('/usr')}")
        package = owners.splitlines()[0].rpartition(": ")[0].split(",")[0]
        oldest[package.partition(":")[0]]
        if "symbols" not in said("dpkg-query", "--control-list", package).split():
            continue
        library = ""
        for line in said("dpkg-query", "--control-show", package, "symbols").splitlines():
            if not line.startswith((" ", "|", "*")):
                library = line.split()[0]
            elif library == name and (version := re.fullmatch(r" (\S+)@\1 (\S+)(?: \d+)?", line)) and version[1] in asked:
                oldest[package.partition(":")[0]].append(version[2])
    for package, known in sorted(oldest.items()):
        version = max(known, key=functools.cmp_to_key(compare))
        yield package if version == "0" else f"{package} (>= {version})"


if __name__ == "__main__":
    print(", ".join([*dependencies(sys.argv[1]), *sys.argv[2:]]))
