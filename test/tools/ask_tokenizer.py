#!/usr/bin/env python3
"""ask_tokenizer.py HEDDLE MODEL: asks `heddle tokenize MODEL` two questions, the second after the answer to the first."""
import json
import subprocess
import sys

with subprocess.Popen([sys.argv[1], "tokenize", sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tool:
    for text in ("a b", "b"):
        tool.stdin.write(json.dumps({"text": text}) + "\n")
        tool.stdin.flush()
        print(tool.stdout.readline(), end="")
    tool.stdin.close()
sys.exit(tool.returncode)
