package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"weir/api"
	"weir/chat"
	"weir/chat/reasoning"
	"weir/model"
	"weir/models"
	"weir/server"
	"weir/tokenizer"
)

// source is a model whose headers, vocabulary and templates are read and
// checked. No weight is.
type source struct {
	names     []string
	root      string // where it came from
	files     fs.FS
	network   *model.Model
	tokenizer *tokenizer.Tokenizer
	chat      *chat.Renderer
	info      string // for /tokenizer_info
	defaults  server.Generation
}

// openSource opens the model in dir, or the bundled one if dir is empty.
func openSource(dir string, o modelOptions) (_ *source, err error) {
	s := &source{root: dir}
	if dir == "" {
		s.root, s.files, s.names = models.Name, models.Bundled(), []string{models.Name}
		s.network, err = model.OpenFS(s.files)
	} else {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s is not a model: give a folder with config.json, *.safetensors and tokenizer.json", dir)
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		s.files, s.names = os.DirFS(dir), []string{filepath.Base(abs)}
		if s.network, err = model.Open(dir); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.network.Close()
		}
	}()
	if len(*o.names) > 0 {
		s.names = *o.names
	}
	vocabulary, err := fs.ReadFile(s.files, "tokenizer.json")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.root, err)
	}
	if s.tokenizer, err = tokenizer.Load(vocabulary); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.root, "tokenizer.json"), err)
	}
	if have, takes := s.tokenizer.VocabSize(), s.network.Config.VocabSize; have > takes {
		return nil, fmt.Errorf("%s: the tokenizer has %d tokens, the network takes %d", s.root, have, takes)
	}
	var eos string
	if s.chat, eos, err = openChat(s.files, o); err != nil {
		return nil, fmt.Errorf("%s: %w", s.root, err)
	}
	if s.info, err = tokenizerInfo(s.files, *o.chatTemplate); err != nil {
		return nil, fmt.Errorf("%s: %w", s.root, err)
	}
	s.defaults, err = s.generation(*o.generationConfig, eos)
	return s, err
}

// tokenizerInfo is the model's tokenizer_config.json, with the template that is
// in use and a tokenizer_class in any case, as clients expect them there.
func tokenizerInfo(files fs.FS, template string) (string, error) {
	info := map[string]json.RawMessage{}
	src, err := fs.ReadFile(files, "tokenizer_config.json")
	switch {
	case err == nil:
		if err := json.Unmarshal(src, &info); err != nil {
			return "", fmt.Errorf("tokenizer_config.json: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if info["tokenizer_class"] == nil {
		info["tokenizer_class"] = json.RawMessage(`"PreTrainedTokenizerFast"`)
	}
	source, err := fs.ReadFile(files, "chat_template.jinja")
	if template != "" {
		source, err = os.ReadFile(template)
	}
	switch {
	case err == nil:
		if info["chat_template"], err = json.Marshal(string(source)); err != nil {
			return "", err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	out, err := json.Marshal(info)
	return string(out), err
}

// openChat finds the model's chat templates: the operator's, else the file, else
// those of tokenizer_config.json. It also returns the end token that the latter
// names, or "".
func openChat(files fs.FS, o modelOptions) (_ *chat.Renderer, eos string, err error) {
	cfg := chat.Config{TrustRequestTemplate: *o.trustTemplate, ResponseRole: *o.responseRole}
	if cfg.ContentFormat, err = chat.ParseContentFormat(*o.contentFormat); err != nil {
		return nil, "", err
	}
	if cfg.Reasoning, err = reasoning.Parse(*o.reasoningParser); err != nil {
		return nil, "", usageError{fmt.Errorf("--reasoning-parser: %w", err)}
	}
	if kwargs := *o.templateKwargs; kwargs != "" {
		if err := api.Scan([]byte(kwargs), api.DefaultLimits().Depth); err != nil {
			return nil, "", usageError{fmt.Errorf("--default-chat-template-kwargs: %w", err)}
		}
		cfg.DefaultKwargs = api.Raw(kwargs)
	}
	src, err := fs.ReadFile(files, "tokenizer_config.json")
	switch {
	case err == nil:
		t, err := chat.ParseTokenizerConfig(src)
		if err != nil {
			return nil, "", err
		}
		cfg.Templates, cfg.SpecialTokens = t.Templates, t.SpecialTokens
		if v, ok := t.SpecialTokens.Get("eos_token"); ok {
			eos, _ = v.(string)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, "", err
	}
	src, err = fs.ReadFile(files, "chat_template.jinja")
	switch {
	case err == nil:
		cfg.Templates = []chat.Template{{Source: string(src)}}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, "", err
	}
	if *o.chatTemplate != "" {
		src, err := os.ReadFile(*o.chatTemplate)
		if err != nil {
			return nil, "", fmt.Errorf("--chat-template: %w", err)
		}
		cfg.Templates = []chat.Template{{Source: string(src)}}
	}
	r, err := chat.New(cfg)
	return r, eos, err
}

// generation is what requests get that say nothing: sampling parameters from
// where the operator wants them, end tokens from the model in any case. The
// primary end token is the tokenizer's; further ones stop as stop ids do.
func (s *source) generation(from, eos string) (g server.Generation, err error) {
	d := s.network.Generation
	switch from {
	case "auto":
	case "vllm":
		d = model.GenerationDefaults{EOS: d.EOS}
	default:
		src, err := os.ReadFile(filepath.Join(from, "generation_config.json"))
		if err != nil {
			return g, fmt.Errorf("--generation-config: %w", err)
		}
		ends := d.EOS
		if d, err = model.ParseGeneration(src, s.network.Config); err != nil {
			return g, fmt.Errorf("--generation-config: %w", err)
		}
		d.EOS = append(ends[:len(ends):len(ends)], d.EOS...)
	}
	g = server.Generation{Temperature: wide(d.Temperature), TopP: wide(d.TopP), MinP: wide(d.MinP), RepetitionPenalty: wide(d.RepetitionPenalty),
		TopK: d.TopK, MaxNewTokens: d.MaxNewTokens, EOS: -1}
	ends := d.EOS
	if id, ok := s.tokenizer.ID(eos); eos != "" && ok {
		ends = append([]int32{id}, ends...)
	}
	for i, id := range ends {
		switch {
		case i == 0:
			g.EOS = id
		case id != g.EOS && !slices.Contains(g.Stop, id):
			g.Stop = append(g.Stop, id)
		}
	}
	return g, nil
}

func wide(v *float32) *float64 {
	if v == nil {
		return nil
	}
	w := float64(*v)
	return &w
}
