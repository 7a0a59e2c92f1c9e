# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""include_graph.py SOURCE [ARROWS]: every include between folders is an arrow that include_arrows.txt allows, and no arrows form a cycle.

A folder that holds sources is a node of its own, apart from its subfolders. Prints each fault, an include with its file and line, and
exits with 1. A line of the form

    FOLDER -> FOLDER…            # reason

allows arrows; one that starts with "excused:" allows what is still to be mended: it is no part of the search for cycles, and is a fault
itself once nothing uses it.
"""
import pathlib
import re
import sys

ROOTS = ["bytes", "dialect", "frontends", "compiler", "runtime"]
SOURCES = {".h", ".cpp", ".c", ".td"}
INCLUDE = re.compile(r'^[ \t]*#?[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


def read_arrows(path):
    """Returns {folder: folders} that are allowed, and {(folder, folder)} that are excused."""
    allowed, excused = {}, set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"(excused: )?(\S+) ->(.*)", line)
        if not match:
            sys.exit(f"{path}:{number}: expected FOLDER -> FOLDER…")
        source, targets = match.group(2), match.group(3).split()
        if match.group(1):
            excused |= {(source, target) for target in targets}
        elif source in allowed:
            sys.exit(f"{path}:{number}: {source} has a line already")
        else:
            allowed[source] = set(targets)
    return allowed, excused


def includes(source):
    """Yields (file, line, folder, header) for each include of a header of ours from another folder."""
    for root in ROOTS:
        for path in sorted((source / root).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            file, text = path.relative_to(source), path.read_text()
            for match in INCLUDE.finditer(text):
                header = pathlib.PurePosixPath(match.group(1))
                if header.parts[0] in ROOTS + ["test"] and header.parent != pathlib.PurePosixPath(file.parent):
                    yield file, text.count("\n", 0, match.start()) + 1, str(file.parent), header


def find_cycle(arrows):
    """A list of folders, each of which includes the next, that ends where it began; empty if there is none."""
    done = set()

    def walk(folder, path):
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in done:
            return []
        done.add(folder)
        for target in sorted(arrows.get(folder, ())):
            if cycle := walk(target, path + [folder]):
                return cycle
        return []

    for folder in sorted(arrows):
        if cycle := walk(folder, []):
            return cycle
    return []


def faults(source, allowed, excused):
    arrows, used, count = {}, set(), 0
    for file, line, folder, header in includes(source):
        count += 1
        target = str(header.parent)
        if (folder, target) in excused:
            used.add((folder, target))
            continue
        arrows.setdefault(folder, set()).add(target)
        if folder not in allowed:
            yield f"{file}:{line}: {folder} has no line in the list of arrows"
        elif target not in allowed[folder]:
            yield f"{file}:{line}: {folder} may not include {target} ({header})"
    if not count:
        yield f"{source}: no include between folders was found"
    for cycle in filter(None, [find_cycle(arrows)]):
        yield f"a cycle: {' -> '.join(cycle)}"
    for cycle in filter(None, [find_cycle(allowed)]):
        yield f"the list allows a cycle: {' -> '.join(cycle)}"
    for folder, target in sorted(excused - used):
        yield f"excused: {folder} -> {target}: no include needs it any more, delete it"


def main():
    source = pathlib.Path(sys.argv[1])
    list_of_arrows = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).parent / "include_arrows.txt"
    found = list(faults(source, *read_arrows(list_of_arrows)))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


main()
