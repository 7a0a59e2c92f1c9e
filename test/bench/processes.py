# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that the suite runs, and engines beside ours that answer lines while they live."""
import json
import pathlib
import subprocess
import tempfile


class Unmeasured(Exception):
    """Why something is left out of the report."""


def run(command, limit=1800):
    """Its stdout; Unmeasured says what it said last where it fails."""
    result = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit)
    if result.returncode:
        said = (result.stderr.strip() or f"exit status {result.returncode}").splitlines()[-1]
        raise Unmeasured(f"{pathlib.Path(command[0]).name}: {said}")
    return result.stdout


class Peer:
    """An engine in a process of its own, which answers a line of JSON by one."""

    def __init__(self, what, command):
        self.name, self.said = what, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said)
        self.pid = self.process.pid
        self.name = self.answer()["name"]

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        status = self.process.wait()
        self.said.seek(0)
        raise Unmeasured(f"{self.name}: {(self.said.read().strip() or f'exit status {status}').splitlines()[-1]}")

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.kill()  # it has nothing to save, and may be amid a round
        self.process.communicate()
