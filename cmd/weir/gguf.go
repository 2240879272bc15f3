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

// embeddedPooling is the plan of a GGUF file whose key pooling_type says that its model embeds; nil: it does not.
// Vectors get length 1, as llama.cpp's server gives them by default and as the models' modules do.
func embeddedPooling(f *gguf.File, hidden int) (p *pooling.Plan, err error) {
	defer f.CatchFault(debug.SetPanicOnFault(true), &err)
	arch, _ := f.Metadata.String("general.architecture")
	key := arch + ".pooling_type"
	v, ok := f.Metadata.Value(key)
	if !ok {
		return nil, nil
	}
	n, err := v.Int()
	if err != nil {
		return nil, fmt.Errorf("the key %s %w", key, err)
	}
	switch n { // llama.cpp, enum llama_pooling_type
	case 0:
		return nil, nil
	case 1:
		return &pooling.Plan{Kind: pooling.Mean, Hidden: hidden, Normalize: true}, nil
	case 2:
		return &pooling.Plan{Kind: pooling.First, Hidden: hidden, Normalize: true}, nil
	case 3:
		return &pooling.Plan{Kind: pooling.Last, Hidden: hidden, Normalize: true}, nil
	}
	return nil, fmt.Errorf("the key %s is %d (supported: 0 to 3, which are none, mean, first and last token)", key, n)
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
