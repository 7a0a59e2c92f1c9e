# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""unique_names.py SOURCE: no class, struct, union or enum is defined twice in one namespace.

Two definitions of one name are not seen by a linker: programs that hold both, such as the compiler with the runtime's package reader in
it, run one's code on the other's objects. Names of anonymous namespaces and of classes are local and may repeat. Prints each name with
its places and exits with 1.
"""
import collections
import pathlib
import re
import sys

FOLDERS = ["bytes", "dialect", "frontends", "compiler", "runtime"]
# What a brace opens is read from the text since the last brace or semicolon outside of parentheses.
NAMESPACE = re.compile(r"\b(?:inline\s+)?namespace\s*([\w:]*)\s*$")
TYPE = re.compile(r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[[^\]]*\]\]\s*)?(?:alignas\([^)]*\)\s*)?"
                  r"(\w+)\s*(?:final\s*)?(?::(?!:)[^;(]*(?:\([^)]*\)[^;(]*)*)?$", re.DOTALL)
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*',
                   re.DOTALL | re.MULTILINE)


def definitions(text):
    """Yields (namespace, name, line) of every type that is defined at the scope of a named namespace, or of none."""
    text = NOISE.sub(lambda match: "\n" * match.group().count("\n"), text)
    scopes, begin, parentheses = [], 0, 0  # a scope: the name of a namespace, "" if anonymous, None if it is none
    for match in re.finditer(r"[{};()]", text):
        sign = match.group()
        parentheses += (sign == "(") - (sign == ")")
        if sign in "()" or (sign == ";" and parentheses):
            continue
        if sign == "{":
            opening = text[begin:match.start()]
            namespace = NAMESPACE.search(opening)
            kind = TYPE.search(opening)
            if kind and not namespace and all(scopes):
                yield "::".join(scopes), kind.group(1), text.count("\n", 0, match.start()) + 1
            scopes.append(namespace.group(1) if namespace else None)
        elif sign == "}" and scopes:
            scopes.pop()
        begin = match.end()


def main():
    source = pathlib.Path(sys.argv[1])
    places = collections.defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((source / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                for namespace, name, line in definitions(path.read_text()):
                    places[f"{namespace}::{name}"].append(f"{path.relative_to(source)}:{line}")
    if not any(name.startswith("heddle::") for name in places):
        sys.exit(f"{source}: no definitions were found")
    twice = {name: where for name, where in sorted(places.items()) if len(where) > 1}
    for name, where in twice.items():
        print(f"{name} is defined more than once: {', '.join(where)}")
    sys.exit(1 if twice else 0)


main()
