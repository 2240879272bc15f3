package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"weir/internal/jsontext"
	"weir/pooling"
	"weir/server/openai"
)

// reranker is what is known of a model that scores before its tokenizer is open.
type reranker struct {
	cross     pooling.Cross // what its files say
	overrides overrides
	logits    bool     // the score is made of logits of a network that generates
	labels    []string // names of the classes, of config.json
}

// overrides are the members of --hf-overrides, which in vLLM change a config.json. Those that make a score of a network
// that generates are known, and no others.
type overrides struct {
	tokens     []string // whose logits are the score
	difference bool     // the second one's less the first one's
	separate   bool     // the tokenizer joins the texts of a pair
}

// parseOverrides reads --hf-overrides for a network of the given architecture.
func parseOverrides(text, architecture string) (o overrides, err error) {
	defer func() {
		if err != nil {
			err = usageError{fmt.Errorf("--hf-overrides: %w", err)}
		}
	}()
	if slices.Contains([]string{"", "{}", "None"}, strings.TrimSpace(text)) {
		return o, nil
	}
	var members map[string]jsontext.RawMessage
	if err := jsontext.Decode([]byte(text), &members); err != nil {
		return o, err
	}
	var architectures []string
	var method string
	var original bool
	known := map[string]any{"architectures": &architectures, "classifier_from_token": &o.tokens, "is_original_qwen3_reranker": &original, "method": &method, "use_sep_token": &o.separate}
	for name, raw := range members {
		into, ok := known[name]
		if !ok {
			return o, fmt.Errorf("%q is not one of architectures, classifier_from_token, is_original_qwen3_reranker, method and use_sep_token: all else is as the model's config.json says", name)
		}
		if err := jsontext.Decode(raw, into); err != nil {
			return o, fmt.Errorf("%s: %w", name, err)
		}
	}
	want := strings.TrimSuffix(architecture, "ForCausalLM") + "ForSequenceClassification"
	o.difference = method == "from_2_way_softmax" || original
	switch {
	case len(architectures) > 0 && !slices.Equal(architectures, []string{want}):
		return o, fmt.Errorf("architectures %q, but a score can be made of %s as %q alone", architectures, architecture, want)
	case !slices.Contains([]string{"", "from_2_way_softmax", "no_post_processing"}, method) || original && method == "no_post_processing":
		return o, fmt.Errorf("method %q, want from_2_way_softmax or no_post_processing", method)
	case len(o.tokens) == 0 || o.difference && len(o.tokens) != 2:
		return o, fmt.Errorf("classifier_from_token has %d tokens, want the two of which the second one means yes, or with the method no_post_processing one for each class", len(o.tokens))
	case !o.difference && method == "":
		return o, errors.New("classifier_from_token says whose logits make a score, but neither method nor is_original_qwen3_reranker how")
	}
	return o, nil
}

// readReranker reads what the flags and the model's files say of scores.
func (s *source) readReranker(o *modelOptions) (r reranker, err error) {
	if r.overrides, err = parseOverrides(o.overrides, s.network.Config.Architecture); err != nil {
		return r, err
	}
	forced := len(r.overrides.tokens) > 0
	if o.runner == "generate" {
		if forced {
			return r, usageError{errors.New("--hf-overrides makes a score of the model, and --runner generate text")}
		}
		return r, nil
	}
	if f := s.network.GGUF(); f != nil {
		if r.labels, err = storedLabels(f); err != nil {
			return r, err
		}
	} else {
		if r.cross, _, err = pooling.ReadCross(s.texts); err != nil {
			return r, err
		}
		if r.labels, err = readLabels(s.texts); err != nil {
			return r, err
		}
	}
	r.logits = r.cross.Logits || forced
	return r, nil
}

// readLabels reads the names of classes, which config.json has by their numbers.
func readLabels(files fs.FS) ([]string, error) {
	text, found, err := readOptional(files, "config.json")
	if err != nil || !found {
		return nil, err
	}
	var c struct {
		Labels map[string]string `json:"id2label"`
	}
	if err := jsontext.Decode(text, &c); err != nil {
		return nil, fmt.Errorf("config.json: id2label: %w", err)
	}
	labels := make([]string, 0, len(c.Labels))
	for i := range len(c.Labels) {
		name, ok := c.Labels[strconv.Itoa(i)]
		if !ok {
			return nil, fmt.Errorf("config.json: id2label has %d names, but none of %d", len(c.Labels), i)
		}
		labels = append(labels, name)
	}
	return labels, nil
}

// openScores makes the plan of a score of logits, whose tokens the tokenizer knows by name, and settles how
// pairs are read.
func (s *source) openScores(r *reranker, o *modelOptions) error {
	if r.logits {
		if err := s.openLogits(r); err != nil {
			return err
		}
	}
	if s.pooling == nil || s.pooling.Labels == 0 {
		return nil
	}
	sc := &s.scoring
	sc.Types, sc.Prompt, sc.Kwargs, sc.Generation = s.network.Config.Network.NumTypes, r.cross.Prompt, r.cross.Kwargs, r.cross.Generation
	if !s.text.Types {
		sc.Types = 0 // the tokenizer does not tell the network which text a token is of
	}
	switch {
	case o.chatTemplate != "" || r.cross.Rendered:
		sc.Form = openai.PairRendered
	case len(r.overrides.tokens) > 0 && !r.overrides.separate:
		sc.Form = openai.PairTexts
	}
	if err := s.checkTypes(); err != nil {
		return err
	}
	if sc.Labels = r.labels; len(sc.Labels) != s.pooling.Labels { // transformers' names
		sc.Labels = nil
		for i := range s.pooling.Labels {
			sc.Labels = append(sc.Labels, "LABEL_"+strconv.Itoa(i))
		}
	}
	return nil
}

// checkTypes refuses a tokenizer whose pairs have token types that the network does not have.
func (s *source) checkTypes() error {
	if s.scoring.Form != openai.PairJoined || s.scoring.Types <= 1 {
		return nil
	}
	_, types, err := s.tokenizer.JoinPair([]int32{0}, []int32{0}, -1)
	if err != nil {
		return nil // requests for pairs are refused, and no others
	}
	if most := int(slices.Max(types)); most >= s.scoring.Types {
		return fmt.Errorf("the tokenizer's template for two texts has the token type %d, and the network %d types from 0", most, s.scoring.Types)
	}
	return nil
}

// openLogits makes the plan of a score that is made of logits.
func (s *source) openLogits(r *reranker) error {
	tokens, difference := []int{r.cross.Yes, r.cross.No}, r.cross.No >= 0
	if !difference {
		tokens = tokens[:1]
	}
	if names := r.overrides.tokens; len(names) > 0 {
		tokens, difference = nil, r.overrides.difference
		for _, name := range names {
			id, ok := s.tokenizer.ID(name)
			if !ok {
				return usageError{fmt.Errorf("--hf-overrides: classifier_from_token: the tokenizer has no token %.200q", name)}
			}
			tokens = append(tokens, int(id))
		}
		if difference { // the second one means yes
			slices.Reverse(tokens)
		}
	}
	rows, err := s.network.HeadRows(tokens)
	if err != nil {
		return fmt.Errorf("a score of the logits of %d: %w", tokens, err)
	}
	s.pooling, err = pooling.LogitPlan(rows, difference, r.cross.Activation)
	return err
}
