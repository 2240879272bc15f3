// Package tokenizer turns text into token ids and back, exactly as Hugging Face's
// tokenizers library does with the same tokenizer.json. It reads no files but those of a file
// system that it is given, and knows nothing of chats or models.
//
// [Open] takes what a model's folder has, [Load] parses a tokenizer.json, and [FromGGUF] takes
// the vocabulary of a GGUF file. [Tokenizer.Encode] gives the ids of a text and
// [Tokenizer.Decode] the text of ids, and [Tokenizer.JoinPair] puts the ids of two texts together. A [Decoder]
// decodes the output of a model token by token. Many goroutines may use one Tokenizer; a Decoder belongs to one goroutine.
//
// # Encoding
//
//	text                                           Encode
//	 │  invalid UTF-8 becomes U+FFFD               toValid
//	 │  added tokens, as they are written          addedScan over rawAdded
//	 │  NFC, Prepend, Replace, ...                 normalizers
//	 │  added tokens, as normalized text           addedScan over normAdded
//	 │  Split, Digits, ByteLevel, Metaspace        stages: the pre-tokenizers
//	 ▼
//	words ── cache ── symbols ── merges by rank    word, piece, merge
//	               or Unigram, WordPiece           wordModel
//	 │
//	 ▼  BOS, EOS around them                       prefix, suffix
//	ids
//
// # An example
//
// testdata/example.json has the 256 bytes as tokens 0 to 255 and three merges, the
// first of which has the lowest rank:
//
//	t h  -> th (256)      th e -> the (257)      Ġ the -> Ġthe (258)
//
// Ġ is how byte-level vocabularies spell a space. The text "the the中<|end|>" is
// encoded like this:
//
//	added tokens      "the the中"  <|end|> (260)
//	pre-tokenizer     "the"  " the"  "中"
//	symbols           t h e         Ġ t h e         ä ¸ Ń
//	                  116 104 101   32 116 104 101  228 184 173
//	merges            th e          Ġ th e
//	                  the           Ġ the
//	                                Ġthe
//	ids               257           258             228 184 173   260
//
// Of all pairs of neighbours the one with the lowest rank is merged, the leftmost first,
// until no pair has a merge. With addSpecial, the id 259 of <|begin|> is put in front,
// because the file's post-processor says so.
//
// # What makes it fast
//
// A word is merged by scanning its pairs if it is short and with a heap if it is long,
// so a word of n bytes takes O(n log n) time. A piece of 32,768 symbols or more, such as a
// text of one letter that nothing cuts, is merged in rounds without links between its
// symbols (wide.go), in at most 8 bytes of memory a symbol: 31 MB of one letter take 1.3 s,
// where the heap took 10 s and 2.3 GB. Words and their ids are kept in a cache of
// bounded size that is read and written without locks. The published word patterns
// (GPT-2, Llama 3, Qwen 2 and 3.5, o200k, Tekken, DeepSeek V3) are matched by
// hand-written functions (words.go), all others by a backtracking matcher (regex.go).
//
// # Regular expressions
//
// The matcher has the part of Oniguruma's syntax that tokenizer.json files use; Load
// refuses the rest. It counts its steps, because patterns such as (a|aa)+b take
// exponential time. A text has 65536 steps and another 128 for each byte that a
// pre-tokenizer looks at. Published patterns need at most 22 a byte, whatever the text.
// A text that needs more than the budget is refused with [ErrTooComplex], after about a
// second for a megabyte.
//
// EncodeUntil looks every few milliseconds whether anybody still waits, in the matcher as
// in all other work (allowance.go).
//
// There are two alternatives to a matcher of our own:
//
//   - The standard library's regexp takes linear time, but lacks the look-ahead (?!\S)
//     that nearly all published patterns have.
//   - github.com/dlclark/regexp2 (v1.12) backtracks too, but its time and memory cannot
//     be bounded. (a|aa)+b took 0.13 s on 26 letters a and 6.6 s on 34, and a+b took
//     1.0 s on 10 kB and 4.9 s on 20 kB. Its MatchTimeout is a wall-clock time: whether a
//     text is refused depends on how busy the machine is, and 100 ms became 200 to
//     225 ms. On our sample texts it needed 149 ms a megabyte for GPT-2's pattern, 152
//     for Llama 3's, 217 for o200k's and 461 for Kimi's, and this matcher 27, 25, 26 and
//     28. It allocated 56 to 70 MB for each megabyte, because it works on a slice of
//     runes; this matcher allocates nothing. It rejects BLOOM's pattern, and cuts the
//     samples at other places than Hugging Face's library with those of Llama 3 and Kimi.
//
// # Decoding
//
// Decode does a whole sequence. A Decoder does one token at a time. It holds back bytes
// that are not yet a whole character, and never releases what stays incomplete.
// Chains of decoders that cannot be applied token by token are refused by Load.
//
// # What is supported
//
// In a tokenizer.json:
//
//   - model: BPE with vocab and merges (both spellings), byte_fallback, unk_token,
//     fuse_unk, ignore_merges; Unigram with byte_fallback; WordPiece; WordLevel
//   - added tokens: all flags
//   - normalizer: NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace
//     (string or regular expression), Nmt, Precompiled, BertNormalizer, ByteLevel (the last
//     one, without a pre-tokenizer), Sequence
//   - pre-tokenizer: Split (string or regular expression, all behaviors, invert),
//     Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit, FixedLength,
//     UnicodeScripts, BertPreTokenizer, ByteLevel (the last one), Metaspace, Sequence
//   - post-processor: TemplateProcessing (with each text once), BertProcessing,
//     RobertaProcessing, ByteLevel, Sequence
//   - decoder: ByteLevel, BPEDecoder or CTC, alone; or Replace, Metaspace, Strip and WordPiece
//     of single tokens, ByteFallback, Replace and Metaspace of single characters, Fuse, Strip of
//     the whole text; Sequence; or none
//
// Everything else is an error from Load that names it: among others BPE dropout and subword
// affixes, and regular expressions outside the part that compileRegex describes. The members truncation and padding are not read.
//
// Tables of Unicode are Go's and golang.org/x/text's. Those of Hugging Face's library are of
// older versions, so that a few hundred rare characters that are newer than Unicode 9 may be
// taken for another kind there.
//
// In other files: SentencePiece models of both kinds without unused pieces in BPE and without
// rules of denormalization; ranks of tiktoken; see [Open]. A SentencePiece model encodes as
// sentencepiece does, except that control pieces and added tokens are found in the text; it
// decodes as transformers does.
//
// In a GGUF file: the models gpt2 with the names of pre-tokenizers in gguf_words.go, llama,
// gemma4, t5 and bert. Two neighbours of a llama vocabulary are merged if together they are a piece; all
// merges that make pieces of the same score have the same rank (scored.go).
//
// # Tests
//
// Golden data come from Hugging Face's library (testdata/README.md): ids and texts of a
// thousand samples under eleven pipelines, and what each component does with texts that are
// made to be difficult. Those for GGUF files come from llama.cpp. reference_test.go has a
// simple implementation of BPE, which random texts and fuzzing are compared with.
package tokenizer
