# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a tiny model of speech with its goldens, by PyPI's transformers.

make_speech_golden.py FOLDER SOUND

SOUND is written as well: a folder with generation_config.json, which asks for what of sound as the published ones do, preprocessor_config.json, speech.wav, its
spectrograms of it and of the first of it (features.safetensors), and transcriptions.json: what the command line --audio asks for, and lines; limited.json has
those of the same folder with LIMIT in its generation_config.json. FOLDER gets what make_seq2seq_golden.py does, of Whisper: a window of one second, 16 mel bins, and a vocabulary that ends as the published ones do,
with an end, a start, two languages, two tasks and timestamps. A seed of which some greedy token is nearly a tie is passed over. Not part of
the suite, which needs neither torch nor transformers: python -m pip install torch transformers
"""
import json
import math
import pathlib
import sys
import types
import wave

import make_seq2seq_golden as seq2seq
import numpy
import torch
import transformers
from safetensors.torch import save_file

END, START = 256, 257
LANGUAGES, TASKS, WITHOUT_TIMES = {"<|en|>": 258, "<|de|>": 259}, {"translate": 260, "transcribe": 261}, 265
GENERATION = dict(decoder_start_token_id=START, eos_token_id=END, pad_token_id=END, bos_token_id=END, is_multilingual=True, lang_to_id=LANGUAGES,
                  task_to_id=TASKS, no_timestamps_token_id=WITHOUT_TIMES, max_initial_timestamp_index=20, suppress_tokens=[3, 5, 263, 264],
                  begin_suppress_tokens=[7, END], return_timestamps=False, forced_decoder_ids=[[1, None], [2, TASKS["transcribe"]]])
LIMIT = dict(max_length=9)  # less than the prompt and so many tokens take together
RATE, SHORT, NEW = 16000, 11000, 14
SIZES = dict(vocab_size=317, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=2,
             encoder_ffn_dim=40, decoder_ffn_dim=48, num_mel_bins=16, max_source_positions=50, max_target_positions=40, bos_token_id=END,
             pad_token_id=END, eos_token_id=END, decoder_start_token_id=START, begin_suppress_tokens=None)


def make_model(config, seed):
    """Random weights; norms near 1, logits of a standard deviation of LOGITS_STD."""
    torch.manual_seed(seed)
    model = transformers.WhisperForConditionalGeneration._from_config(config, attn_implementation="eager").float().eval()
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            weight.normal_(0.0 if name.endswith("bias") else 1.0, 0.2)
        else:
            weight.normal_(0.0, 1.5 / weight[0].numel() ** 0.5)
    model.model.decoder.embed_positions.weight *= 6  # else an answer says one thing over and over
    model.generate = types.MethodType(transformers.GenerationMixin.generate, model)  # a plain search, without the rules of transcription
    features = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)
    logits = model(input_features=features, decoder_input_ids=torch.randint(0, END, (1, 16))).logits
    model.get_output_embeddings().weight *= seq2seq.LOGITS_STD / logits.std()
    return model


def make_cases(model, config):
    """(cases, tensors); None where a greedy answer is unclear."""
    cases, tensors = [], {}
    for name, rows, length in (("e0", 1, 7), ("batch", 2, 5)):
        features = torch.randn(rows, config.num_mel_bins, 2 * config.max_source_positions)
        ids = torch.cat([torch.full((rows, 1), START), torch.randint(0, END, (rows, length - 1))], dim=1)
        cases.append(seq2seq.forward(model, tensors, name, input_features=features, decoder_input_ids=ids))
        if not (answers := seq2seq.greedy(model, tensors, name, input_features=features)):
            return None
        cases.append(answers)
        end = int(tensors[f"{name}.greedy_ids"][0, 3])
        for label, asked in seq2seq.SEARCHES.items():
            cases.append(seq2seq.search(model, tensors, name, label, end if "stop" in label else None, asked, input_features=features))
    return cases, tensors


def make_sound():
    """2.3 seconds of rising tones, bursts and noise, as 16-bit samples."""
    random = numpy.random.default_rng(11)
    t = numpy.arange(int(2.3 * RATE)) / RATE
    tone = numpy.sin(2 * math.pi * (180 + 420 * t) * t) * numpy.exp(-8 * ((t * 1.7) % 1 - 0.4) ** 2)
    sound = 0.4 * tone + 0.2 * numpy.sin(2 * math.pi * 2300 * t) * (numpy.sin(9 * t) > 0.3) + 0.01 * random.normal(size=t.size)
    return numpy.round(numpy.clip(sound, -1, 1) * 20000).astype(numpy.int16)


def transcribe(model, samples, extractor, times, languages, **asked):
    """The ids of all that is said, or (start, end, ids) of each segment; sound of several windows is heard with times in either case."""
    isLong, end = len(samples) > extractor.n_samples, model.generation_config.eos_token_id
    features = extractor(samples, sampling_rate=RATE, return_tensors="pt", truncation=False, padding="longest" if isLong else "max_length").input_features
    if languages and "language" not in asked:  # of the first window
        first = features[:, :, :extractor.nb_max_frames]
        asked |= dict(language=next(name for name, id in languages.items() if id == int(model.detect_language(first))), task="transcribe")
    said = model.generate(features, return_timestamps=times or isLong, return_segments=True, **asked)["segments"][0]
    words = lambda one: [token for token in one["tokens"].tolist() if token < end or token != end and not (times or isLong)]
    if not times:
        return [token for one in said for token in words(one)]
    return [(float(one["start"]), float(one["end"]), words(one)) for one in said]


def clock(seconds):
    hundredths = round(seconds * 100)
    return f"{hundredths // 360000:02}:{hundredths // 6000 % 60:02}:{hundredths // 100 % 60:02}.{hundredths % 100:02}"


def write_speech(model, folder):
    folder.mkdir(exist_ok=True)
    samples = make_sound()
    with wave.open(str(folder / "speech.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    extractor = transformers.WhisperFeatureExtractor(feature_size=SIZES["num_mel_bins"], chunk_length=1)
    (folder / "preprocessor_config.json").write_text(json.dumps(extractor.to_dict(), indent=1) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(GENERATION, indent=1) + "\n")
    model.generation_config = transformers.GenerationConfig(**GENERATION)
    heard = samples.astype(numpy.float32) / 32768
    spectrogram = lambda sound, **how: extractor(sound, sampling_rate=RATE, return_tensors="pt", **how).input_features[0].contiguous()
    save_file({"long": spectrogram(heard, truncation=False, padding="longest"), "short": spectrogram(heard[:SHORT])}, folder / "features.safetensors")
    del model.generate  # the family's own
    sounds = (heard, heard[:SHORT])
    asked = (([], False, {}), (["--language", "de", "--task", "translate"], False, dict(language="de", task="translate")),
             (["--language", "en"], False, dict(language="en")), (["--timestamps"], True, {}), (["--timestamps", "--language", "de"], True, dict(language="de")))
    write_transcriptions(folder / "transcriptions.json", model, sounds, extractor,
                         [(["-n", str(NEW), *flags], times, more | dict(max_new_tokens=NEW)) for flags, times, more in asked])
    write_limited(model, folder, sounds[1:], extractor)


def write_limited(model, folder, sounds, extractor):
    """Of sounds of one window: the reference counts what the decoder begins with once more for every window before."""
    model.generation_config = transformers.GenerationConfig(**GENERATION, **LIMIT)
    asked = (([], False, {}), (["--language", "en"], False, dict(language="en")), (["--timestamps"], True, {}), (["--beam", "3"], False, dict(num_beams=3)))
    write_transcriptions(folder / "limited.json", model, sounds, extractor, asked)


def write_transcriptions(path, model, sounds, extractor, asked):
    cases, join = [], lambda ids: ",".join(map(str, ids))
    for flags, times, more in asked:
        for samples in sounds:
            said = transcribe(model, samples, extractor, times, LANGUAGES, **more)
            lines = [f"[{clock(a)} --> {clock(b)}] {join(ids)}" for a, b, ids in said] if times else [join(said)]
            cases.append({"samples": len(samples), "flags": ["--print-ids", *flags], "lines": lines})
    path.write_text(json.dumps(cases, indent=1) + "\n")


def main():
    config = transformers.WhisperConfig(**SIZES)
    model = seq2seq.write_goldens(pathlib.Path(sys.argv[1]), "whisper", lambda seed: make_model(config, seed), lambda model: make_cases(model, config))
    write_speech(model, pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    main()
