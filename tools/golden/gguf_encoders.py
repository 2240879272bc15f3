"""Descriptions of the GGUF files that llama.cpp's converter makes of the folders in model/testdata/encoders and classifiers, and of
cmd/weir/testdata/rerankers.

    pip install -r encoders-requirements.txt gguf==0.19.0 sentencepiece==0.2.3
    python gguf_encoders.py LLAMA_CPP ../../model/testdata [NAME...]

LLAMA_CPP is what gguf_families.py wants. Writes model/testdata/gguf-encoders/NAME.json in the form of that script, with the tokenizer's
metadata, which are the converter's own here. Three things stand between the folders and the converter. It knows the tokenizers of published
models by their hashes, so that the names of their word splits are given to it. It wants a Unigram vocabulary, and that of Gemma, as
sentencepiece writes it, so that such a file is made of tokenizer.json. And it wants what only published configurations have.
"""
import contextlib
import io
import importlib.metadata
import json
import pathlib
import runpy
import shutil
import sys
import tempfile

import gguf_families
import numpy as np
import torch
from gguf_families import GGUF, counting, describe, keys_of, make
from safetensors.torch import load_file, save_file

# What published configurations have, and the converter reads.
PUBLISHED = {
    # Transformers knows the type, but not the names of these settings.
    "nomic-own": {"n_positions": 8192, "max_trained_positions": 2048, "rotary_emb_scale_base": None, "model_type": "nomic_bert_own"},
    "cross-distilbert": {"id2label": {"0": "no", "1": "yes"}},  # two labels without names are taken for none
}
FOLDERS = ["minilm", "bge", "roberta", "xlm-roberta", "distilbert", "modernbert", "nomic-own", "embeddinggemma", "qwen3",
           "cross-bert", "cross-roberta", "cross-xlm-roberta", "cross-distilbert", "cross-modernbert", "causal", "plain"]


def charsmap(rules):
    """A map of characters as sentencepiece stores it."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        (at / "rules.tsv").write_text("".join(f"{a:X}\t{b:X}\n" for a, b in rules))
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c a b", "b c a b"] * 20), model_prefix=str(at / "m"), vocab_size=8, hard_vocab_limit=False,
                                                 normalization_rule_tsv=str(at / "rules.tsv"), minloglevel=2)
        m = sentencepiece_model_pb2.ModelProto()
        m.ParseFromString((at / "m.model").read_bytes())
        return m.normalizer_spec.precompiled_charsmap


def sentencepiece_file(folder):
    """The vocabulary of tokenizer.json as a file of sentencepiece, as XLM-R and Gemma have it."""
    from sentencepiece import sentencepiece_model_pb2
    t = json.loads((folder / "tokenizer.json").read_text())
    kind, vocab = t["model"]["type"], t["model"]["vocab"]
    m = sentencepiece_model_pb2.ModelProto()
    piece = m.SentencePiece
    special = {a["id"]: a["content"] for a in t["added_tokens"]}
    if kind == "Unigram":
        m.trainer_spec.model_type = 1
        m.normalizer_spec.add_dummy_prefix = m.normalizer_spec.remove_extra_whitespaces = True
        m.normalizer_spec.precompiled_charsmap = charsmap([(9, 32)])
        for name, k in (("<unk>", piece.UNKNOWN), ("<s>", piece.CONTROL), ("</s>", piece.CONTROL)):
            m.pieces.add(piece=name, score=0, type=k)
        for i in range(4, len(vocab)):  # the tokenizer counts <pad>, too
            m.pieces.add(piece=vocab[i][0], score=vocab[i][1], type=piece.CONTROL if i in special else piece.NORMAL)
        (folder / "sentencepiece.bpe.model").write_bytes(m.SerializeToString())
        return
    m.trainer_spec.model_type = 2
    m.trainer_spec.byte_fallback = True
    m.normalizer_spec.add_dummy_prefix = m.normalizer_spec.remove_extra_whitespaces = False
    for name, i in sorted(vocab.items(), key=lambda x: x[1]):
        k = piece.UNKNOWN if name == "<unk>" else piece.CONTROL if i in special else piece.BYTE if name.startswith("<0x") else piece.NORMAL
        m.pieces.add(piece=name, score=-float(i) if k == piece.NORMAL else 0, type=k)
    (folder / "tokenizer.model").write_bytes(m.SerializeToString())


def prepare(source):
    sys.path[:0] = [str(source / "gguf-py"), str(source)]  # the converter comes with a gguf package of its own
    from conversion import base
    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"


def reset():
    """The converter keeps the dense modules of one model for the next."""
    from conversion.gemma import EmbeddingGemma
    EmbeddingGemma.module_paths, EmbeddingGemma.dense_features_dims = [], {}


def stored(folder):
    """The tensors of the network, and of modules below the names of their folders."""
    tensors = load_file(folder / "model.safetensors")
    for path in sorted(folder.glob("*_Dense/model.safetensors")):
        tensors.update({f"{path.parent.name}/{k}": v for k, v in load_file(path).items()})
    return {k: v.float() for k, v in tensors.items()}  # so that what is added to norms is not rounded


def convert(source, folder, tensors):
    """The metadata and the tensors of what the converter makes of a folder with these tensors."""
    import gguf
    reset()
    with tempfile.TemporaryDirectory() as place:
        at = pathlib.Path(place) / ("Qwen3-Reranker-tiny" if folder.parent.name == "rerankers" else folder.name)  # which it knows by its name
        shutil.copytree(folder, at)
        doc = json.loads((at / "config.json").read_text())
        doc.update(PUBLISHED.get(folder.name, {}))
        (at / "config.json").write_text(json.dumps(doc))
        for below in {name.rpartition("/")[0] for name in tensors}:
            own = {k.rpartition("/")[2]: v.contiguous() for k, v in tensors.items() if k.rpartition("/")[0] == below}
            save_file(own, at / below / "model.safetensors", metadata={"format": "pt"})
        if json.loads((at / "tokenizer.json").read_text())["model"]["type"] == "Unigram" or folder.name == "embeddinggemma":
            sentencepiece_file(at)
        out = pathlib.Path(place) / "out.gguf"
        sys.argv = ["convert_hf_to_gguf.py", str(at), "--outfile", str(out), "--model-name", folder.name, "--outtype", "f32", "--sentence-transformers-dense-modules"]
        log = io.StringIO()
        try:
            with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
                runpy.run_path(str(source / "convert_hf_to_gguf.py"), run_name="__main__")
        except SystemExit as e:
            if e.code:
                raise RuntimeError(log.getvalue()[-500:]) from e
        reader = gguf.GGUFReader(out)
        found = {}
        for t in reader.tensors:
            if t.tensor_type != gguf.GGMLQuantizationType.F32:
                raise RuntimeError(f"{t.name} is {t.tensor_type}")
            found[t.name] = ([int(n) for n in t.shape], np.array(t.data, dtype=np.float32).ravel())
        return keys_of(reader, tokenizer=True), found


def write(source, root, name):
    places = (root / "encoders", root / "classifiers", root / "../../cmd/weir/testdata/rerankers")
    folder = next(p / name for p in places if (p / name).exists())
    tensors = stored(folder)
    keys, real = convert(source, folder, tensors)
    prefix = "reranker-" if folder.parent.name == "rerankers" else ""
    gguf_families.save(root / "gguf-encoders" / f"{prefix}{name}.json", tensors, keys, real, lambda made: convert(source, folder, made)[1])


def main():
    have = importlib.metadata.version("gguf")
    if have != GGUF:
        sys.exit(f"made with gguf {GGUF}, found {have}")
    source, root, names = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3:]
    (root / "gguf-encoders").mkdir(exist_ok=True)
    prepare(source)
    for name in names or FOLDERS:
        try:
            write(source, root, name)
        except Exception as e:
            print(name, "FAILED", type(e).__name__, str(e)[:600])


if __name__ == "__main__":
    main()
