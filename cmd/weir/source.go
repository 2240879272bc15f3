package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"weir/api"
	"weir/chat"
	"weir/chat/jinja"
	"weir/chat/reasoning"
	"weir/chat/toolcall"
	"weir/internal/jsontext"
	"weir/internal/plainfile"
	"weir/model"
	"weir/models"
	"weir/pooling"
	"weir/server/openai"
	"weir/tokenizer"
	"weir/weights/gguf"
)

// A source is a model whose configuration, tensor headers, vocabulary and templates
// have been read and checked. No weights have been read.
type source struct {
	names         []string // that clients may use, the model's own first
	root          string   // folder or GGUF file, or the name of the bundled model
	texts         fs.FS    // with the tokenizer, tokenizer_config.json and chat templates
	network       *model.Model
	ends          []int32 // tokens that end an answer because of their names
	tokenizer     *tokenizer.Tokenizer
	chat          *chat.Renderer
	tokenizerInfo string // JSON, for /tokenizer_info
	defaults      openai.Generation
	pooling       *pooling.Plan // what makes vectors of the network's; nil: the model generates
	text          pooling.Text  // of a model that embeds or classifies: what its texts are like
	scoring       openai.Scoring
}

// openSource opens the model in dir, or the bundled one if dir is empty.
func openSource(dir string, o *modelOptions) (_ *source, err error) {
	s, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.network.Close()
		}
	}()
	if len(o.names) > 0 {
		s.names = o.names
	}
	scores, err := s.openHead(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.root, err)
	}
	from, err := s.openVocabulary(o)
	if err != nil {
		return nil, err
	}
	if err := s.checkCase(); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if err := s.openScores(scores, o); err != nil {
		return nil, fmt.Errorf("%s: %w", s.root, err)
	}
	var eos string
	if s.chat, eos, err = openChat(s.texts, thinkSuffix(s.tokenizer), o); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if s.tokenizerInfo, err = tokenizerInfo(s.texts, o.chatTemplate); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	s.defaults, err = s.generation(o, eos)
	return s, err
}

// openHead reads what follows the network: of a model that embeds or classifies the layers and their numbers, and of one that scores by
// its logits what is known before the tokenizer is.
func (s *source) openHead(o *modelOptions) (*reranker, error) {
	scores, err := s.readReranker(o)
	switch {
	case err != nil:
	case scores.logits:
		err = s.limitTexts()
	default:
		err = s.openPooling(o.runner)
	}
	return &scores, err
}

// openPooling settles whether the model embeds, classifies or generates. By itself a folder of sentence-transformers embeds, as its
// modules say, and so does a GGUF file with a pooling; a network with the head of a classifier classifies; and one without a head
// embeds, which is all that it can do. Without modules the vector of an encoder is the mean, as in sentence-transformers; that
// of any other network, which can be made to embed, is that of the last token, with length 1, as in vLLM.
func (s *source) openPooling(runner string) error {
	c := &s.network.Config
	if runner == "generate" {
		if c.Network.Head == model.NoHead {
			return usageError{fmt.Errorf("--runner generate: %s has no head, without which it generates no tokens", c.Architecture)}
		}
		return nil
	}
	modules, classifies := false, pooling.IsClassifier(c.Architecture)
	var err error
	if s.network.GGUF() == nil {
		if _, modules, err = readOptional(s.texts, pooling.ModulesFile); err == nil && modules && classifies {
			modules, err = pooling.Embeds(s.texts) // and not the head of a cross-encoder
		}
		if err != nil {
			return err
		}
	}
	f := s.network.GGUF()
	if f != nil {
		if err = s.openStoredPooling(f); s.pooling != nil || err != nil {
			return err
		}
	}
	switch {
	case f != nil && c.Network.Whole:
		s.pooling = &pooling.Plan{Kind: pooling.Mean, Hidden: c.Hidden, Normalize: true}
		return nil
	case modules:
		s.pooling, err = pooling.Load(s.texts, c.Hidden)
	case classifies:
		s.pooling, err = pooling.Classifier(s.texts, c.Architecture, c.Hidden, s.network.Extra)
	case c.Network.Whole:
		s.pooling = &pooling.Plan{Kind: pooling.Mean, Hidden: c.Hidden}
	case runner == "pooling" || c.Network.Head == model.NoHead:
		s.pooling = &pooling.Plan{Kind: pooling.Last, Hidden: c.Hidden, Normalize: true}
		return nil
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return s.limitTexts()
}

// limitTexts makes the context as long as the texts that the model was made for.
func (s *source) limitTexts() error {
	var err error
	s.text, err = pooling.ReadText(s.texts)
	if c := &s.network.Config; err == nil && s.text.MaxTokens > 0 {
		c.MaxSeqTokens = min(c.MaxSeqTokens, max(s.text.MaxTokens, 2))
	}
	return err
}

// checkCase refuses a model that wants texts in small letters with a tokenizer that tells letters apart.
func (s *source) checkCase() error {
	if !s.text.Lowercase {
		return nil
	}
	large, err := s.tokenizer.Encode(nil, "A Z Ä", false)
	if err != nil {
		return err
	}
	small, err := s.tokenizer.Encode(nil, "a z ä", false)
	if err == nil && !slices.Equal(large, small) {
		err = errors.New("do_lower_case is set, but the tokenizer takes capital letters as they are: give it a Lowercase normalizer")
	}
	return err
}

// openVocabulary opens the tokenizer, and settles which texts go with it. It returns where they are,
// for messages.
func (s *source) openVocabulary(o *modelOptions) (from string, err error) {
	switch f := s.network.GGUF(); {
	case o.tokenizer != "" && !isFolder(o.tokenizer):
		if is, err := gguf.Is(o.tokenizer); err == nil && is {
			return "", fmt.Errorf("--tokenizer %s is a GGUF file, whose tokenizer serves its own model alone: give a folder with a tokenizer.json or another form of a tokenizer, or a name on the hub", o.tokenizer)
		}
		return "", fmt.Errorf("--tokenizer %s is not a folder with a tokenizer", o.tokenizer)
	case o.tokenizer != "":
		s.texts = plainfile.Dir(o.tokenizer)
		return o.tokenizer, s.openTokenizer(o.tokenizer)
	case f != nil:
		return s.root, s.openEmbedded(f)
	}
	return s.root, s.openTokenizer(s.root)
}

// folder returns the model's folder, which an argument or --model names; "": the bundled
// model.
func (o *modelOptions) folder(args []string) (string, error) {
	dir, err := optionalModel("serve", args)
	if err == nil && dir != "" && o.path != "" && dir != o.path {
		err = usageError{fmt.Errorf("the argument names the model %s, and --model another one, %s", dir, o.path)}
	}
	return cmp.Or(dir, o.path), err
}

// openFiles opens the network in dir, or the bundled one.
func openFiles(dir string) (*source, error) {
	s := &source{root: dir}
	var err error
	if dir == "" {
		s.root, s.texts, s.names = models.Name, models.Bundled(), []string{models.Name}
		s.network, err = model.OpenFS(s.texts)
		return s, err
	}
	file, err := model.FindGGUF(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if file == "" && !isFolder(dir) {
		return nil, fmt.Errorf("%s is not a model: give a GGUF file, or a folder with config.json, *.safetensors and a tokenizer", dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s.texts, s.names = plainfile.Dir(dir), []string{filepath.Base(abs)}
	if s.network, err = model.Open(dir); err != nil || file == "" {
		return s, err
	}
	if s.names[0], err = embeddedName(s.network.GGUF(), file); err != nil {
		return nil, errors.Join(err, s.network.Close())
	}
	return s, nil
}

// fresh returns a function that an engine calls before it makes a runner of the network. From
// the second call on, which follows a failed step, the weights' files are opened anew: that
// one of them was cut or replaced may be why the step failed.
func (s *source) fresh() func() error {
	again := false
	return func() error {
		if again {
			return s.network.Reopen()
		}
		again = true
		return nil
	}
}

// openTokenizer opens the tokenizer. from is its folder, for messages.
func (s *source) openTokenizer(from string) error {
	var err error
	if s.tokenizer, err = tokenizer.Open(s.texts); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return s.checkVocabulary(from)
}

// checkVocabulary refuses a tokenizer with more tokens than the network has.
func (s *source) checkVocabulary(from string) error {
	if have, takes := s.tokenizer.VocabSize(), s.network.Config.VocabSize; have > takes {
		return fmt.Errorf("%s: the tokenizer has %d tokens, the network takes %d", from, have, takes)
	}
	return nil
}

// readOptional reads a file that a model need not have; found is false if it has
// not.
func readOptional(files fs.FS, name string) (text []byte, found bool, err error) {
	text, err = fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return text, err == nil, err
}

// tokenizerInfo is the model's tokenizer_config.json, with the template that is in
// use and always with a tokenizer_class, because clients expect both there.
func tokenizerInfo(files fs.FS, template string) (string, error) {
	info := map[string]jsontext.RawMessage{}
	config, found, err := readOptional(files, "tokenizer_config.json")
	if err != nil {
		return "", err
	}
	if found {
		if err := jsontext.Decode(config, &info); err != nil {
			return "", fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	if info["tokenizer_class"] == nil {
		info["tokenizer_class"] = jsontext.RawMessage(`"PreTrainedTokenizerFast"`)
	}
	templates, _, err := templatesInUse(files, template)
	if err != nil {
		return "", err
	}
	if len(templates) == 1 {
		if info["chat_template"], err = jsontext.Encode(templates[0].Source); err != nil {
			return "", err
		}
	}
	out, err := jsontext.Encode(info)
	return string(out), err
}

// templatesInUse reads the template that --chat-template names, or else the model's
// chat_template.jinja, or else those in its chat_template.json. None need exist. It also says
// where they are from.
func templatesInUse(files fs.FS, override string) (templates []chat.Template, from string, err error) {
	if override != "" {
		src, err := plainfile.Read(override)
		if err != nil && strings.ContainsAny(override, "{}\n") {
			src, err = []byte(override), nil // no name of a file, but a template, as vLLM takes it, too
		}
		if err != nil {
			return nil, "", fmt.Errorf("--chat-template: %w", err)
		}
		return []chat.Template{{Source: string(src)}}, "--chat-template", nil
	}
	const own, named = "chat_template.jinja", "chat_template.json"
	src, found, err := readOptional(files, own)
	if err != nil {
		return nil, "", err
	}
	if found {
		return []chat.Template{{Source: string(src)}}, own, nil
	}
	if src, found, err = readOptional(files, named); err != nil || !found {
		return nil, "", err
	}
	templates, err = chat.ParseTemplateFile(src)
	return templates, named, err
}

// openChat opens the model's chat templates: the one that --chat-template names,
// else chat_template.jinja, else those in chat_template.json, else those in
// tokenizer_config.json. It also returns the
// end token that tokenizer_config.json names, or "". suffix is that of the vocabulary's think tags.
func openChat(files fs.FS, suffix string, o *modelOptions) (_ *chat.Renderer, eos string, err error) {
	cfg := chat.Config{TrustRequestTemplate: o.trustTemplate, ResponseRole: o.responseRole, ThinkSuffix: suffix}
	if cfg.ContentFormat, err = chat.ParseContentFormat(o.contentFormat); err != nil {
		return nil, "", err
	}
	if cfg.Reasoning, err = reasoning.Parse(o.reasoningParser); err != nil {
		return nil, "", usageError{fmt.Errorf("--reasoning-parser: %w", err)}
	}
	if o.callParser != "auto" {
		known := false
		if cfg.Calls, known = toolcall.Named(o.callParser); !known {
			return nil, "", usageError{fmt.Errorf("--tool-call-parser: %q is none of auto, %s", o.callParser, strings.Join(toolcall.Names(), ", "))}
		}
	}
	if o.templateKwargs != "" {
		if err := jsontext.Scan([]byte(o.templateKwargs), api.DefaultLimits().Depth); err != nil {
			return nil, "", usageError{fmt.Errorf("--default-chat-template-kwargs: %w", err)}
		}
		cfg.DefaultKwargs = api.Raw(o.templateKwargs)
	}
	src, found, err := readOptional(files, "tokenizer_config.json")
	if err != nil {
		return nil, "", err
	}
	from := "" // where the templates are from
	if found {
		t, err := chat.ParseTokenizerConfig(src)
		if err != nil {
			return nil, "", err
		}
		cfg.Templates, cfg.SpecialTokens = t.Templates, t.SpecialTokens
		from = "tokenizer_config.json"
		if _, made := files.(memoryFiles); made { // by openEmbedded
			from = "the key tokenizer.chat_template"
		}
		if v, ok := t.SpecialTokens.Get("eos_token"); ok {
			eos, _ = v.(string)
		}
	}
	templates, own, err := templatesInUse(files, o.chatTemplate)
	if err != nil {
		return nil, "", err
	}
	if len(templates) > 0 {
		cfg.Templates, from = templates, own
	}
	r, err := chat.New(cfg)
	if _, ok := errors.AsType[*jinja.Error](err); ok {
		err = fmt.Errorf("%s: %w", from, err)
	}
	return r, eos, err
}

// thinkSuffix finds what think tags have before their ">" in a vocabulary.
func thinkSuffix(t *tokenizer.Tokenizer) string {
	return reasoning.Suffix(func(yield func(string) bool) {
		for id := range t.VocabSize() {
			if !yield(t.Token(int32(id))) {
				return
			}
		}
	})
}

// generation returns what applies to requests that do not say otherwise: sampling
// parameters from where --generation-config says, with those of
// --override-generation-config in their place, and end tokens, which always
// include the model's, and those of a GGUF file that are known by their names. The primary end token is eos, the tokenizer's, if it has one.
// The other end tokens stop an answer in the way that stop_token_ids do.
func (s *source) generation(o *modelOptions, eos string) (g openai.Generation, err error) {
	d, err := s.generationDefaults(o.generationConfig)
	if err != nil {
		return g, fmt.Errorf("--generation-config: %w", err)
	}
	var over model.GenerationDefaults
	if o.override != "" {
		if over, err = model.ParseGeneration([]byte(o.override), s.network.Config); err != nil {
			return g, usageError{fmt.Errorf("--override-generation-config: %w", err)}
		}
		d = d.Override(over)
	}
	g = openai.Generation{Temperature: widen(d.Temperature), TopP: widen(d.TopP), MinP: widen(d.MinP), RepetitionPenalty: widen(d.RepetitionPenalty),
		TopK: d.TopK, MaxNewTokens: d.MaxNewTokens, MaxTokens: over.MaxNewTokens, EOS: -1}
	ends := slices.Concat(d.EOS, s.ends, turnEnds(s.tokenizer))
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

// turnEnds returns the special tokens that end a turn of gpt-oss, beside the tokenizer's own:
// the end of an answer and the end of a call of a tool. Some conversions of its checkpoints
// have no generation_config.json that names them.
func turnEnds(tok *tokenizer.Tokenizer) (ends []int32) {
	for _, name := range []string{"<|channel|>", "<|return|>", "<|call|>"} {
		id, ok := tok.ID(name)
		if !ok || !tok.IsSpecial(id) {
			return nil
		}
		if name != "<|channel|>" {
			ends = append(ends, id)
		}
	}
	return ends
}

func (s *source) generationDefaults(from string) (d model.GenerationDefaults, err error) {
	own := s.network.Generation
	switch from {
	case "auto":
		return own, nil
	case "vllm":
		return model.GenerationDefaults{EOS: own.EOS}, nil
	}
	src, err := plainfile.Read(filepath.Join(from, "generation_config.json"))
	if err != nil {
		return d, err
	}
	if d, err = model.ParseGeneration(src, s.network.Config); err != nil {
		return d, err
	}
	d.EOS = slices.Concat(own.EOS, d.EOS)
	return d, nil
}

func widen(v *float32) *float64 {
	if v == nil {
		return nil
	}
	w := float64(*v)
	return &w
}
