# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""same_bits.py HEDDLE PLUGIN MODEL PASS… [--FLAG…]: compiles a model as it is, and once with each PASS at the end of stage schedule.

All programs read the same prompt and continue it; what each writes must have the bits of the first one's answer. A program checks its
weights and takes less than 64 MiB on the disk, however long its file is. Flags are passed to `heddle compile`.
"""
import os
import subprocess
import sys
import tempfile

import safetensors

MOST_DISK = 64 << 20


def answer(program, prompt, out):
    subprocess.run([program, "--check"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([program, "--io", prompt, out, "-n", "6", "--temp", "0", "--ignore-eos"], check=True)
    with open(out, "rb") as file:
        return file.read()


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    flags = [word for word in sys.argv[1:] if word.startswith("--")]
    heddle, plugin, model, *passes = words
    with tempfile.TemporaryDirectory() as folder:
        prompt, program, out = (os.path.join(folder, name) for name in ("prompt", "program", "out"))
        safetensors.save(prompt, {"input_ids": ("I64", (1, 20), [(7 * i + 3) % 60 for i in range(20)])})
        expected = None
        for name in [None, *passes]:
            extra = [f"--load-pass-plugin={plugin}", f"--add-pass=after-schedule:{name}"] if name else []
            subprocess.run([heddle, "compile", model, "-o", program, "--quiet", *flags, *extra], check=True)
            files = [path for path in (program, program + ".weights") if os.path.exists(path)]
            size, disk = (sum(numbers) for numbers in zip(*((os.stat(f).st_size, 512 * os.stat(f).st_blocks) for f in files)))
            found = answer(program, prompt, out)
            print(f"{os.path.basename(model)} {name or 'as it is'}: {size} bytes, {disk} on the disk")
            if disk > MOST_DISK:
                sys.exit(f"same_bits.py: {disk} bytes on the disk, expected at most {MOST_DISK}")
            if expected is not None and found != expected:
                sys.exit("same_bits.py: another answer than that of the model as it is")
            expected = found


if __name__ == "__main__":
    main()
