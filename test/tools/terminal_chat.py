# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""terminal_chat.py WHAT COMMAND…: a chat on a terminal of its own, as somebody has it who types. Prints what the terminal showed.

COMMAND runs a model that talks, with a context of 512 tokens. WHAT names the steps. Each sends keys and waits for what has to be shown then, so
that nothing depends on how fast the model is, and the exit status is that of the chat.
"""
import os
import pty
import re
import select
import signal
import sys
import termios
import time

PROMPT = "\r\n> "
LONG = "Remember this: " + "one two three four five six seven eight nine ten " * 20
ASKED = b"Say that again.\n"
CONTROLS = re.compile(r"\x1b(\[[0-9;?]*([a-zA-Z]|$)|$)")
INTERRUPT, UP, LEFT, BACKSPACE, TAB = b"\x03", b"\x1b[A", b"\x1b[D", b"\x7f", b"\t"


class Terminal:
    def __init__(self, command):
        self.child, self.keys = pty.fork()
        if self.child == 0:
            os.environ["TERM"] = "xterm"
            os.execvp(command[0], command)
        self.modes = termios.tcgetattr(self.keys)
        self.data = b""
        self.shown = ""  # without what moves the cursor or sets modes
        self.at = 0  # what has been waited for
        self.answers = []

    def read(self, seconds):
        """Whether more is shown within so many seconds; False at the end too."""
        if not select.select([self.keys], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.keys, 65536)
        except OSError:  # the other side is closed
            return False
        self.data += data
        self.shown = CONTROLS.sub("", self.data.decode("utf-8", "replace"))
        return bool(data)

    def wait_for(self, text, seconds=120):
        end = time.monotonic() + seconds
        while text not in self.shown[self.at:]:
            if time.monotonic() > end or not self.read(1) and os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return False
        self.at += self.shown[self.at:].index(text) + len(text)
        return True

    def keep_answer(self):
        """What is shown between the question and the next prompt. What is typed before an editor takes the terminal is echoed twice."""
        start = self.at
        if not self.wait_for(PROMPT):
            return False
        self.answers.append(self.shown[start:self.at].rpartition("again.\r\n")[2])
        return True

    def wait_for_end(self, seconds=60):
        end = time.monotonic() + seconds
        while not os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if time.monotonic() > end:
                os.kill(self.child, signal.SIGKILL)
                return False
            time.sleep(0.05)
        return True

    def resize(self):
        os.kill(self.child, signal.SIGWINCH)
        return True

    def stop_and_go_on(self):
        """As Ctrl-Z and fg do: a shell gives the terminal its own modes in between."""
        os.kill(self.child, signal.SIGSTOP)
        os.waitid(os.P_PID, self.child, os.WSTOPPED | os.WNOWAIT)
        termios.tcsetattr(self.keys, termios.TCSANOW, self.modes)
        os.kill(self.child, signal.SIGCONT)
        return self.wait_for_editor()

    def wait_for_editor(self):
        """Before it takes the terminal, keys that edit a line are the kernel's to read."""
        end = time.monotonic() + 60
        while termios.tcgetattr(self.keys)[3] & termios.ICANON and time.monotonic() < end:
            time.sleep(0.01)
        return time.monotonic() < end


# A step is what it tests, then in order: keys, what has to be shown then, and methods of the terminal.
STEPS = {
    "conversation": [
        ("begins", "/help says what can be typed", "> "),
        ("helps", b"/help\n", "/reset", PROMPT),
        ("has nothing to remember", ASKED, "again.\r\n", Terminal.keep_answer),
        ("answers", b"What is the capital of France?\n", "Paris", PROMPT),
        ("refuses bytes that are no text", b"caf\xe9\n", "error: the message is not UTF-8", "> "),
        ("goes on after it", b"And of Italy?\n", "Rome", PROMPT),
        ("goes on in a next line", b"And of \\\n", ". ", b"Spain?\n", "Madrid", PROMPT),
        ("remembers", ASKED, "again.\r\n", Terminal.keep_answer),
        ("breaks an answer off", b"Write a very long story about a river.\n", "river.\r\n", "the", INTERRUPT, PROMPT),
        ("forgets", b"/reset\n", "> ", ASKED, "again.\r\n", Terminal.keep_answer),
        ("fills the context", LONG.encode() + b"\n", PROMPT),
        ("outgrows it", LONG.encode() + b"\n", "its oldest turns are forgotten", PROMPT),
        ("refuses what is longer than the context", LONG.encode() * 3 + b"\n", "error: the message has", "the context 512", "> "),
        ("goes on after that", b"/reset\n", "> ", b"What is the capital of France?\n", "Paris", PROMPT),
        ("ends", b"/exit\n"),
    ],
    # No step needs an answer of the model: /help is there to be typed wrongly.
    "editing": [
        ("begins", "/help says what can be typed", "> "),
        ("inserts", b"/hep" + LEFT + b"l\n", "/reset", "Lines are edited by", PROMPT),
        ("recalls a line", UP + b"\n", "/reset", PROMPT),
        ("recalls an earlier line", b"/reset\n", PROMPT[2:], UP + UP + b"\n", "/reset", PROMPT),
        ("erases characters, not bytes", "é中".encode() + BACKSPACE * 2 + b"/help\n", "/reset", PROMPT),
        ("refuses what is no text", b"caf\xe9\n", "error: the message is not UTF-8", PROMPT),
        ("completes no names of files", TAB + BACKSPACE + b"/help\n", "/reset", PROMPT),
        ("drops a line", b"/exit", "/exit", INTERRUPT, PROMPT, b"/help\n", "/reset", PROMPT),
        ("drops a message of two lines", b"never said\\\n", ". ", b"nor this", "nor this", INTERRUPT, PROMPT, b"/help\n", "/reset", PROMPT),
        ("lives through another size of its window", b"/he", "/he", Terminal.resize, b"lp\n", "/reset", PROMPT),
        ("lives through Ctrl-Z", b"/hex", "/hex", Terminal.stop_and_go_on, BACKSPACE + b"lp\n", "/reset", PROMPT),
        ("ends at Ctrl-D", b"\x04"),
    ],
    "recalling": [
        ("begins", "/help says what can be typed", "> "),
        ("recalls a line of the chat before", UP + b"\n", "/reset", PROMPT),
        ("ends at Ctrl-D", b"\x04"),
    ],
    "refused": [
        ("says why", "error: "),
    ],
    "plain": [
        ("begins", "/help says what can be typed", "> "),
        ("says so", b"/help\n", "Lines are plain: ", PROMPT),
        ("ends at Ctrl-C", INTERRUPT),
    ],
}


# Whose keys are for an editor.
EDITED = {"editing", "recalling"}


def run(terminal, what):
    for name, *parts in STEPS[what]:
        for part in parts:
            if isinstance(part, bytes):
                if what in EDITED and not terminal.wait_for_editor():
                    print(f"{terminal.shown}\n{name}: no editor took the terminal", file=sys.stderr)
                    return 1
                os.write(terminal.keys, part)
            elif not (terminal.wait_for(part) if isinstance(part, str) else part(terminal)):
                print(f"{terminal.shown}\n{name}: {part!r} was waited for in vain", file=sys.stderr)
                return 1
    while terminal.read(10):
        pass
    print(terminal.shown)
    if terminal.answers:
        fresh, later, after_reset = terminal.answers
        if fresh != after_reset or fresh == later:
            print(f"at first: {fresh!r}\nlater: {later!r}\nafter /reset: {after_reset!r}", file=sys.stderr)
            return 1
    if not terminal.wait_for_end():
        print(f"{terminal.shown}\nthe chat did not end", file=sys.stderr)
        return 1
    return os.waitstatus_to_exitcode(os.waitpid(terminal.child, 0)[1])


if __name__ == "__main__":
    sys.exit(run(Terminal(sys.argv[2:]), sys.argv[1]))
