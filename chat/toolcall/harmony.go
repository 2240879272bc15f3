package toolcall

// harmony is gpt-oss's (github.com/openai/harmony, docs/format.md). A call is a message to a
// recipient. Package reasoning, which reads the headers of messages, leaves those of calls in the
// content, in the form that is read here (reasoning.Splitter.KeepCalls).
var harmony = &Format{
	name: "openai", marks: []string{"<|start|>assistant to=functions."}, channels: true,
	before: "<|start|>assistant to=functions.", colon: "<|channel|>commentary json<|message|>", after: "<|call|>", between: "\v",
	detect: []string{"<|channel|>", "<|start|>assistant", "to="},
}

// Whole reports that the grammar of a format is that of the whole output, from the end of the
// prompt on, and not of what follows the thoughts: in harmony, thoughts, calls and the answer are
// messages, and their headers tell them apart.
func (f *Format) Whole() bool { return f.channels }

// messages is the grammar of an output in channels: thoughts and texts before calls, and then a
// call, or with Auto an answer. Only one call is made: its end ends the output.
func (f *Format) messages(calls []node, mode Mode, content node) node {
	message := func(header string, content any, end ...string) node {
		return node{"type": "tag", "begin": header, "content": content, "end": end}
	}
	text := node{"type": "any_text"}
	const next = "<|end|><|start|>assistant"
	before := node{"type": "star", "content": node{"type": "or", "elements": []any{
		message("<|channel|>analysis<|message|>", text, next),
		message("<|channel|>commentary<|message|>", text, next),
	}}}
	if content == nil {
		content = text
	}
	var last []any
	if mode == Auto || mode == None || len(calls) == 0 {
		last = append(last, message("<|channel|>final<|message|>", content, "<|return|>"))
	}
	if mode != None {
		for _, call := range calls {
			last = append(last, call)
		}
	}
	return sequence(before, node{"type": "or", "elements": last})
}

// message is a call in channels. Models write the recipient in either place.
func (f *Format) message(tool Tool, arguments node) node {
	var headers []any
	for _, header := range []string{
		"<|channel|>commentary to=functions." + tool.Name + " <|constrain|>json<|message|>",
		" to=functions." + tool.Name + "<|channel|>commentary <|constrain|>json<|message|>",
		" to=functions." + tool.Name + "<|channel|>commentary json<|message|>",
	} {
		headers = append(headers, constant(header))
	}
	delete(arguments, "separators") // which models do not write as the template does
	return sequence(node{"type": "or", "elements": headers}, arguments, constant("<|call|>"))
}
