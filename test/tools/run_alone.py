# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a program in a file system that holds nothing but the program, the loader, libc.so.6 and libm.so.6.

run_alone.py [--root FOLDER] PROGRAM [ARGUMENT…]

No /proc, no /sys, no /dev, no other library. Needs the right to chroot: root, or an unprivileged user namespace. Exits with
the program's status, or with 77 where the machine allows neither.
"""
import os
import pathlib
import shutil
import sys
import tempfile

from elf import Elf

LIBRARY_FOLDERS = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib"]
CLONE_NEWUSER = 0x10000000
UNSUPPORTED = 77


def populate(root, program):
    elf = Elf(program)
    loader, = elf.interpreter()
    wanted = {"libc.so.6": "/lib/x86_64-linux-gnu", "libm.so.6": "/lib/x86_64-linux-gnu"}
    files = [(loader, loader)]
    for name, folder in wanted.items():
        source = next(f"{f}/{name}" for f in LIBRARY_FOLDERS if os.path.exists(f"{f}/{name}"))
        files.append((source, f"{folder}/{name}"))
    for source, target in files:
        path = root / target.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(source), path)
    inside = root / "program"
    try:
        os.link(os.path.realpath(program), inside)
    except OSError:
        shutil.copy(program, inside)
    inside.chmod(0o755)


def enter(root):
    """Makes `root` the root folder; through a user namespace where the user is not root."""
    if os.getuid() != 0:
        import ctypes
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
            return False
    try:
        os.chroot(root)
    except PermissionError:
        return False
    os.chdir("/")
    return True


def main(arguments):
    parent = None
    if arguments[:1] == ["--root"]:
        parent, arguments = arguments[1], arguments[2:]
    program, *rest = arguments
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        root = pathlib.Path(folder)
        populate(root, program)
        child = os.fork()
        if child == 0:
            if not enter(root):
                os._exit(UNSUPPORTED)
            try:
                os.execve("/program", ["/program", *rest], {})
            except OSError as error:
                os.write(2, f"run_alone.py: {error}\n".encode())
                os._exit(126)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
