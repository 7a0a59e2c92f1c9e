# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""prompt_ids.py HEDDLE MODEL TEXT: prints the ids of TEXT as a prompt, separated by commas."""
import json
import subprocess
import sys


def main():
    heddle, model, text = sys.argv[1:]
    answer = subprocess.run([heddle, "tokenize", model], input=json.dumps({"text": text}) + "\n", text=True, check=True,
                            stdout=subprocess.PIPE).stdout
    print(",".join(str(token) for token in json.loads(answer)["ids"]))


if __name__ == "__main__":
    main()
