package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"strings"
	"unicode"

	"weir/internal/jsontext"
	"weir/pooling"
	"weir/server/openai"
	"weir/tokenizer"
	"weir/weights/gguf"
)

// memoryFiles are texts of a model that are in no files of their own.
type memoryFiles map[string][]byte

// Open fails: who needs a text reads it.
func (memoryFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

// ReadFile returns a text.
func (m memoryFiles) ReadFile(name string) ([]byte, error) {
	b, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return b, nil
}

// openEmbedded opens the tokenizer that is embedded in a GGUF file, and makes a
// tokenizer_config.json of what the file says besides: its templates and special tokens.
func (s *source) openEmbedded(f *gguf.File) (err error) {
	defer f.CatchFault(debug.SetPanicOnFault(true), &err)
	file := f.Parts[0]
	var info *tokenizer.GGUF
	if s.tokenizer, info, err = tokenizer.FromGGUF(&f.Metadata); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	s.ends = info.Ends
	if err := s.checkVocabulary(file); err != nil {
		return err
	}
	config := map[string]any{"add_bos_token": info.AddBOS, "add_eos_token": info.AddEOS, "model_max_length": s.network.Config.MaxSeqTokens}
	for name, id := range map[string]int32{
		"bos_token": info.BOS, "eos_token": info.EOS, "unk_token": info.UNK, "sep_token": info.SEP, "pad_token": info.PAD,
	} {
		if id >= 0 && int(id) < s.tokenizer.VocabSize() {
			config[name] = s.tokenizer.Token(id)
		}
	}
	templates, err := embeddedTemplates(&f.Metadata)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if s.pooling != nil && s.pooling.Labels > 0 {
		for _, t := range templates {
			if t["name"] != "rerank" {
				continue
			}
			form, err := pairTemplate(t["template"])
			if err != nil {
				return fmt.Errorf("%s: the key tokenizer.chat_template.rerank: %w", file, err)
			}
			templates = []map[string]string{{"name": "default", "template": form}}
			s.scoring.Form = openai.PairRendered
			break
		}
	}
	switch {
	case len(templates) == 1 && templates[0]["name"] == "default":
		config["chat_template"] = templates[0]["template"]
	case len(templates) > 0:
		config["chat_template"] = templates
	}
	text, err := jsontext.Encode(config)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	s.texts = memoryFiles{"tokenizer_config.json": text}
	return nil
}

// openStoredPooling makes the plan of a GGUF file that embeds or ranks, and leaves none for one that does not say so.
func (s *source) openStoredPooling(f *gguf.File) (err error) {
	defer f.CatchFault(debug.SetPanicOnFault(true), &err)
	arch, _ := f.Metadata.String("general.architecture")
	c := &s.network.Config
	stored := pooling.Stored{Architecture: arch, Types: c.Network.NumTypes > 0, NormEps: c.NormEps, Tensor: s.network.Extra}
	for key, into := range map[string]*int64{arch + ".pooling_type": &stored.Pooling, arch + ".classifier.pooling_type": &stored.HeadPooling} {
		*into = -1
		v, ok := f.Metadata.Value(key)
		if !ok {
			continue
		}
		if *into, err = v.Int(); err != nil {
			return fmt.Errorf("the key %s %w", key, err)
		}
	}
	if s.pooling, err = pooling.FromGGUF(&stored, c.Hidden); err != nil {
		return err
	}
	s.text.Types = true // if the network has some
	return nil
}

// storedLabels are the names of classes in a GGUF file; nil: it has none.
func storedLabels(f *gguf.File) (labels []string, err error) {
	defer f.CatchFault(debug.SetPanicOnFault(true), &err)
	arch, _ := f.Metadata.String("general.architecture")
	_, texts, ok := f.Metadata.Strings(arch + ".classifier.output_labels")
	if !ok {
		return nil, nil
	}
	for text := range texts {
		labels = append(labels, string(text))
	}
	return labels, nil
}

// pairTemplate makes a chat template of the form that a GGUF file has for a query and a document, which has their names in braces
// where they belong (llama.cpp, tools/server, format_prompt_rerank).
func pairTemplate(form string) (string, error) {
	text := map[string]string{}
	for _, role := range []string{"query", "document"} {
		text["{"+role+"}"] = `{{ messages | selectattr("role", "eq", "` + role + `") | map(attribute="content") | first }}`
	}
	var b strings.Builder
	for form != "" {
		at, name := len(form), ""
		for n := range text {
			if i := strings.Index(form, n); i >= 0 && i < at {
				at, name = i, n
			}
		}
		if at > 0 {
			plain, err := jsontext.Encode(form[:at])
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "{{ %s }}", jsontext.Trim(plain)) // whose escapes are those of templates
		}
		b.WriteString(text[name])
		form = form[at+len(name):]
	}
	return b.String(), nil
}

// embeddedTemplates are the chat templates of a GGUF file, with their names.
func embeddedTemplates(m *gguf.Metadata) ([]map[string]string, error) {
	const first = "tokenizer.chat_template"
	var templates []map[string]string
	for _, key := range m.Keys() {
		name, ok := strings.CutPrefix(key, first+".")
		if key == first {
			name = "default"
		} else if !ok {
			continue
		}
		v, _ := m.Value(key)
		text, err := v.Text()
		if err != nil {
			return nil, fmt.Errorf("the key %.200q %w", key, err)
		}
		templates = append(templates, map[string]string{"name": name, "template": text})
	}
	return templates, nil
}

// embeddedName is the name that a GGUF file gives its model, or else the name of the file without
// its ending and the number of the part.
func embeddedName(f *gguf.File, path string) (name string, err error) {
	defer f.CatchFault(debug.SetPanicOnFault(true), &err)
	name, _ = f.Metadata.String("general.name")
	name = strings.TrimSpace(name)
	const sensible = 200 // bytes
	if name != "" && len(name) <= sensible && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name, nil
	}
	base := filepath.Base(path)
	if stem, _, _, ok := gguf.PartName(base); ok {
		return stem, nil
	}
	if ext := filepath.Ext(base); strings.EqualFold(ext, ".gguf") {
		base = strings.TrimSuffix(base, ext)
	}
	return base, nil
}
