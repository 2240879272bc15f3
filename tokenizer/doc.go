// Package tokenizer turns text into token ids and back, exactly as Hugging
// Face's tokenizers library does with the same tokenizer.json.
//
// # Encoding
//
//	text                                           Encode
//	 │  invalid UTF-8 becomes U+FFFD               toValid
//	 │  added tokens, as they are written          addedScan over rawAdded
//	 │  NFC, Prepend, Replace                      normalizers
//	 │  added tokens, as normalized text           addedScan over normAdded
//	 │  Split, Digits, ByteLevel, Metaspace        stages
//	 ▼
//	words ── cache ── symbols ── merges by rank    word, piece, merge
//	 │
//	 ▼  BOS, EOS around them                       prefix, suffix
//	ids
//
// A word is merged by scanning its pairs if it is short and with a heap if it is
// long: O(n log n) for a word of n bytes. The cache is bounded and lock-free. The
// published word patterns (GPT-2, Llama 3, Qwen 2 and 3.5, o200k, Tekken,
// DeepSeek V3) are matched by hand-written functions, other patterns by a small
// backtracking matcher with a bound on its work (regexFuel).
//
// # Decoding
//
// Decode does a whole sequence. A Decoder does one token at a time, holds back
// what is not yet a whole character, and never releases what stays incomplete.
//
// # What is supported
//
//   - model: BPE with vocab and merges (both spellings), byte_fallback, unk_token,
//     fuse_unk, ignore_merges
//   - added tokens: all flags
//   - normalizer: NFC, Prepend, Replace of a string, Sequence
//   - pre-tokenizer: Split (string or regular expression, all behaviors, invert),
//     Digits, ByteLevel (the last one), Metaspace, Sequence
//   - post-processor: TemplateProcessing (the single template), ByteLevel, Sequence
//   - decoder: ByteLevel; or Replace or Metaspace, ByteFallback, Fuse, Strip at
//     the start; Sequence
//
// Everything else is an error from Load that names it: among others the models
// Unigram, WordPiece and WordLevel, BPE dropout and subword affixes, the
// normalizers Precompiled, Lowercase and Strip, and regular expressions outside
// the part that compileRegex describes. The members truncation and padding are
// not read.
//
// The package reads no files and knows nothing of chats or models.
package tokenizer
