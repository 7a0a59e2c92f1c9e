# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds up what the test runners counted and closes with 'N passed, M failed, K skipped'.

tally.py FOLDER gtest LABEL STATUS               what run_gtest.py left of a GoogleTest program, and its exit status
tally.py FOLDER lit LABEL STATUS REPORT.json      lit's exit status and --output file
tally.py FOLDER status LABEL STATUS               a program that is one test
tally.py FOLDER skipped LABEL REASON              such a program that could not run here
tally.py FOLDER fuzz BINARIES SECONDS             runs each BINARIES/fuzz-* for so long; one test each
tally.py FOLDER close                             prints how each failure ended, the table and the closing line; status 1 unless all passed

A runner that died without a report, or whose status contradicts its counts, counts as one failure more.
"""
import json
import pathlib
import subprocess
import sys

TEST_FOLDER = pathlib.Path(__file__).resolve().parent.parent
# Good inputs that a fuzzer starts from, below test/; the others find their way from nothing.
FUZZ_SEEDS = {"fuzz-dialect": "dialect/*.mlir", "fuzz-gguf": "models/gguf/*.gguf", "fuzz-mmproj": "fuzz/seeds/mmproj/*", "fuzz-onnx": "onnx/node/*.onnx",
              "fuzz-tokenizer": "fuzz/seeds/tokenizer/*"}
LIT_PASSED = {"PASS", "XFAIL", "FLAKYPASS"}
# SKIPPED is none of them: lit was ended before such a test.
LIT_SKIPPED = {"UNSUPPORTED", "EXCLUDED"}
LAST_LINES = 40  # of what a failure said


def last_lines(text):
    """Where a test said why it failed. What lit's commands say after the one that failed is nothing."""
    return text.rstrip().splitlines()[-LAST_LINES:]


def count_gtest(report):
    """(passed, failed, skipped, failures: a name and last lines each) of a GoogleTest report."""
    passed = skipped = 0
    failures = []
    for suite in report["testsuites"]:
        for case in suite["testsuite"]:
            name = f"{suite['name']}.{case['name']}"
            if case["status"] != "RUN":
                continue  # filtered out or disabled
            if case.get("failures"):
                failures.append((name, last_lines("\n".join(failure["failure"] for failure in case["failures"]))))
            elif case["result"] == "SKIPPED":
                skipped += 1
            elif case["result"] == "COMPLETED":
                passed += 1
            else:
                failures.append((name, []))  # started, never finished
    return passed, len(failures), skipped, failures


def count_lit(report):
    """(passed, failed, skipped, failures: a name and last lines each) of a lit report."""
    failures = [(f"{test['name']} ({test['code']})", last_lines(test["output"]))
                for test in report["tests"] if test["code"] not in LIT_PASSED | LIT_SKIPPED]
    codes = [test["code"] for test in report["tests"]]
    passed = sum(code in LIT_PASSED for code in codes)
    # EXCLUDED: the filter left it out; that is no skip.
    skipped = sum(code in LIT_SKIPPED - {"EXCLUDED"} for code in codes)
    return passed, len(failures), skipped, failures


def read_counts(kind, paths, status):
    """What the reports say together, and one failure for each that cannot be read."""
    passed = failed = skipped = 0
    failures = []
    for path in paths:
        try:
            report = json.loads(path.read_text())
            counts = (count_gtest if kind == "gtest" else count_lit)(report)
        except (OSError, ValueError, KeyError) as error:
            died, log = path.with_suffix(".died"), path.with_suffix(".log")
            name = f"ended by {died.read_text()}" if died.exists() else f"no report (exit status {status}): {error}"
            counts = 0, 1, 0, [(name, last_lines(log.read_text(errors="replace")) if log.exists() else [])]
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
        failures += counts[3]
    # lit exits with 2 where a filter selects nothing.
    if status != 0 and failed == 0 and (passed + skipped > 0 or kind == "gtest"):
        failed += 1
        failures.append((f"exit status {status} with every test passed", []))
    return passed, failed, skipped, failures


def seeds_of(binary, corpus):
    """The flag that names a fuzzer's seeds, if it has some that are small enough to change."""
    files = [path for path in sorted(TEST_FOLDER.glob(FUZZ_SEEDS.get(binary.name, "no file"))) if path.stat().st_size < 65536]
    if not files:
        return []
    names = pathlib.Path(f"{corpus}.seeds")
    names.write_text(",".join(map(str, files)))
    return [f"-seed_inputs=@{names}"]


def run_fuzzers(folder, seconds):
    binaries = sorted(pathlib.Path(folder).glob("fuzz-*"))
    failures = []
    for binary in binaries:
        corpus = binary.parent / f"corpus-{binary.name}"
        corpus.mkdir(exist_ok=True)
        command = [str(binary), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048",
                   f"-artifact_prefix={corpus}.", "-print_final_stats=1", *seeds_of(binary, corpus), str(corpus)]
        if subprocess.run(command).returncode != 0:
            failures.append((binary.name, []))
    if not binaries:
        failures.append((f"no fuzzer in {folder}", []))
    return len(binaries) - len(failures) if binaries else 0, len(failures), 0, failures


def close(ledger):
    totals = [0, 0, 0]
    for label, _, _, _, notes in ledger:
        for note, lines in notes:
            if lines:
                print(f"== {label}: {note}, which ended with:", *lines, sep="\n")
    for label, passed, failed, skipped, notes in ledger:
        print(f"{label:>16}: {passed} passed, {failed} failed, {skipped} skipped")
        for note, _ in notes:
            print(f"{'':>16}  {'FAILED' if failed else 'skipped:'} {note}")
        totals = [totals[0] + passed, totals[1] + failed, totals[2] + skipped]
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 0 if totals[1] == 0 and totals[0] > 0 else 1


def main(arguments):
    folder, action, *rest = arguments
    path = pathlib.Path(folder) / "tally.json"
    ledger = json.loads(path.read_text()) if path.exists() else []
    if action == "close":
        return close(ledger)
    if action == "fuzz":
        label, counts = "fuzz", run_fuzzers(rest[0], int(rest[1]))
    elif action == "status":
        label, failed = rest[0], int(rest[1]) != 0
        counts = (int(not failed), int(failed), 0, [(f"exit status {rest[1]}", [])] if failed else [])
    elif action == "skipped":
        label, counts = rest[0], (0, 0, 1, [(rest[1], [])])
    else:
        label, status, *paths = rest
        if action == "gtest":
            reports = [log.with_suffix(".json") for log in sorted(pathlib.Path(folder).glob(f"{label}.[0-9]*.log"))]
        else:
            reports = [pathlib.Path(path) for path in paths]
        counts = read_counts(action, reports, int(status))
    ledger.append([label, *counts])
    path.write_text(json.dumps(ledger))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
