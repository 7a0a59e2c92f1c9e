# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the goldens of a published English model of speech, by PyPI's transformers.

make_whisper_golden.py MODEL FOLDER

MODEL is a Hugging Face folder (convert_whisper.py makes one), FOLDER has speech.wav and gets transcriptions.json, which check_transcriptions.py reads: what
is said in the sound, and in so many repetitions of it that they fill a window and more, with and without times. Not part of the suite, which needs neither
torch nor transformers: python -m pip install torch transformers
"""
import json
import pathlib
import sys
import tempfile
import wave

import check_transcriptions
import make_speech_golden as speech
import numpy
import torch
import transformers


def main():
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    model = transformers.WhisperForConditionalGeneration.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(source)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"))
    cases = []
    for count in (1, 11):
        for flags in ([], ["--timestamps"]):
            case = {"times": count, "flags": flags}
            with tempfile.NamedTemporaryFile(suffix=".wav") as heard:
                check_transcriptions.arrange(folder / "speech.wav", case, heard.name)
                with wave.open(heard.name) as file:
                    samples = numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16).astype(numpy.float32) / 32768
            said, text = speech.transcribe(model, samples, extractor, bool(flags), None), lambda ids: tokenizer.decode(ids).strip()
            case["lines"] = [f"[{speech.clock(a)} --> {speech.clock(b)}] {text(ids)}" for a, b, ids in said] if flags else [text(said)]
            cases.append(case)
    (folder / "transcriptions.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
