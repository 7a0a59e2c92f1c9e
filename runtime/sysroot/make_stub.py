# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the source of a link-time stand-in for a shared library of the C library.

make_stub.py LIBRARY NEWEST OUT: reads the dynamic symbols of LIBRARY and writes OUT.s and OUT.map, from which a shared
library with the same names and symbol versions is linked. Symbols come with their newest version that is at most NEWEST
(GLIBC_2.34); symbols that are younger are left out, so that a link which would need them fails here instead of on a user's
machine. ELF: gABI chapter 5; versions: LSB Core, "Symbol Versioning". (llvm-ifs drops the versions.)
"""
import collections
import re
import struct
import sys

SHT_DYNSYM, SHT_GNU_VERDEF, SHT_GNU_VERSYM = 11, 0x6FFFFFFD, 0x6FFFFFFF
STT_OBJECT, STT_TLS, STB_WEAK, SHN_UNDEF = 1, 6, 2, 0

Symbol = collections.namedtuple("Symbol", "name version is_data is_tls is_weak size")


def version_key(name):
    """(2, 34) of GLIBC_2.34; None for private versions."""
    match = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)*)", name)
    return tuple(int(part) for part in match.group(1).split(".")) if match else None


def read_sections(image):
    """Section headers by type: (offset, size, link)."""
    if image[:6] != b"\x7fELF\x02\x01":
        sys.exit("make_stub.py: not a 64-bit little-endian ELF file")
    offset, = struct.unpack_from("<Q", image, 40)
    entry_size, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, offset + i * entry_size) for i in range(count)]
    by_type = {section[1]: section for section in sections}
    return sections, by_type


def string_at(image, table_offset, index):
    start = table_offset + index
    return image[start:image.index(b"\0", start)].decode()


def read_versions(image, sections, section):
    """Version names by index."""
    names, offset, strings = {}, section[4], sections[section[6]][4]
    while True:
        _, _, index, _, _, aux, following = struct.unpack_from("<HHHHIII", image, offset)
        name, = struct.unpack_from("<I", image, offset + aux)
        names[index] = string_at(image, strings, name)
        if following == 0:
            return names
        offset += following


def read_symbols(image):
    """Every defined dynamic symbol with its version, hidden ones (old versions) included."""
    sections, by_type = read_sections(image)
    table, versym = by_type[SHT_DYNSYM], by_type[SHT_GNU_VERSYM]
    versions = read_versions(image, sections, by_type[SHT_GNU_VERDEF])
    strings = sections[table[6]][4]
    symbols = []
    for i in range(1, table[5] // 24):
        name, info, _, shndx, _, size = struct.unpack_from("<IBBHQQ", image, table[4] + 24 * i)
        index, = struct.unpack_from("<H", image, versym[4] + 2 * i)
        version = versions.get(index & 0x7FFF)
        if shndx == SHN_UNDEF or version is None:
            continue
        kind = info & 15
        symbols.append(Symbol(string_at(image, strings, name), version, kind == STT_OBJECT, kind == STT_TLS,
                              info >> 4 == STB_WEAK, size))
    return symbols


def select(symbols, newest):
    """Of each name the newest version within the limit."""
    best = {}
    for symbol in symbols:
        key = version_key(symbol.version)
        if key is None or key > newest:
            continue
        if symbol.name not in best or key > version_key(best[symbol.name].version):
            best[symbol.name] = symbol
    # Version names are themselves symbols (absolute objects); they are no part of the interface.
    return sorted((s for s in best.values() if s.name != s.version), key=lambda s: s.name)


def assembly(symbols):
    lines = []
    for symbol in symbols:
        binding = ".weak" if symbol.is_weak else ".globl"
        section, kind = ".text", "@function"
        if symbol.is_data or symbol.is_tls:
            section, kind = ".bss", "@object"
        if symbol.is_tls:
            section, kind = '.section .tbss,"awT",%nobits', "@tls_object"
        lines += [section, f"{binding} {symbol.name}", f".type {symbol.name},{kind.replace('@', '%')}", f"{symbol.name}:"]
        size = max(symbol.size, 1) if section != ".text" else 4
        lines += [f".zero {size}", f".size {symbol.name}, {size}"]
    return "\n".join(lines) + '\n.section .note.GNU-stack,"",%progbits\n'


def version_script(symbols):
    by_version = collections.defaultdict(list)
    for symbol in symbols:
        by_version[symbol.version].append(symbol.name)
    text = []
    for i, version in enumerate(sorted(by_version, key=version_key)):
        local = " local: *;" if i == 0 else ""
        text.append(f"{version} {{ global: {' '.join(f'{name};' for name in by_version[version])}{local} }};")
    return "\n".join(text) + "\n"


def main():
    library, newest, out = sys.argv[1:]
    with open(library, "rb") as file:
        symbols = select(read_symbols(file.read()), version_key(newest))
    if not symbols:
        sys.exit(f"make_stub.py: {library} defines no symbol up to {newest}")
    with open(out + ".s", "w") as file:
        file.write(assembly(symbols))
    with open(out + ".map", "w") as file:
        file.write(version_script(symbols))


if __name__ == "__main__":
    main()
