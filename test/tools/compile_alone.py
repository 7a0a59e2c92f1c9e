# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a model with an installed Heddle where there is nothing else, and runs what comes out.

compile_alone.py PREFIX MODEL ARGUMENT…: moves the folder PREFIX into a root folder that holds the C library and the compilers' own
libraries alone. There every tool says --help, `heddle compile` compiles MODEL, and the output runs with ARGUMENT…; PREFIX moves back.
Needs the right to mount: root, or an unprivileged user namespace. Exits with 77 where the machine allows neither.
"""
import ctypes
import os
import pathlib
import shutil
import sys
import tempfile

from run_alone import CLONE_NEWUSER, LIBRARY_FOLDERS, UNSUPPORTED

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
LOADER = "/lib64/ld-linux-x86-64.so.2"
LIBRARIES = ["libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1"]
INSIDE = "/some where/heddle"


def populate(root):
    files = {LOADER: LOADER}
    for name in LIBRARIES:
        files[f"/lib/x86_64-linux-gnu/{name}"] = next(f"{f}/{name}" for f in LIBRARY_FOLDERS if os.path.exists(f"{f}/{name}"))
    for inside, source in files.items():
        path = root / inside.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(source), path)
    for folder in ("dev", "proc", "tmp", os.path.dirname(INSIDE).lstrip("/")):
        (root / folder).mkdir(parents=True)


def enter(root):
    """Makes `root` the root folder, with the machine's /proc and /dev in it, of this process alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if os.getuid() != 0 else 0)) != 0:
        return False
    if libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return False
    for folder in ("proc", "dev"):
        if libc.mount(f"/{folder}".encode(), bytes(root / folder), None, MS_BIND | MS_REC, None) != 0:
            return False
    os.chroot(root)
    os.chdir("/")
    return True


def run(root, *command, quiet=False):
    child = os.fork()
    if child == 0:
        if not enter(root):
            os._exit(UNSUPPORTED)
        if quiet:
            os.dup2(os.open("/output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        try:
            os.execve(command[0], command, {})
        except OSError as error:
            os.write(2, f"compile_alone.py: {command[0]}: {error}\n".encode())
            os._exit(126)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == UNSUPPORTED:
        sys.exit(UNSUPPORTED)
    if status != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {status}")


def main(prefix, model, *arguments):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(prefix))) as folder:
        root = pathlib.Path(folder)
        populate(root)
        shutil.copytree(model, root / "model")
        moved = root / INSIDE.lstrip("/")
        os.rename(prefix, moved)
        try:
            for tool in sorted(os.listdir(moved / "bin")):
                run(root, f"{INSIDE}/bin/{tool}", "--help", quiet=True)
            run(root, f"{INSIDE}/bin/heddle", "compile", "/model", "-o", "/compiled", "--quiet")
            run(root, "/compiled", *arguments)
        finally:
            os.rename(moved, prefix)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RuntimeError as error:
        sys.exit(f"compile_alone.py: {error}")
