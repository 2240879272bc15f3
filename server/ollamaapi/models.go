package ollamaapi

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/chat"
	"weir/server/jsonfields"
	"weir/server/openai"
	"weir/server/transport"
)

// Tags answers GET /api/tags with the names of the model that is served.
func (h *Handlers) Tags(c *transport.Call) { h.list(c, false) }

// Running answers GET /api/ps: the model is always loaded.
func (h *Handlers) Running(c *transport.Call) { h.list(c, true) }

func (h *Handlers) list(c *transport.Call, running bool) {
	m, err := h.chats.Serving()
	if err != nil {
		c.Fail(err)
		return
	}
	dst := []byte(`{"models":[`)
	for i, name := range m.Names {
		if i > 0 {
			dst = append(dst, ',')
		}
		tagged := withTag(name)
		dst = api.AppendString(append(dst, `{"name":`...), tagged)
		dst = api.AppendString(append(dst, `,"model":`...), tagged)
		dst = strconv.AppendInt(append(dst, `,"size":`...), m.About.Bytes, 10)
		dst = append(append(append(dst, `,"digest":"`...), digest(m)...), '"')
		dst = appendDetails(append(dst, `,"details":`...), m)
		if running {
			dst = append(dst, `,"expires_at":"9999-12-31T23:59:59Z","size_vram":0`...)
			dst = strconv.AppendInt(append(dst, `,"context_length":`...), int64(m.MaxLen), 10)
		} else {
			dst = appendTime(append(dst, `,"modified_at":`...), m.Created)
		}
		dst = append(dst, '}')
	}
	c.Reply(append(dst, "]}"...))
}

// Show answers POST /api/show.
func (h *Handlers) Show(c *transport.Call) {
	anyType(c)
	h.chats.AnswerBody(c, func(m *openai.Model, body []byte) ([]byte, error) {
		fields, err := jsonfields.Read(body)
		if err != nil {
			return nil, err
		}
		name := fields["model"]
		if name == nil {
			name = fields["name"] // as it was called before
		}
		s, err := jsonfields.Text("model", name)
		if err != nil {
			return nil, err
		}
		if !m.Serves(served(s)) {
			return nil, api.ErrModelNotFound(s)
		}
		return h.appendShown(nil, m), nil
	})
}

// appendShown appends what is known of a model.
func (h *Handlers) appendShown(dst []byte, m *openai.Model) []byte {
	family := family(m)
	dst = append(dst, `{"modelfile":"","parameters":"","template":"","details":`...)
	dst = appendDetails(dst, m)
	dst = api.AppendString(append(dst, `,"model_info":{"general.architecture":`...), family)
	if m.About.Parameters > 0 {
		dst = strconv.AppendInt(append(dst, `,"general.parameter_count":`...), m.About.Parameters, 10)
	}
	dst = api.AppendString(append(dst, ','), family+".context_length")
	dst = strconv.AppendInt(append(dst, ':'), int64(m.MaxLen), 10)
	dst = api.AppendString(append(dst, ','), family+".vocab_size")
	dst = strconv.AppendInt(append(dst, ':'), int64(m.VocabSize), 10)
	dst = append(dst, `},"capabilities":[`...)
	if m.Pooling != nil {
		dst = append(dst, `"embedding"`...)
	} else {
		dst = append(dst, `"completion"`...)
		if h.callsTools(m.Chat) {
			dst = append(dst, `,"tools"`...)
		}
		if m.Chat.Divides() {
			dst = append(dst, `,"thinking"`...)
		}
	}
	dst = append(dst, `],"modified_at":`...)
	return append(appendTime(dst, m.Created), '}')
}

// callsTools reports whether calls of tools are read from what a model writes. That depends on its
// template, which is tried once for each model.
func (h *Handlers) callsTools(r *chat.Renderer) bool {
	if known, ok := h.calls.Load(r); ok {
		return known.(bool)
	}
	p, err := r.Render(chat.Input{Messages: []api.Message{{Role: "user", Content: api.Content{Kind: api.ContentText, Text: "a"}}}})
	ok := err == nil && p.Calls != nil
	h.calls.Store(r, ok)
	return ok
}

func appendDetails(dst []byte, m *openai.Model) []byte {
	family := family(m)
	dst = api.AppendString(append(dst, `{"parent_model":"","format":`...), m.About.Format)
	dst = api.AppendString(append(dst, `,"family":`...), family)
	dst = api.AppendString(append(dst, `,"families":[`...), family)
	dst = api.AppendString(append(dst, `],"parameter_size":`...), inWords(m.About.Parameters))
	dst = api.AppendString(append(dst, `,"quantization_level":`...), quantization(m))
	return append(dst, '}')
}

// family is the architecture of a model as Ollama would name it: llama for LlamaForCausalLM.
func family(m *openai.Model) string {
	name, _, _ := strings.Cut(m.About.Family, "For")
	if name == "" {
		return "unknown"
	}
	return strings.ToLower(name)
}

// quantization is the type of the weights as Ollama names it: BF16, F16, Q4_K.
func quantization(m *openai.Model) string {
	return strings.NewReplacer("BFLOAT", "BF", "FLOAT", "F").Replace(m.About.Quantization)
}

// inWords is a number of parameters as Ollama writes it: 5.6M, 7.2B.
func inWords(n int64) string {
	switch x := float64(n); {
	case n == 0:
		return ""
	case n < 1_000_000:
		return fmt.Sprintf("%.2fK", x/1e3)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.2fM", x/1e6)
	default:
		return fmt.Sprintf("%.1fB", x/1e9)
	}
}

// digest names the bits of a model, as far as answers depend on them.
func digest(m *openai.Model) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(m.Names[0]+"\x00"+m.Fingerprint)))
}

func withTag(name string) string {
	if strings.Contains(name, ":") {
		return name
	}
	return name + latest
}

func appendTime(dst []byte, t time.Time) []byte {
	return append(t.UTC().AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
}
