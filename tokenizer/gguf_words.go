package tokenizer

// wordCut says how a byte-level vocabulary of a GGUF file cuts a text into words, which such a
// file only names.
type wordCut struct {
	patterns []string // regular expressions, one after the other; matches and gaps are words
	// ignoreMerges: a word that is in the vocabulary becomes that token unmerged.
	ignoreMerges bool
	addBOS       bool // the BOS token is put in front unless the file says something else
}

// Patterns that the hand-written matchers do not know, as published with the models.
const (
	bloomPattern   = ` ?[^(\s|.,!?…。，、।۔،)]+`
	kimiPattern    = `[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	bailingPattern = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
	seedPattern    = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`
	exaoneMoE      = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`
	ufakzeka       = `[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	jaisPattern    = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`
	minicpmPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	sparkPattern   = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" + `[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+`
	youtuCJK       = `[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+`
	youtuPattern   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	afmoeScripts   = `[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+`
	deepseekText   = `\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+`
)

// Ways to cut that several models share.
var (
	cutGPT2     = wordCut{patterns: []string{gpt2Pattern}}
	cutDigits   = wordCut{patterns: []string{`\p{N}`, gpt2Pattern}}
	cutLlama3   = wordCut{patterns: []string{llama3Pattern}}
	cutQwen2    = wordCut{patterns: []string{qwen2Pattern}}
	cutO200k    = wordCut{patterns: []string{o200kPattern}}
	cutDeepseek = wordCut{patterns: []string{`\p{N}{1,3}`, kanaHanPattern, deepseekPattern}}
	cutBloom    = wordCut{patterns: []string{bloomPattern}}
	cutBailing  = wordCut{patterns: []string{bailingPattern}}
	cutAya      = wordCut{patterns: []string{threesPattern, o200kPattern}}
	// cutDefault is for a file without a name, or with the name default.
	cutDefault = wordCut{patterns: []string{"[\\p{P}$+<=>^~|]+", gpt2Pattern, `\p{N}+`, `[0-9][0-9][0-9]`}}
)

func (w wordCut) unmerged() wordCut { w.ignoreMerges = true; return w }
func (w wordCut) withBOS() wordCut  { w.addBOS = true; return w }

// wordCuts are the names of pre-tokenizers in tokenizer.ggml.pre. The name stands for what is
// in the tokenizer.json of the model that it was introduced for.
var wordCuts = map[string]wordCut{
	"": cutDefault, "default": cutDefault,

	"gpt-2": cutGPT2, "phi-2": cutGPT2, "jina-es": cutGPT2, "jina-de": cutGPT2, "gigachat": cutGPT2, "jina-v2-es": cutGPT2, "jina-v2-de": cutGPT2,
	"a.x-4.0": cutGPT2, "mellum": cutGPT2, "modern-bert": cutGPT2, "exaone4": cutGPT2, "mpt": cutGPT2, "olmo": cutGPT2, "jais": cutGPT2,
	"trillion": cutGPT2, "granite-docling": cutGPT2,
	"jina-v1-en": cutGPT2, "jina-v2-code": cutGPT2, "roberta-bpe": cutGPT2,

	"starcoder": cutDigits, "refact": cutDigits, "command-r": cutDigits, "smollm": cutDigits, "codeshell": cutDigits, "exaone": cutDigits,
	"minerva-7b": cutDigits, "mellum2": cutDigits,

	"llama3": cutLlama3.unmerged().withBOS(), "llama-v3": cutLlama3.unmerged().withBOS(), "llama-bpe": cutLlama3.unmerged().withBOS(),
	"falcon3": cutLlama3.unmerged().withBOS(), "falcon-h1": cutLlama3.unmerged().withBOS(), "pixtral": cutLlama3.unmerged().withBOS(),
	"midm-2.0": cutLlama3.unmerged().withBOS(), "lfm2": cutLlama3.unmerged().withBOS(), "jina-v5-nano": cutLlama3.unmerged().withBOS(),
	"dbrx": cutLlama3, "smaug-bpe": cutLlama3, "chatglm-bpe": cutLlama3, "glm4": cutLlama3.unmerged(), "glm5": cutLlama3.unmerged(),
	"jais-2":   {patterns: []string{jaisPattern}},
	"minicpm5": {patterns: []string{`\p{N}{1,3}`, minicpmPattern}, ignoreMerges: true},

	"qwen2": cutQwen2, "deepseek-r1-qwen": cutQwen2, "kormo": cutQwen2, "f2llmv2": cutQwen2, "megrez": cutQwen2, "stablelm2": cutQwen2,
	"hunyuan": cutQwen2, "solar-open": cutQwen2, "grok-2": cutQwen2,
	"qwen35": {patterns: []string{qwen35Pattern}},
	"laguna": {patterns: []string{`[^\n]+|[\n]+`, qwen2Pattern}},

	"gpt-4o": cutO200k, "llama4": cutO200k, "kanana2": cutO200k, "talkie": cutO200k, "minimax-m2": cutO200k,
	"granite-embed-multi-97m": cutO200k.unmerged(), "tiny_aya": cutAya, "cohere2moe": cutAya,
	"tekken": {patterns: []string{tekkenPattern}, ignoreMerges: true, addBOS: true},

	"deepseek-v3": cutDeepseek, "hunyuan-dense": cutDeepseek, "joyai-llm": cutDeepseek, "hy_v4": cutDeepseek,
	"deepseek-llm":   {patterns: []string{`[\r\n]`, deepseekText, `\s?[!-/:-~！-／：-～‘-‟　-。]+`, `\s+(?!\S|\s)`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}+`}},
	"deepseek-coder": {patterns: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`}},
	"spark2_5":       {patterns: []string{`\p{N}{1,3}`, kanaHanPattern, sparkPattern, `\p{N}`}},
	"afmoe":          {patterns: []string{`\p{N}+`, splitThrees, afmoeScripts, deepseekPattern}},
	"youtu":          {patterns: []string{youtuCJK, youtuPattern}, ignoreMerges: true},

	"poro-chat": cutBloom, "bloom": cutBloom, "gpt3-finnish": cutBloom,
	"viking": {patterns: []string{bloomPattern, `\p{N}`}},
	"falcon": {patterns: []string{"[\\p{P}$+<=>^~|`]+", gpt2Pattern, `[0-9][0-9][0-9]`}},
	"chameleon": {patterns: []string{`<sentinel:[0-9]+>`, `(?:IMGIMG)(?:(?:A|B|C|D|E|F|G|H|I){1,4})Z`, `[\t\n]|    |  `, `\p{N}`,
		"[\\p{P}!-/:-@\\[-`{-~]", gpt2Pattern}, addBOS: true},
	"superbpe":   {patterns: []string{`\p{N}+`, splitThrees}},
	"kimi-k2":    {patterns: []string{kimiPattern}},
	"bailingmoe": cutBailing, "bailingmoe2": cutBailing, "llada-moe": cutBailing,
	"seed-coder": {patterns: []string{seedPattern}},
	"ufakzeka":   {patterns: []string{ufakzeka}},
	"exaone-moe": {patterns: []string{exaoneMoE}},
}

// newlineCuts are the pre-tokenizers of vocabularies of characters, which only line ends cut.
var newlineCuts = map[string]bool{"gemma4": true, "granite-embed-multi-311m": true, "sarvam-moe": true}
