// Makes tokenizer/testdata/edges.json.gz: what Hugging Face tokenizers do in corner cases
// that the mini tokenizers do not have. All vocabularies and texts are made up here.
//
//   npm install tokenizers@0.23.2     (Hugging Face's Rust crate, Apache-2.0)
//   node edges.mjs tokenizer/testdata/mini tokenizer/testdata/edges.json.gz
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync, gunzipSync } from "node:zlib";
const { Tokenizer } = createRequire(process.cwd() + "/")("tokenizers");
const [, , miniDir, out] = process.argv;

let state = 12345;
const random = (n) => {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
};
const mix = (alphabet, count, longest) =>
  Array.from({ length: count }, () => Array.from({ length: 1 + random(longest) }, () => alphabet[random(alphabet.length)]).join(""));

// Vocabularies: single symbols and the merges of a few words.
const byteAlphabet = () => {
  const list = [];
  for (let b = 0, n = 0; b < 256; b++)
    list.push(String.fromCodePoint((b > 32 && b < 127) || (b > 160 && b !== 173) ? b : 256 + n++));
  return list;
};
function bpe(symbols, wordList, options = {}) {
  const vocab = {}, merges = [];
  const add = (s) => { if (!(s in vocab)) vocab[s] = Object.keys(vocab).length; };
  symbols.forEach(add);
  for (const w of wordList) {
    let have = [...w];
    while (have.length > 1) { // merge pairs from the right, so that a longer token may have a lower rank
      const i = have.length - 2;
      const pair = [have[i], have[i + 1]];
      if (!merges.some((m) => m[0] === pair[0] && m[1] === pair[1])) merges.push(pair);
      add(pair[0] + pair[1]);
      have = [...have.slice(0, i), pair[0] + pair[1]];
    }
  }
  return { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
    fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab, merges, ...options };
}
const byteWords = ["the", "Ġthe", "Ġa", "in", "ing", "ĠĠ", "ĠĠĠĠ", "12", "123", "Ã©", "Ġword", "<|", "|>", "ĊĊ"];
const byteModel = (o) => bpe(byteAlphabet(), byteWords, o);
const bpeWithout = (...lost) => {
  const { vocab, merges } = byteModel();
  for (const s of lost) delete vocab[s];
  return { vocab: Object.fromEntries(Object.keys(vocab).map((s, i) => [s, i])), merges: merges.filter((m) => m[0] in vocab && m[1] in vocab && m[0] + m[1] in vocab) };
};
const hex = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`);
const letters = [..."abcdefghijklmnopqrstuvwxyz <>|.,!?AB12é中文▁\n"];
const charWords = ["▁the", "the", "▁a", "ing", "▁▁", "▁▁▁▁", "12", "中文", "d▁a", ".▁"];
const charModel = (o) => bpe(["<unk>", ...hex, ...letters], charWords, { unk_token: "<unk>", fuse_unk: true, byte_fallback: true, ...o });

const byteLevel = (o = {}) => ({ type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true, ...o });
const sequence = (key, ...list) => ({ type: "Sequence", [key]: list });
const spmDecoder = sequence("decoders", { type: "Replace", pattern: { String: "▁" }, content: " " }, { type: "ByteFallback" },
  { type: "Fuse" }, { type: "Strip", content: " ", start: 1, stop: 0 });
const spmNormalizer = sequence("normalizers", { type: "Prepend", prepend: "▁" }, { type: "Replace", pattern: { String: " " }, content: "▁" });
const split = (pattern, behavior = "Isolated", invert = false) => ({ type: "Split", pattern, behavior, invert });
const regex = (s, ...rest) => split({ Regex: s }, ...rest);

function file(model, parts, added = []) {
  let next = Object.keys(model.vocab).length;
  const added_tokens = added.map((a) => ({ id: model.vocab[a.content] ?? next++, content: "", single_word: false, lstrip: false,
    rstrip: false, normalized: false, special: false, ...a }));
  return { version: "1.0", truncation: null, padding: null, added_tokens, normalizer: null, pre_tokenizer: null,
    post_processor: null, decoder: null, ...parts, model };
}
const byteFile = (parts = {}, added, options) => file(byteModel(options), { pre_tokenizer: byteLevel(), decoder: byteLevel(), ...parts }, added);
const charFile = (parts = {}, added, options) => file(charModel(options), { normalizer: spmNormalizer, decoder: spmDecoder, ...parts }, added);

const flagged = [
  { content: "<s>", special: true }, { content: "<l>", lstrip: true, special: true }, { content: "<r>", rstrip: true },
  { content: "<lr>", lstrip: true, rstrip: true, special: true }, { content: "<w>", single_word: true }, { content: "wo", single_word: true },
  { content: "<s><s>" }, { content: "<sx" }, { content: "  ", rstrip: true }, { content: "é", normalized: true },
  { content: "e\u0301\u0327", normalized: true }, { content: "the end", normalized: true }, { content: "N", normalized: true, single_word: true },
];
const flagTexts = mix(["<s>", "<l>", "<r>", "<lr>", "<w>", "wo", "<s", "x", "<", "  ", " ", " ", "\u00a0", "\n", "é", "e\u0301", "e\u0301\u0327",
  "the end", "the", "N", "_", "9", "²", "Ⓐ", "Ⅷ", "中", "\u200d", "▁", "a"], 150, 14);
const words = mix(["the", " the", " ", "  ", "\n", "a", "ing", "1", "12", "٣", "²", "é", "e\u0301", "中", "文", "🙂", "!", ".", "<|", "'s", "'LL", "▁", "\t", "\u0000"], 80, 16);
const marks = mix(["a", "e", "o", "\u0301", "\u0327", "\u0345", "\u0323", "\u0302", "\u0316", "\u0334", "\u05b0", "\u1dc0", "\u0344", "가", "\u11a8", "\u1100", "\u1161", "ﾞ"], 40, 70)
  .concat(["a", "e", "x"].flatMap((c) => [29, 30, 31, 32, 60, 90].map((n) => c + "\u0327\u0301\u0316".repeat(n) + " " + c + "\u0301".repeat(n))));

const template = (single) => ({ type: "TemplateProcessing", single, pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
  special_tokens: { "<s>": { id: "<s>", ids: [0], tokens: ["<s>"] }, "</s>": { id: "</s>", ids: [1, 2], tokens: ["x", "y"] } } });
const A = { Sequence: { id: "A", type_id: 0 } }, S = (id) => ({ SpecialToken: { id, type_id: 0 } });

const files = {
  "added tokens, byte-level": [byteFile({}, flagged), flagTexts],
  "added tokens, NFC": [byteFile({ normalizer: { type: "NFC" } }, flagged), flagTexts],
  "added tokens, SentencePiece": [charFile({}, flagged), flagTexts],
  "added tokens, Metaspace first": [charFile({ normalizer: null, pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: false } }, flagged), flagTexts],
  "NFC of many marks": [byteFile({ normalizer: { type: "NFC" } }), marks],
  "prefix space": [byteFile({ pre_tokenizer: byteLevel({ add_prefix_space: true }) }, flagged), words],
  "prefix space after digits": [byteFile({ pre_tokenizer: sequence("pretokenizers", { type: "Digits", individual_digits: false }, byteLevel({ add_prefix_space: true, use_regex: false })) }), words],
  "digits together": [byteFile({ pre_tokenizer: sequence("pretokenizers", { type: "Digits", individual_digits: false }, byteLevel()) }), words],
  "template": [byteFile({ post_processor: template([S("<s>"), A, S("</s>")]) }), words.slice(0, 30)],
  "template in a sequence": [byteFile({ post_processor: sequence("processors", byteLevel(), template([S("</s>"), S("<s>"), A])) }), words.slice(0, 30)],
  "ignore_merges": [byteFile({}, [], { ignore_merges: true, merges: [] }), words],
  "ignore_merges of characters": [charFile({ normalizer: null, pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true } }, [],
    { ignore_merges: true, merges: [] }), words],
  "merges listed twice": [byteFile({}, [], { vocab: { ...byteModel().vocab, th: 999 }, merges: [["t", "h"], ["h", "e"], ["Ġ", "a"], ["t", "h"]] }), words],
  "merges of characters listed twice": [charFile({}, [], { vocab: { ...charModel().vocab, th: 999 }, merges: [["t", "h"], ["h", "e"], ["▁", "a"], ["t", "h"]] }), words],
  "merges as text": [byteFile({}, [], { merges: ["#version: 0.2", ...byteModel().merges.map((m) => m.join(" "))] }), words],
  "bytes left out": [byteFile({}, [], bpeWithout("Ã", "é", "1", "Ċ")), words],
  "bytes unknown, fused": [byteFile({}, [], { ...bpeWithout("Ã", "é", "1", "Ċ"), unk_token: "Z", fuse_unk: true }), words],
  "bytes unknown, one by one": [byteFile({}, [], { ...bpeWithout("Ã", "¸", "1", "Ċ"), unk_token: "Z" }), words],
  "unknown fused": [charFile({}, [], { byte_fallback: false, fuse_unk: true }), words],
  "unknown one by one": [charFile({}, [], { byte_fallback: false, fuse_unk: false }), words],
};
for (const prepend_scheme of ["always", "first", "never"])
  for (const splits of [true, false])
    files[`Metaspace ${prepend_scheme} ${splits}`] = [charFile({ normalizer: null, pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme, split: splits },
      decoder: sequence("decoders", { type: "ByteFallback" }, { type: "Metaspace", replacement: "▁", prepend_scheme, split: splits }) }, flagged.slice(0, 3)), words];

// Splits only: the result shows the pieces directly.
const patterns = {
  "cl100k possessive": regex("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"),
  "nested class": regex(" ?[^(\\s|[.,!?…。，、।۔،])]+"),
  "intersection": regex("[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
  "gpt2 grouped": regex("'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"),
  "deepseek coder": sequence("pretokenizers", regex("[\\r\\n]"), regex("\\s?\\p{L}+"), regex("\\s?\\p{P}+"), regex("[一-龥ࠀ-一가-퟿]+"), { type: "Digits", individual_digits: true }),
  "word escape": regex("\\w+"), "not word": regex("\\W+"), "digit escape": regex("\\d{2,3}"), "not digit": regex("\\D"),
  "dot": regex("a."), "caret property": regex("\\p{^L}\\P{N}?"), "fold": regex("(?i:[ks]ſ?)+|(?i:É)"),
  "group loop": regex("(?:ab|a)+c?"), "bounds": regex("(?:a|b){2,3}|1{2}|c{,2}d"), "look": regex("a(?=b)|b(?!c)"), "backtrack": regex("[ab]+b[bc]*c"),
  "escapes": regex("\\x41|\\u0042|\\x{1F642}|[\\-\\]\\\\a-c]+|\\.|\\t"),
  "any string": split({ String: "a." }), "letters": regex("\\p{Latin}+(?!\\p{Latin})"),
};
for (const b of ["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"])
  for (const invert of [false, true]) {
    patterns[`${b} ${invert}`] = regex("[ab]|\\s", b, invert);
    patterns[`text ${b} ${invert}`] = split({ String: " " }, b, invert);
  }
const splitTexts = mix(["a", "b", "ab", "c", "A", "B", "S", "s", "ſ", "K", "k", "'s", "'LL", "'ve", "1", "12", "٣", "²", "Ⅷ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", ".", "a.", "!", "[", "(", ")", "|", "]", "-", "\\",
  "é", "e\u0301", "É", "\u0301", "ʰ", "ǅ", "Ⓐ", "中", "文", "の", "カ", "한", "🙂", "\u200d", "_", "\u0000", "。"], 80, 14);

const result = { files: [], splits: [], decoding: [] };
for (const [name, [json, texts]] of Object.entries(files)) {
  const t = Tokenizer.fromString(JSON.stringify(json));
  const cases = [];
  for (const text of texts) {
    const ids = (await t.encode(text, null, { addSpecialTokens: false })).getIds();
    const all = (await t.encode(text, null, { addSpecialTokens: true })).getIds();
    cases.push({ text, ids, special: all.length === ids.length ? null : all, dec: await t.decode(ids, false), skip: await t.decode(ids, true) });
  }
  result.files.push({ name, file: json, cases });
}
for (const [name, pre] of Object.entries(patterns)) {
  const t = Tokenizer.fromString(JSON.stringify(charFile({ normalizer: null, pre_tokenizer: pre })));
  result.splits.push({ name, pre, cases: splitTexts.map((text) => ({ text, pieces: t.getPreTokenizer().preTokenizeString(text).map((p) => p[0]) })) });
}
// Ids in random order, many of which are parts of characters.
for (const name of ["bl-llama3", "spm-llama2", "spm-gemma", "spm-metaspace"]) {
  const json = JSON.parse(gunzipSync(readFileSync(`${miniDir}/${name}.json.gz`)));
  const t = Tokenizer.fromString(JSON.stringify(json));
  const byteIDs = Array.from("é中🙂▁ �a", (c) => [...Buffer.from(c)].map((b) => json.model.vocab[hex[b]] ?? json.model.vocab[byteAlphabet()[b]]));
  const cases = [];
  for (let i = 0; i < 250; i++) {
    const ids = [];
    for (let n = random(12) + 1; n > 0; n--) {
      const c = byteIDs[random(byteIDs.length)];
      switch (random(6)) {
        case 0: ids.push(random(t.getVocabSize() + 50)); break;
        case 1: ids.push(c[random(c.length)]); break;
        case 2: ids.push(4096 + random(6)); break;
        case 3: ids.push(json.model.vocab["▁"] ?? json.model.vocab["Ġ"]); break;
        default: ids.push(...c);
      }
    }
    cases.push({ ids, dec: await t.decode(ids, false), skip: await t.decode(ids, true) });
  }
  result.decoding.push({ name, cases });
}
const z = gzipSync(JSON.stringify(result), { level: 9 });
z[9] = 255; // operating system: unknown, so that the file is the same wherever it is made
writeFileSync(out, z);
console.log(z.length);
