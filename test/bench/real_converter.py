# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts checkpoints of Hugging Face to GGUF by llama.cpp's own converter, and compares what they then answer with their goldens.

real_converter.py HEDDLE CONVERTER FOLDER…

CONVERTER is the folder vendor/llama.cpp of the source package of PyPI llama-cpp-python: `pip download --no-deps --no-binary :all: llama-cpp-python`,
unpacked. Each FOLDER holds a checkpoint, golden.json and golden.safetensors, as those of test/models do. Vocabularies that the converter refuses
are left out. Needs torch, transformers and safetensors. One line per folder: same, the first broken promise, or why it was not converted.

A file that differs need not be misread: the converter drops what llama.cpp does not know (a norm of scores that is off, the distance of T5's last
bucket), and reads old names of keys that new checkpoints no longer have. What llama.cpp computes from the same file decides.
"""
import logging
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).parent.parent / "tools/check_golden.py"


def convert(converter, folder, out, answer):
    sys.path[:0] = [str(converter), str(converter / "gguf-py")]
    try:
        import gguf
        import conversion
        from conversion.base import TextModel

        logging.disable(logging.CRITICAL)
        told = TextModel.get_vocab_base_pre

        def pre_tokenizer(self, tokenizer):
            try:
                return told(self, tokenizer)
            except NotImplementedError:  # of a vocabulary that was made for a test
                return "gpt-2"

        TextModel.get_vocab_base_pre = pre_tokenizer
        config = conversion.ModelBase.load_hparams(folder, False)
        kind = conversion.get_model_class(conversion.get_model_architecture(config, conversion.ModelType.TEXT))
        usual = kind.set_vocab

        def set_vocab(self):
            keys = self.gguf_writer.kv_data[0]
            try:
                usual(self)
                if "tokenizer.ggml.merges" in keys or keys["tokenizer.ggml.model"].value != "gpt2":
                    return
            except Exception:
                pass
            for key in [key for key in keys if key.startswith("tokenizer.")]:
                del keys[key]
            self._set_vocab_none()
            if not any(key.endswith(".vocab_size") for key in keys):
                self.gguf_writer.add_vocab_size(config.get("text_config", config)["vocab_size"])

        kind.set_vocab = set_vocab
        kind(folder, gguf.LlamaFileType.ALL_F32, out, is_big_endian=False, use_temp_file=False, eager=True).write()
        answer.put("")
    except BaseException as error:
        answer.put(f"not converted: {type(error).__name__}: {' '.join(str(error).split())[:160]}")


def answered(heddle, converter, folder, out):
    answer = multiprocessing.Queue()
    process = multiprocessing.Process(target=convert, args=(converter, folder, out, answer))
    process.start()
    said = answer.get()
    process.join()
    if said:
        return said
    check = subprocess.run([sys.executable, CHECK, heddle, folder, "--only=forward,greedy", f"--model={out}"], capture_output=True, text=True)
    return check.stdout.split("\n")[0] if check.returncode else "same"


def main():
    heddle, converter, *folders = sys.argv[1:]
    for folder in map(pathlib.Path, folders):
        with tempfile.TemporaryDirectory() as box:
            print(f"{folder.name}: {answered(heddle, pathlib.Path(converter), folder, pathlib.Path(box) / 'model.gguf')}", flush=True)


if __name__ == "__main__":
    main()
