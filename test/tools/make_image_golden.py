# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes files of images, tiny models that see them, and what PyPI's transformers says of them, with its image processors that use Pillow.

make_image_golden.py FOLDER

FOLDER/files gets PNG and JPEG files, pixels.json and pixels.safetensors: pixel_values for a list of settings (image-test.cpp reads them). Beside
it each model has a folder with config.json, model.safetensors, preprocessor_config.json and golden.json, as check_images.py reads it. Not
part of the suite, which needs neither torch nor transformers: python -m pip install torch transformers pillow
"""
import json
import pathlib
import struct
import sys
import zlib

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import numpy
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file
import transformers.image_utils
from transformers.models.beit.image_processing_pil_beit import BeitImageProcessorPil
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

PROCESSORS = {"ViT": ViTImageProcessorPil, "Beit": BeitImageProcessorPil, "DeiT": DeiTImageProcessorPil, "Bit": BitImageProcessorPil,
              "CLIP": CLIPImageProcessorPil, "ConvNext": ConvNextImageProcessorPil, "Siglip": SiglipImageProcessorPil}

# A setting of each kind: files are read as load_image does.
SETTINGS = [
    ("ViT", {"size": {"height": 24, "width": 24}}),
    ("ViT", {"size": {"height": 24, "width": 24}, "resample": 0, "do_normalize": False}),
    ("ViT", {"size": {"height": 70, "width": 70}, "resample": 1}),
    ("ViT", {"size": {"height": 24, "width": 24}, "resample": 4, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.3, 0.2, 0.1]}),
    ("ViT", {"size": {"height": 17, "width": 17}, "resample": 5, "do_rescale": False}),
    ("DeiT", {"size": {"height": 28, "width": 28}, "crop_size": {"height": 23, "width": 23}}),
    ("DeiT", {"size": {"height": 9, "width": 30}, "crop_size": {"height": 20, "width": 20}}),
    ("Bit", {"size": {"shortest_edge": 27}, "crop_size": {"height": 24, "width": 24}}),
    ("CLIP", {"size": {"shortest_edge": 12}, "crop_size": {"height": 12, "width": 12}, "rescale_factor": 0.01}),
]

# The class, what its config says beside small sizes, what preprocessor_config.json says, and how the program is asked.
SMALL = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=24, patch_size=8)
LABELS = {0: "a cat", 1: "a dog, asleep", 2: "\"nothing\"", 3: "ein Stück Käse", 4: "LABEL_4"}
MODELS = {
    "vit": ("ViTForImageClassification", SMALL | dict(id2label=LABELS), "ViT",
            {"image_processor_type": "ViTImageProcessorFast", "size": {"height": 24, "width": 24}, "do_convert_rgb": None}),
    "deit": ("DeiTForImageClassification", SMALL | dict(id2label=LABELS), "DeiT",
             {"feature_extractor_type": "DeiTFeatureExtractor", "size": 28, "crop_size": 24, "resample": 3}),
    "beit": ("BeitForImageClassification", SMALL | dict(use_relative_position_bias=True, id2label=LABELS), "Beit",
             {"feature_extractor_type": "BeitFeatureExtractor", "do_center_crop": False, "size": 24}),
    "swin": ("SwinForImageClassification", dict(image_size=24, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=3,
                                                 id2label=LABELS),
             "ViT", {"size": {"height": 24, "width": 24}, "resample": 3, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}),
    "dinov2": ("Dinov2Model", SMALL | dict(image_size=56, patch_size=4), "Bit",
               {"size": {"shortest_edge": 28}, "crop_size": {"height": 24, "width": 24}}),
    "registers": ("Dinov2WithRegistersForImageClassification",
                  SMALL | dict(image_size=40, patch_size=4, id2label=LABELS, problem_type="multi_label_classification"), "Bit",
                  {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}),
}


def load_image(path):
    """Upright and RGB. That a color of a palette was transparent is forgotten, as alpha is: some processors put white there."""
    image = transformers.image_utils.load_image(path)
    image.info.pop("transparency", None)
    return image


def draw(width, height):
    """Something with edges, flat parts and slopes."""
    y, x = numpy.mgrid[0:height, 0:width]
    red = 128 + 100 * numpy.sin(x / 7.0) + 20 * (y % 5 == 0)
    green = 255.0 * x / width * (1 - y / height)
    blue = numpy.where((x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2, 230, 30)
    return numpy.stack([red, green, blue], -1).clip(0, 255).astype(numpy.uint8)


def png(width, height, bits, color, rows, interlaced=False):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    data = b"".join(b"\0" + row for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlaced)) +
            chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def adam7(pixels):
    """The rows of an interlaced file."""
    for top, left, down, right in (0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1):
        part = pixels[top::down, left::right]
        if part.size:
            yield from (row.tobytes() for row in part)


def write_files(folder):
    folder.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(draw(61, 47))
    turned = lambda orientation: {"exif": (exif := Image.Exif(), exif.__setitem__(0x112, orientation))[0]}
    image.save(folder / "photo.png")
    image.convert("L").save(folder / "gray.png")
    alpha = image.convert("RGBA")
    alpha.putalpha(Image.fromarray(draw(61, 47)[:, :, 0]))
    alpha.save(folder / "alpha.png")
    image.quantize(11).save(folder / "palette.png", transparency=3)
    image.convert("1").save(folder / "black_and_white.png")
    Image.fromarray(draw(20, 30)).save(folder / "turned.png", **turned(6))
    Image.fromarray(draw(11, 9)).save(folder / "small.png")
    Image.fromarray(draw(13, 150)).save(folder / "tall.png")
    wide = draw(61, 47).astype(">u2") * 257
    (folder / "deep_color.png").write_bytes(png(61, 47, 16, 2, [row.tobytes() for row in wide]))
    (folder / "deep_gray.png").write_bytes(png(61, 47, 16, 0, [(row[:, 0].astype(">u2") * 3).tobytes() for row in draw(61, 47)]))
    (folder / "interlaced.png").write_bytes(png(61, 47, 8, 2, adam7(draw(61, 47)), interlaced=True))
    image.save(folder / "photo.jpg", quality=92)
    image.save(folder / "progressive.jpg", quality=80, progressive=True, subsampling=0)
    image.convert("L").save(folder / "gray.jpg", quality=85)
    image.convert("CMYK").save(folder / "cmyk.jpg", quality=90)
    image.save(folder / "turned.jpg", quality=95, subsampling=0, **turned(8))


def write_pixels(folder):
    tensors, cases = {}, []
    files = sorted(path.name for path in folder.iterdir() if path.suffix in (".png", ".jpg"))
    for index, (kind, given) in enumerate(SETTINGS):
        processor = PROCESSORS[kind](**given)
        for file in files if index in (0, 7) else ["photo.png", "tall.png", "small.png"]:
            name = f"{index}.{file}"
            tensors[name] = processor(load_image(str(folder / file)), return_tensors="pt")["pixel_values"][0]
        size, crop = processor.size or {}, processor.crop_size if processor.do_center_crop else None
        cases.append({"height": size.get("height") or 0, "width": size.get("width") or 0, "shortest_edge": size.get("shortest_edge") or 0,
                      "filter": int(processor.resample), "crop_height": crop["height"] if crop else 0, "crop_width": crop["width"] if crop else 0,
                      "factor": processor.rescale_factor if processor.do_rescale else 1.0,
                      "mean": list(processor.image_mean) if processor.do_normalize else [],
                      "deviation": list(processor.image_std) if processor.do_normalize else []})
    save_file({key: value.float().contiguous() for key, value in tensors.items()}, folder / "pixels.safetensors")
    (folder / "pixels.json").write_text(json.dumps({"transformers": transformers.__version__, "settings": cases}, indent=1) + "\n")


def make_model(kind, given):
    torch.manual_seed(11)
    config = kind.config_class(**given)
    model = kind._from_config(config, attn_implementation="eager").float().eval()
    for key, weight in model.named_parameters():
        if weight.dim() == 1:
            weight.normal_(0.0 if key.endswith("bias") else 1.0, 0.2)
        elif weight.dim() > 1:
            weight.normal_(0.0, 1.0 / weight[0].numel() ** 0.5)
    return model, config


def scores_of(logits, problem):
    return logits.sigmoid() if problem == "multi_label_classification" else logits.softmax(-1)


def write_model(folder, name, given, processor, settings, files):
    model, config = make_model(getattr(transformers, name), given)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    settings = {key: value for key, value in settings.items() if not key.endswith("_type")}
    processor = PROCESSORS[processor](**settings)
    pixels = [processor(load_image(str(files / file)), return_tensors="pt")["pixel_values"] for file in FILES]
    if hasattr(config, "id2label") and "ForImageClassification" in name:
        scores = [scores_of(model(each).logits[0], config.problem_type) for each in pixels]
        answers = [[{"label": config.id2label[int(i)], "score": float(row[i])} for i in row.argsort(descending=True)] for row in scores]
        golden = {"classify": answers}
    else:
        golden = {"embed": [model(each).pooler_output[0].tolist() for each in pixels]}
    (folder / "golden.json").write_text(json.dumps({"transformers": transformers.__version__, "files": FILES} | golden, indent=1) + "\n")


FILES = ["photo.png", "gray.png", "alpha.png", "turned.png", "tall.png", "photo.jpg"]
TEXTS = ["a photo of a cat", "A  DOG, asleep!", "ein Stück Käse", "nothing at all, of which a text says more than there is room for in the model"]


def write_tokenizer(folder, length):
    """CLIP's kind: pieces of bytes, and of bytes at a word's end, with some merges."""
    from transformers.models.clip.tokenization_clip import CLIPTokenizer
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) for byte in printable] + [chr(0x100 + i) for i in range(len(others))]
    merges = [("a", "t</w>"), ("c", "at</w>"), ("o", "g</w>"), ("d", "og</w>"), ("p", "h"), ("ph", "o"), ("t", "h"), ("th", "a")]
    pieces = letters + [letter + "</w>" for letter in letters] + ["".join(pair) for pair in merges] + ["<|startoftext|>", "<|endoftext|>"]
    tokenizer = CLIPTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges)
    tokenizer.model_max_length = length
    tokenizer.save_pretrained(folder)
    return tokenizer, len(pieces)


def write_towers(folder, files, kind, processor, settings):
    folder.mkdir(parents=True, exist_ok=True)
    length = 16
    tokenizer, size = write_tokenizer(folder, length)
    text = dict(vocab_size=size, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=length,
                bos_token_id=size - 2, eos_token_id=size - 1, pad_token_id=size - 1)
    pads = kind == "Siglip"  # texts of one length, whose padding counts
    vision = SMALL | dict(num_hidden_layers=1)
    sizes = dict(projection_dim=12) if not pads else {}
    if pads:
        text["projection_size"] = vision["hidden_size"]
    model, config = make_model(getattr(transformers, kind + "Model"), dict(text_config=text, vision_config=vision) | sizes)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    processor = processor(**{key: value for key, value in settings.items() if not key.endswith("_type")})
    pixels = torch.cat([processor(load_image(str(files / file)), return_tensors="pt")["pixel_values"] for file in FILES])
    # Each alone: nothing of another's padding.
    ids = [tokenizer([each], truncation=True, max_length=length, padding="max_length" if pads else False, return_tensors="pt")["input_ids"] for each in TEXTS]
    got = [model(input_ids=each, pixel_values=pixels) for each in ids]
    logits = torch.cat([each.logits_per_image for each in got], 1)
    golden = {"transformers": transformers.__version__, "files": FILES, "texts": TEXTS, "similarity": logits.tolist(),
              "scores": (logits.sigmoid() if pads else logits.softmax(-1)).tolist(), "image_embeds": got[0].image_embeds.tolist(),
              "text_embeds": [each.text_embeds[0].tolist() for each in got]}
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    with torch.no_grad():
        write_files(folder / "files")
        write_pixels(folder / "files")
        for name, (kind, given, processor, settings) in MODELS.items():
            write_model(folder / name, kind, given, processor, settings, folder / "files")
        write_towers(folder / "clip", folder / "files", "CLIP", CLIPImageProcessorPil,
                     {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24}})
        write_towers(folder / "siglip", folder / "files", "Siglip", SiglipImageProcessorPil,
                     {"image_processor_type": "SiglipImageProcessor", "size": {"height": 24, "width": 24}, "resample": 2})


main()
