# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_images.py BIN FOLDER FILES BOX: what BIN makes of images is what FOLDER/golden.json says (make_image_golden.py wrote it).

The files, which lie in the folder FILES, as arguments and as lines of standard input, all at once and one by one: the same bytes. Prints one line
per broken promise; exit status 1 if there is any.
"""
import json
import pathlib
import sys

from check_texts import read_npy, run

# Of PNG files; decoders of JPEG differ by a step or two of a color.
LIMIT, JPEG_LIMIT = 1e-4, 3e-2


def limit_of(file):
    return JPEG_LIMIT if file.endswith(".jpg") else LIMIT


def differ(got, want, limit):
    return len(got) != len(want) or any(abs(a - b) > limit for a, b in zip(got, want))


def check_labels(binary, golden, paths):
    faults = []
    lines = run(binary, "--classify", "--json", *paths).splitlines()
    for file, line, want in zip(golden["files"], lines, golden["classify"], strict=True):
        answer = json.loads(line)
        got = {each["label"]: each["score"] for each in answer["labels"]}
        wanted = {each["label"]: each["score"] for each in want}
        order = [each["score"] for each in answer["labels"]]
        if answer["schema"] != "heddle-labels-1" or got.keys() != wanted.keys() or order != sorted(order, reverse=True) or \
                differ([got[key] for key in wanted], list(wanted.values()), limit_of(file)):
            faults.append(f"--classify {file}: {line}, expected {want}")
    text = run(binary, "--classify", "--top-k", "2", *paths)
    best = "".join(f"{path}\n" + "".join(f"  {each['score']:.4f}  {each['label']}\n" for each in json.loads(line)["labels"][:2])
                   for path, line in zip(paths, lines))
    if text != best:
        faults.append(f"--classify --top-k 2: {text}, expected {best}")
    return faults + check_ways(binary, "--classify", paths, [])


def check_ways(binary, command, paths, options):
    """Files as arguments, as lines of standard input, and alone."""
    given = run(binary, command, *options, *paths, "--threads", "1")
    faults = []
    if run(binary, command, *options, "--threads", "2", text="".join(path + "\n" for path in paths)) != given:
        faults.append(f"{command}: lines of standard input give something else")
    if "".join(run(binary, command, *options, path) for path in paths) != given:
        faults.append(f"{command}: files alone give something else")
    return faults


def check_vectors(binary, words, names, wanted, box):
    faults = []
    values = [json.loads(line) for line in run(binary, "--embed", *words).splitlines()]
    for name, got, want in zip(names, values, wanted, strict=True):
        if differ(got, want, 30 * limit_of(name) if name.endswith(".jpg") else limit_of(name)):
            faults.append(f"--embed {name}: {got}, expected {want}")
    run(binary, "--embed", "--npy", str(box / "out.npy"), *words)
    if [len(row) for row in read_npy(box / "out.npy")] != [len(row) for row in values]:
        faults.append("--npy: another shape than in JSON")
    return faults


def check_similarity(binary, golden, paths, box):
    images = [word for path in paths for word in ("--image", path)]
    lines = run(binary, "--similarity", "--json", *images, *golden["texts"]).splitlines()
    faults = []
    for file, path, line, logits, scores in zip(golden["files"], paths, lines, golden["similarity"], golden["scores"], strict=True):
        answer = json.loads(line)
        by_index = sorted(answer["texts"], key=lambda each: each["index"])
        limit = limit_of(file)
        if answer["image"] != path or [each["text"] for each in by_index] != golden["texts"] or \
                differ([each["score"] for each in by_index], scores, limit) or differ([each["logit"] for each in by_index], logits, 30 * limit):
            faults.append(f"--similarity {file}: {line}, expected {logits} {scores}")
    if run(binary, "--similarity", "--json", *images, text="".join(text + "\n" for text in golden["texts"])).splitlines() != lines:
        faults.append("--similarity: lines of standard input give something else")
    if run(binary, "--similarity", "--top-k", "1", *images[:2], *golden["texts"]).count("\n") != 2:
        faults.append("--similarity --top-k 1: not one text below the image")
    faults += check_vectors(binary, images, golden["files"], golden["image_embeds"], box)
    faults += check_vectors(binary, golden["texts"], golden["texts"], golden["text_embeds"], box)
    return faults + check_vectors(binary, images[:2] + golden["texts"][:1], ["image", "text"],
                                  [golden["image_embeds"][0], golden["text_embeds"][0]], box)


def main():
    binary, folder, files, box = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
    golden = json.loads((folder / "golden.json").read_text())
    paths = [str(files / name) for name in golden.get("files", [])]
    if "similarity" in golden:
        faults = check_similarity(binary, golden, paths, box)
    elif "classify" in golden:
        faults = check_labels(binary, golden, paths)
    elif paths:
        faults = check_vectors(binary, paths, golden["files"], golden["embed"], box) + check_ways(binary, "--embed", paths, [])
    else:
        faults = check_vectors(binary, golden["texts"], golden["texts"], golden["text_embeds"], box)
    for fault in faults:
        print(fault)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
