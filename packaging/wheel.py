# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a wheel of an installed Heddle.

wheel.py PREFIX FOLDER: writes FOLDER/heddle-VERSION-py3-none-manylinux_2_N_x86_64.whl, where 2.N is the oldest C library that all of
PREFIX's programs and libraries load with. The same installation gives the same bytes. Formats: PyPA "Binary distribution format", PEP 600.
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import machine_libraries

SUMMARY = "ahead-of-time compiler for Transformer models"
DISTRIBUTION_INFO = """Metadata-Version: 2.1
Name: heddle
Version: {version}
Summary: {summary}
License: Apache-2.0 WITH LLVM-exception
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Requires-Python: >=3.9
Description-Content-Type: text/markdown

`heddle compile MODEL -o BIN` compiles a Transformer model (GGUF file, Hugging Face folder, ONNX file or MLIR module) to a native program.
The tools bring LLVM, MLIR, Halide and the linker along. The module `heddle` runs what `heddle compile --emit=package` makes.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: heddle\nRoot-Is-Purelib: false\nTag: {tag}\n"


def oldest_c_library(prefix):
    """N of glibc 2.N."""
    versions = machine_libraries.needed(prefix)[0]
    names = " ".join(name for asked in versions.values() for name in asked)
    newest = max(int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", names))
    return max(newest, 36) if "GLIBC_ABI_DT_RELR" in names else newest


def main(prefix, folder):
    prefix = pathlib.Path(prefix)
    version = subprocess.run([prefix / "bin/heddle", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    tag = f"py3-none-manylinux_2_{oldest_c_library(prefix)}_x86_64"
    info = f"heddle-{version}.dist-info"
    tools = sorted(os.listdir(prefix / "bin"))
    files = {}  # name in the wheel: (bytes or path, is executable)
    for path in sorted(pathlib.Path(__file__).with_name("heddle").glob("*.py")):
        files[f"heddle/{path.name}"] = (path, False)
    for path in sorted(prefix.rglob("*")):
        if path.is_file():
            files[f"heddle/installed/{path.relative_to(prefix)}"] = (path, os.access(path, os.X_OK))
    files[f"{info}/METADATA"] = (DISTRIBUTION_INFO.format(version=version, summary=SUMMARY).encode(), False)
    files[f"{info}/WHEEL"] = (WHEEL.format(tag=tag).encode(), False)
    files[f"{info}/entry_points.txt"] = ("[console_scripts]\n" + "".join(f"{tool} = heddle.tools:run\n" for tool in tools)).encode(), False
    out = pathlib.Path(folder) / f"heddle-{version}-{tag}.whl"
    record = ""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(name, data, is_executable):
            entry = zipfile.ZipInfo(name)  # of 1980, the oldest date of a zip file
            entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for name, (source, is_executable) in files.items():
            data = source if isinstance(source, bytes) else source.read_bytes()
            add(name, data, is_executable)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
        add(f"{info}/RECORD", record + f"{info}/RECORD,,\n", False)
    print(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
