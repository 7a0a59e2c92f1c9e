# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads what the checks of outputs need from a 64-bit little-endian ELF file: segments, dynamic entries, symbols, versions."""
import collections
import struct

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 0x6474E551, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4
ET_EXEC, ET_DYN = 2, 3
SHF_ALLOC = 2
SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM, SHT_GNU_VERNEED = 2, 8, 11, 0x6FFFFFFE
DT_NEEDED, DT_STRTAB, DT_RPATH, DT_FLAGS, DT_RUNPATH, DT_TEXTREL, DT_FLAGS_1 = 1, 5, 15, 30, 29, 22, 0x6FFFFFFB
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 4, 8, 1, 0x08000000

Section = collections.namedtuple("Section", "name type flags address offset size link info align entry_size")
Segment = collections.namedtuple("Segment", "type flags offset address physical file_size size align")
Symbol = collections.namedtuple("Symbol", "name defined is_global is_hidden")


class Elf:
    def __init__(self, path):
        with open(path, "rb") as file:
            # Weights are not read: headers lie at the ends of what is mapped, sections are read when asked for.
            self.file_name = path
            head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path}: not a 64-bit little-endian ELF file")
        self.type, self.machine = struct.unpack_from("<HH", head, 16)
        phoff, shoff = struct.unpack_from("<QQ", head, 32)
        phsize, phnum, shsize, shnum, shstrndx = struct.unpack_from("<HHHHH", head, 54)
        self.segments = []
        for i in range(phnum):
            kind, flags, *rest = struct.unpack("<IIQQQQQQ", self._read(phoff + i * phsize, 56))
            self.segments.append(Segment(kind, flags, *rest))
        raw = [struct.unpack("<IIQQQQIIQQ", self._read(shoff + i * shsize, 64)) for i in range(shnum)]
        names = self._read(raw[shstrndx][4], raw[shstrndx][5]) if shnum else b""
        self.sections = [Section(_string(names, entry[0]), *entry[1:]) for entry in raw]

    def _read(self, offset, size):
        with open(self.file_name, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def section_bytes(self, section):
        return self._read(section.offset, section.size)

    def segments_of(self, kind):
        return [segment for segment in self.segments if segment.type == kind]

    def dynamic(self):
        """Tag → values."""
        entries = collections.defaultdict(list)
        for segment in self.segments_of(PT_DYNAMIC):
            data = self._read(segment.offset, segment.file_size)
            for tag, value in struct.iter_unpack("<QQ", data):
                if tag == 0:
                    break
                entries[tag].append(value)
        return entries

    def _dynamic_string(self, index):
        for section in self.sections:
            if section.type == SHT_DYNSYM:
                return _string(self.section_bytes(self.sections[section.link]), index)
        raise ValueError(f"{self.file_name}: no dynamic symbol table")

    def loaded_bytes(self):
        """Of the sections that are loaded, from the file: neither symbols nor packages nor weights."""
        return sum(section.size for section in self.sections if section.flags & SHF_ALLOC and section.type != SHT_NOBITS)

    def needed(self):
        return [self._dynamic_string(value) for value in self.dynamic()[DT_NEEDED]]

    def search_paths(self):
        """The folders in which the loader looks for libraries."""
        dynamic = self.dynamic()
        return [folder for value in dynamic[DT_RPATH] + dynamic[DT_RUNPATH]
                for folder in self._dynamic_string(value).split(":") if folder]

    def interpreter(self):
        return [self._read(s.offset, s.file_size).rstrip(b"\0").decode() for s in self.segments_of(PT_INTERP)]

    def needed_versions(self):
        """(library, version) pairs that the loader must find."""
        pairs = []
        for section in self.sections:
            if section.type != SHT_GNU_VERNEED:
                continue
            data, strings = self.section_bytes(section), self.section_bytes(self.sections[section.link])
            offset = 0
            for _ in range(section.info):
                _, count, file_name, aux, following = struct.unpack_from("<HHIII", data, offset)
                at = offset + aux
                for _ in range(count):
                    _, _, _, name, next_aux = struct.unpack_from("<IHHII", data, at)
                    pairs.append((_string(strings, file_name), _string(strings, name)))
                    at += next_aux
                offset += following
        return pairs

    def symbols(self, kind=SHT_DYNSYM):
        result = []
        for section in self.sections:
            if section.type != kind:
                continue
            data, strings = self.section_bytes(section), self.section_bytes(self.sections[section.link])
            for name, info, other, shndx, _, _ in struct.iter_unpack("<IBBHQQ", data):
                result.append(Symbol(_string(strings, name), shndx != 0, info >> 4 in (1, 2), other & 3 in (1, 2)))
        return result


def _string(table, index):
    return table[index:table.index(b"\0", index)].decode()
