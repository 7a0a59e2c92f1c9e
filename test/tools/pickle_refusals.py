# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pickle_refusals.py HEDDLE BASE ADAPTER FOLDER: files of torch.save that --merge-adapter refuses, made from ADAPTER's pytorch_adapter.bin, which fits BASE.

Each refusal is one line with exit status 2. What is cut off anywhere is refused as well, whatever the words.
"""
import pathlib
import shutil
import sys
import zipfile

import expect_refusal

PICKLE = "data.pkl"


def replaced(old, new):
    return lambda members: {name: data.replace(old, new) if name == PICKLE else data for name, data in members.items()}


def without(name):
    return lambda members: {key: data for key, data in members.items() if key != name}


# (what is said, what becomes of the members)
CASES = [
    ("calls 'os system', expected tensors alone", replaced(b"ctorch._utils\n_rebuild_tensor_v2\n", b"cos\nsystem\n")),
    ("has a 'torch LongStorage', expected a FloatStorage", replaced(b"FloatStorage", b"LongStorage")),
    ("has a persistent value that is no storage", replaced(b"X\x07\x00\x00\x00storage", b"X\x07\x00\x00\x00Storage")),
    ("is of protocol 4, expected 2", replaced(b"\x80\x02", b"\x80\x04")),
    ("data.pkl: ends too early, or is damaged", lambda members: members | {PICKLE: members[PICKLE][:-1]}),
    ("data.pkl: has an unknown operation, byte 73", lambda members: members | {PICKLE: b"\x80\x02I1\n."}),
    ("data.pkl: holds something else than tensors", lambda members: members | {PICKLE: b"\x80\x02}(K\x01K\x02u."}),
    ("holds no data.pkl", without(PICKLE)),
    ("has a tensor whose numbers are not there: data/0", without("data/0")),
    ("has a tensor that is not dense, or larger than its storage", lambda members: members | {"data/0": b""}),
    ("byteorder is 'big', expected little", lambda members: members | {"byteorder": b"big"}),
]


def write(path, members, packing=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr("pytorch_adapter/" + name, data)


def main():
    heddle, base, adapter, box = sys.argv[1:]
    source = pathlib.Path(adapter, "pytorch_adapter.bin")
    with zipfile.ZipFile(source) as archive:
        members = {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}
    folder = pathlib.Path(box) / "pickled"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(pathlib.Path(adapter, "adapter_config.json"), folder)
    path, output, broken = folder / source.name, f"{box}/none", 0

    def refuse(pattern):
        nonlocal broken
        for fault in expect_refusal.faults(output, pattern, [heddle, "compile", base, "-o", output, f"--merge-adapter={folder}"]):
            broken += 1
            print(f"{pattern}: {fault}")

    refuse("holds no adapter.safetensors and no pytorch_adapter.bin: expected an adapter that PyPI's adapters has saved")
    for pattern, change in CASES:
        write(path, change(members))
        refuse(pattern)
    write(path, members, zipfile.ZIP_DEFLATED)
    refuse("is damaged or packed: expected it as torch.save stores it")
    whole = source.read_bytes()
    for size in (0, 3, 40, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:size])
        refuse(".")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
