package toolcall

import (
	"strconv"
	"strings"
)

// The formats, each with where it is known from. Templates are those that are published with
// the models; names of files are those of vLLM's repository (vllm/tool_parsers).

// formats are all formats. Detect tries them in this order, so the more special ones come first.
var formats = []*Format{
	harmony, mistralIDs, mistral, mistralOld, kimi, deepseekV4, deepseekV32, deepseekV31, deepseekV3, minimax, seed, qwenCoder, glmDense, glm,
	granite, granite20b, phi4, phi4Each, phi4Tokens, minimaxOld, jamba, hunyuan, longcatTagged, longcat, internlm, llama4Pythonic, pythonic, lfm2, gemma4, llama, granite4, hermes,
}

// aliases are other names of formats.
var aliases = map[string]string{
	"qwen3_xml": "qwen3_coder", "qwen35_coder": "qwen3_coder", "glm47": "glm45", "llama4_json": "llama3_json",
}

// hermes is Hermes' and Qwen's, from Qwen 2.5 on (their templates).
var hermes = &Format{
	name: "hermes", marks: []string{"<tool_call>"},
	before: "<tool_call>\n", after: "\n</tool_call>", between: "\n",
	object: true, nameKey: "name", argumentsKey: "arguments",
	detect: []string{"<tool_call>", `"arguments"|||\"arguments\"|||'arguments'`},
}

// granite4 is that of Granite 4 (its template): the same under another name.
var granite4 = func() *Format {
	f := *hermes
	f.name, f.detect = "granite4", []string{"<tool_call>", "<|start_of_role|>", "\"arguments\""}
	return &f
}()

// qwenCoder is Qwen3-Coder's, Qwen 3.5's and Nemotron 3's (their templates). Models often leave
// the outer tag out (qwen3coder_tool_parser.py).
var qwenCoder = &Format{
	name: "qwen3_coder", marks: []string{"<tool_call>", "<function="},
	before: "<tool_call>\n<function=", colon: ">\n", after: "</function>\n</tool_call>", between: "\n", xml: &qwenXML,
	also:   []*Format{{before: "<function=", colon: ">\n", after: "</function>\n</tool_call>", xml: &qwenXML}},
	detect: []string{"<tool_call>", "<function=", "<parameter="},
}

// seed is Seed-OSS's (its template).
var seed = &Format{
	name: "seed_oss", marks: []string{"<seed:tool_call>"},
	before: "<seed:tool_call>\n<function=", colon: ">\n", after: "</function>\n</seed:tool_call>", between: "\n", xml: &seedXML,
	detect: []string{"<seed:tool_call>", "<function="},
}

// glm is that of GLM 4.5 and 4.6 (their templates), with line breaks between all tags.
var glm = &Format{
	name: "glm45", marks: []string{"<tool_call>"},
	before: "<tool_call>", nameEnds: " \t\r\n<", after: "</tool_call>", between: "\n", xml: &glmXML,
	detect: []string{"<tool_call>", "<arg_key>"},
}

// glmDense is the same without line breaks, as in GLM 4.7 and 5.
var glmDense = func() *Format {
	f := *glm
	f.variant, f.between, f.detect = true, "\v", []string{"<tool_call>", "</arg_key><arg_value>"}
	return &f
}()

// minimax is that of MiniMax M2 (its template).
var minimax = &Format{
	name: "minimax_m2", marks: []string{"<minimax:tool_call>"},
	section: "<minimax:tool_call>\n", sectionEnd: "\n</minimax:tool_call>",
	before: `<invoke name="`, colon: "\">\n", after: "</invoke>", between: "\n", xml: &minimaxXML,
	detect: []string{"<minimax:tool_call>", "<invoke name="},
}

// deepseekV32 is that of DeepSeek V3.2 (its template), whose tags have a mark in them.
var deepseekV32 = &Format{
	name: "deepseek_v32", marks: []string{"<｜DSML｜function_calls>"},
	section: "<｜DSML｜function_calls>\n", sectionEnd: "\n</｜DSML｜function_calls>",
	before: `<｜DSML｜invoke name="`, colon: "\">\n", after: "</｜DSML｜invoke>", between: "\n", xml: &deepseekXML,
	detect: []string{"｜DSML｜", "function_calls>"},
}

// deepseekV4 is that of DeepSeek V4 (its template): the section has another name.
var deepseekV4 = func() *Format {
	f := *deepseekV32
	f.name, f.marks = "deepseek_v4", []string{"<｜DSML｜tool_calls>"}
	f.section, f.sectionEnd = "<｜DSML｜tool_calls>\n", "\n</｜DSML｜tool_calls>"
	f.detect = []string{"｜DSML｜", "｜DSML｜tool_calls>|||'tool_calls>|||\"tool_calls>"}
	return &f
}()

// deepseekV31 is that of DeepSeek V3.1 (its template).
var deepseekV31 = &Format{
	name: "deepseek_v31", marks: []string{"<｜tool▁calls▁begin｜>"},
	section: "<｜tool▁calls▁begin｜>", sectionEnd: "<｜tool▁calls▁end｜>",
	before: "<｜tool▁call▁begin｜>", colon: "<｜tool▁sep｜>\v", after: "\v<｜tool▁call▁end｜>", between: "\v",
	detect: []string{"<｜tool▁call▁begin｜>'+ tool['function']['name'] + '<｜tool▁sep｜>"},
}

// deepseekV3 is that of DeepSeek V3 and R1 (their templates).
var deepseekV3 = &Format{
	name: "deepseek_v3", marks: []string{"<｜tool▁calls▁begin｜>"},
	section: "<｜tool▁calls▁begin｜>", sectionEnd: "<｜tool▁calls▁end｜>",
	before: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", colon: "\n```json\n", after: "\n```<｜tool▁call▁end｜>", between: "\n",
	detect: []string{"<｜tool▁call▁begin｜>", "```json"},
}

// kimi is Kimi K2's (its template, and docs/tool_call_guidance.md beside the model). Names have a
// prefix and the number of the call, which together are its identifier.
var kimi = &Format{
	name: "kimi_k2", marks: []string{"<|tool_calls_section_begin|>"},
	section: "<|tool_calls_section_begin|>", sectionEnd: "<|tool_calls_section_end|>",
	before: "<|tool_call_begin|>", colon: "<|tool_call_argument_begin|>\v", after: "\v<|tool_call_end|>", between: "\v",
	prefix: "functions.", infix: ":", pattern: "[0-9]{1,4}", cleanName: kimiName, id: kimiID,
	detect: []string{"<|tool_calls_section_begin|>"},
}

func kimiName(text string) string {
	if i := strings.LastIndexByte(text, ':'); i >= 0 && strings.Trim(text[i+1:], "0123456789") == "" {
		text = text[:i]
	}
	return strings.TrimPrefix(text, "functions.")
}

func kimiID(_ func(int) string, name string, index int) string {
	return "functions." + name + ":" + strconv.Itoa(index)
}

// mistral is that of Mistral's models from Mistral Small 3.2 on (their templates): a mark before
// each name, perhaps an identifier after it, and a mark before the arguments. Some leave the
// second one out (mistral_tool_parser.py).
var mistral = &Format{
	name: "mistral", marks: []string{"[TOOL_CALLS]"},
	before: "[TOOL_CALLS]\v", colon: "[ARGS]\v", between: "\v", cleanName: mistralName, id: mistralID,
	also: []*Format{
		{before: "[TOOL_CALLS]\v", nameEnds: "{", cleanName: mistralName},
		mistralOld,
	},
	detect: []string{"[TOOL_CALLS]", "[ARGS]"},
}

// mistralIDs is the same with an identifier after each name, as in Mistral Small 3.2.
var mistralIDs = func() *Format {
	f := *mistral
	f.variant, f.infix, f.pattern, f.detect = true, "[CALL_ID]", "[a-zA-Z0-9]{9}", []string{"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}
	return &f
}()

// mistralOld is that of the models before, from Mistral 7B 0.3 to Nemo: a list of objects, which
// may have an identifier behind the arguments.
var mistralOld = &Format{
	name: "mistral", variant: true, marks: []string{"[TOOL_CALLS]"},
	section: "[TOOL_CALLS]\v[", sectionEnd: "\v]",
	before: "\v", after: "\v", between: "\v, ",
	object: true, nameKey: "name", argumentsKey: "arguments", pattern: `(?:, "id": "[a-zA-Z0-9]{9}")?`, id: mistralID,
	also: []*Format{
		{before: "[TOOL_CALLS]\v", colon: "[ARGS]\v", cleanName: mistralName},
		{before: "[TOOL_CALLS]\v", nameEnds: "{", cleanName: mistralName},
	},
	detect: []string{"[TOOL_CALLS]"},
}

func mistralName(text string) string {
	name, _, _ := strings.Cut(text, "[CALL_ID]")
	return strings.TrimSpace(name)
}

func mistralID(random func(int) string, _ string, _ int) string { return random(9) }

// llama is that of Llama 3.1 to 3.3 (their templates): an object, as the beginning of which its
// first member is recognized.
var llama = &Format{
	name: "llama3_json", marks: []string{"{", "<|python_tag|>"}, known: true, chained: true,
	between: "; ", object: true, nameKey: "name", argumentsKey: "parameters",
	detect: []string{`"parameters": `, "<|start_header_id|>"},
}

// granite is that of Granite 3 (its template, granite_tool_parser.py).
var granite = &Format{
	name: "granite", marks: []string{"<|tool_call|>", "<tool_call>"},
	section: "<|tool_call|>\v[", sectionEnd: "\v]",
	before: "\v", after: "\v", between: "\v, ",
	object: true, nameKey: "name", argumentsKey: "arguments",
	also: []*Format{{section: "<tool_call>\v[", sectionEnd: "\v]", before: "\v", after: "\v", between: "\v, ",
		object: true, nameKey: "name", argumentsKey: "arguments"}},
	detect: []string{"<|tool_call|>", "<|start_of_role|>"},
}

// granite20b is that of Granite 20B for functions (granite_20b_fc_tool_parser.py).
var granite20b = &Format{
	name: "granite-20b-fc", marks: []string{"<function_call>"},
	before: "<function_call> ", between: "\n", object: true, nameKey: "name", argumentsKey: "arguments",
	detect: []string{"<function_call>"},
}

// phi4 is Phi-4-mini's as vLLM's prompt asks for it (tool_chat_template_phi4_mini.jinja,
// phi4mini_tool_parser.py): a list after a word.
var phi4 = &Format{
	name: "phi4_mini_json", marks: []string{"functools[", "<|tool_call|>"},
	section: "functools[", sectionEnd: "\v]",
	before: "\v", after: "\v", between: "\v, ",
	object: true, nameKey: "name", argumentsKey: "arguments",
	also:   []*Format{phi4List, phi4Object},
	detect: []string{"functools["},
}

// phi4Tokens is the same model's with its own template, which leaves calls out of a history: a list
// between tokens. It often leaves the second one out, and at times the brackets (phi_fc.py of the Berkeley
// Function-Calling Leaderboard).
var phi4Tokens = func() *Format {
	f := *phi4List
	f.name, f.variant, f.marks = phi4.name, true, []string{"<|tool_call|>", "functools["}
	f.also, f.detect = []*Format{phi4, phi4Object}, []string{"<|tool|>", "<|/tool|>"}
	return &f
}()

// phi4Each is the same model's as llama.cpp's template writes it, with an object between the tokens.
var phi4Each = func() *Format {
	f := *phi4Tokens
	f.section, f.sectionEnd, f.before, f.after, f.between = "", "", "<|tool_call|>\v", "\v<|/tool_call|>", "\v"
	f.also, f.detect = []*Format{phi4, phi4List, phi4Object}, []string{"<|tool|>", "<|/tool|>", "<|tool_call|>{"}
	return &f
}()

var (
	phi4List   = &Format{section: "<|tool_call|>\v[", sectionEnd: "\v]\v<|/tool_call|>", before: "\v", after: "\v", between: "\v, ", object: true, nameKey: "name", argumentsKey: "arguments"}
	phi4Object = &Format{section: "<|tool_call|>\v", sectionEnd: "\v<|/tool_call|>", before: "\v", after: "\v", between: "\v, ", object: true, nameKey: "name", argumentsKey: "arguments"}
)

// jamba is Jamba's (its template): a list between tags, with a call on each line.
var jamba = &Format{
	name: "jamba", marks: []string{"<tool_calls>"},
	section: "<tool_calls>[\n    ", sectionEnd: "\n]</tool_calls>",
	before: "\v", after: "\v", between: ",\n    ",
	object: true, nameKey: "name", argumentsKey: "arguments",
	detect: []string{"<tool_calls>", "<|bom|>"},
}

// hunyuan is Hunyuan A13B's (hunyuan_a13b_tool_parser.py): the same on one line.
var hunyuan = func() *Format {
	f := *jamba
	f.name, f.section, f.sectionEnd, f.between, f.detect = "hunyuan_a13b", "<tool_calls>[", "\v]</tool_calls>", "\v, ", []string{"<tool_calls>"}
	return &f
}()

// minimaxOld is that of MiniMax M1 (its template): objects on lines of their own.
var minimaxOld = &Format{
	name: "minimax", marks: []string{"<tool_calls>"},
	section: "<tool_calls>\n", sectionEnd: "\n</tool_calls>",
	before: "\v", after: "\v", between: "\n",
	object: true, nameKey: "name", argumentsKey: "arguments",
	detect: []string{"<tool_calls>", "<beginning_of_sentence>"},
}

// longcat is that of LongCat Flash Chat (its model card, longcat_tool_parser.py).
var longcat = &Format{
	name: "longcat", marks: []string{"<longcat_tool_call>"},
	before: "<longcat_tool_call>\n", after: "\n</longcat_tool_call>", between: "\n",
	object: true, nameKey: "name", argumentsKey: "arguments",
	also:   []*Format{longcatTags},
	detect: []string{"<longcat_tool_call>"},
}

// longcatTagged is that of later models, whose vocabularies have tokens for it: arguments as GLM
// writes them (mlx_lm/tool_parsers/longcat.py). LongCat Next writes "functions." before a name
// (github.com/InquiringMinds-AI/longcat-next-multimodal).
var longcatTagged = func() *Format {
	f := *longcatTags
	f.name, f.variant, f.marks = longcat.name, true, longcat.marks
	f.also, f.detect = []*Format{longcat}, []string{"<longcat_tool_call>", "<longcat_arg_key>"}
	return &f
}()

var longcatTags = &Format{
	before: "<longcat_tool_call>", nameEnds: " \t\r\n<", after: "</longcat_tool_call>", between: "\n", xml: &longcatXML,
	cleanName: func(name string) string { return strings.TrimPrefix(name, "functions.") },
}

// internlm is that of InternLM 2 and 3 (internlm2_tool_parser.py).
var internlm = &Format{
	name: "internlm", marks: []string{"<|action_start|>"},
	before: "<|action_start|>\v<|plugin|>\n", after: "<|action_end|>", between: "\n",
	object: true, nameKey: "name", argumentsKey: "parameters",
	detect: []string{"<|action_start|>"},
}

// pythonic is that of Llama 3.2's small models and ToolACE (the templates that vLLM has for them,
// pythonic_tool_parser.py): a list of calls in Python.
var pythonic = &Format{
	name: "pythonic", marks: []string{"["}, known: true, python: &inPython,
	section: "[", sectionEnd: "\v]", before: "\v", colon: "(", between: ", ",
	detect: []string{"[func_name1("},
}

// llama4Pythonic is Llama 4's (llama4_pythonic_tool_parser.py): the same, perhaps between tokens.
var llama4Pythonic = &Format{
	name: "llama4_pythonic", marks: []string{"[", "<|python_start|>"}, known: true, python: &inPython,
	section: "[", sectionEnd: "\v]", before: "\v", colon: "(", between: ", ",
	also: []*Format{{known: true, python: &inPython,
		section: "<|python_start|>\v[", sectionEnd: "\v]\v<|python_end|>", before: "\v", colon: "(", between: ", "}},
	detect: []string{"[func_name1(", "<|header_start|>"},
}

// lfm2 is that of LFM2 and LFM2.5 (their templates): the same list between tokens, or, if the
// prompt asks for it, one of JSON objects.
var lfm2 = &Format{
	name: "lfm2", marks: []string{"<|tool_call_start|>"}, python: &inPython,
	section: "<|tool_call_start|>\v[", sectionEnd: "\v]\v<|tool_call_end|>", before: "\v", colon: "(", between: ", ",
	also: []*Format{{section: "<|tool_call_start|>\v[", sectionEnd: "\v]\v<|tool_call_end|>", before: "\v", after: "\v", between: "\v, ",
		object: true, nameKey: "name", argumentsKey: "arguments"}},
	detect: []string{"List of tools: [|||List of tools: <|tool_list_start|>["},
}

// gemma4 is Gemma 4's (its template): keys without quotes, and strings between tokens.
var gemma4 = &Format{
	name: "gemma4", marks: []string{"<|tool_call>"}, python: &inGemma,
	before: "<|tool_call>call:", colon: "{", after: "<tool_call|>", between: "\v",
	detect: []string{"<|tool_call>call:"},
}
