# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""terminal_chat.py BINARY: a chat on a terminal of its own, as somebody has it who types. Prints what the terminal showed.

BINARY is a model that talks, with a context of 512 tokens. Each step sends keys and waits for what has to be shown then, so that nothing depends
on how fast the model is, and the exit status is that of the chat.
"""
import os
import pty
import select
import sys
import time

PROMPT = "\r\n> "
LONG = "Remember this: " + "one two three four five six seven eight nine ten " * 20
STEPS = [
    # what it tests, keys, what is shown then, in order
    ("begins", b"", ["/help says what can be typed", "> "]),
    ("helps", b"/help\n", ["/reset", PROMPT]),
    ("answers", b"What is the capital of France?\n", ["Paris", PROMPT]),
    ("refuses bytes that are no text", b"caf\xe9\n", ["error: ", "> "]),
    ("goes on after it", b"And of Italy?\n", ["Rome", PROMPT]),
    ("breaks an answer off", b"Write a very long story about a river.\n", ["river.\r\n", "the", b"\x03", PROMPT]),
    ("goes on after that", b"/reset\n", ["> "]),
    ("forgets", b"What is the capital of France?\n", ["Paris", PROMPT]),
    ("fills the context", LONG.encode() + b"\n", [PROMPT]),
    ("outgrows it", LONG.encode() + b"\n", ["its oldest turns are forgotten", PROMPT]),
    ("refuses what is longer than the context", LONG.encode() * 3 + b"\n", ["error: the message has", "> "]),
    ("ends", b"/exit\n", []),
]


class Terminal:
    def __init__(self, command):
        self.child, self.keys = pty.fork()
        if self.child == 0:
            os.execv(command[0], command)
        self.shown = ""
        self.at = 0  # what has been waited for

    def read(self, seconds):
        """Whether more is shown within so many seconds; False at the end too."""
        if not select.select([self.keys], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.keys, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)

    def wait_for(self, text, seconds=120):
        end = time.monotonic() + seconds
        while text not in self.shown[self.at:]:
            if time.monotonic() > end or not self.read(1) and os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return False
        self.at += self.shown[self.at:].index(text) + len(text)
        return True


def main(command):
    terminal = Terminal(command)
    for name, keys, expected in STEPS:
        os.write(terminal.keys, keys)
        for what in expected:
            if isinstance(what, bytes):
                os.write(terminal.keys, what)
            elif not terminal.wait_for(what):
                print(f"{terminal.shown}\n{name}: '{what}' was not shown after {keys[:60]}", file=sys.stderr)
                return 1
    while terminal.read(10):
        pass
    print(terminal.shown)
    return os.waitstatus_to_exitcode(os.waitpid(terminal.child, 0)[1])


if __name__ == "__main__":
    sys.exit(main([sys.argv[1], "--chat", "--temp", "0"]))
