package openai

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"weir/api"
	"weir/auth"
	"weir/chat"
	"weir/internal/memory"
	"weir/internal/testkit"
	"weir/pooling"
)

// hostile is a body that takes much memory to prepare.
type hostile struct {
	name    string
	prepare func(f *preparingFixture, ctx context.Context, in *input) (any, error)
	body    string
}

type preparingFixture struct {
	*fixture
	model *Model // accepts templates of requests, and has an endless context
}

func newPreparingFixture(t *testing.T) *preparingFixture {
	f := newFixture(t)
	f.cfg.MaxEcho = 32 << 20
	renderer, err := chat.New(chat.Config{TrustRequestTemplate: true})
	if err != nil {
		t.Fatal(err)
	}
	few := 16
	return &preparingFixture{f, &Model{
		Names: []string{"m"}, Engine: f.eng, Tokenizer: bundled(), Chat: renderer, MaxLen: 1 << 30, VocabSize: vocabulary, Generation: Generation{EOS: -1, MaxNewTokens: &few},
	}}
}

func prepareAs[T any](of func(*Service, context.Context, *Model, *input) (T, error)) func(*preparingFixture, context.Context, *input) (any, error) {
	return func(f *preparingFixture, ctx context.Context, in *input) (any, error) {
		return of(f.Service, ctx, f.model, in)
	}
}

var (
	asChat = prepareAs(func(s *Service, ctx context.Context, m *Model, in *input) (*prepared, error) {
		return detached(s.prepareChat)(ctx, m, in)
	})
	asTexts = prepareAs(func(s *Service, ctx context.Context, m *Model, in *input) (*prepared, error) {
		return detached(s.prepareTexts)(ctx, m, in)
	})
	asTokenize    = prepareAs((*Service).tokenize)
	asDetokenize  = prepareAs((*Service).detokenize)
	asRenderChat  = prepareAs((*Service).renderChat)
	asRenderTexts = prepareAs((*Service).renderTexts)
	asScores      = asScoresOf(1, PairJoined)
	asTextScores  = asScoresOf(1, PairTexts)
	asCosines     = asScoresOf(0, PairJoined)
)

// asScoresOf prepares ranks of a model with so many classes.
func asScoresOf(labels int, form PairForm) func(*preparingFixture, context.Context, *input) (any, error) {
	return prepareAs(func(s *Service, ctx context.Context, m *Model, in *input) (*pooled, error) {
		scores := *m
		scores.Pooling, scores.Scoring = &pooling.Plan{Hidden: 8, Labels: labels}, Scoring{Form: form, Types: 2}
		return s.prepareScores(ctx, &scores, in, api.DecodeRerank)
	})
}

// many repeats a text to about n bytes.
func many(s string, n int) string { return strings.Repeat(s, n/len(s)) }

// chatOf is a chat with a template, a message of its own, and further members.
func chatOf(members string) string {
	return `{"truncate_prompt_tokens":16,"chat_template":"{% for m in messages %}{{ m.content }}{% endfor %}","messages":[{"role":"user","content":"x"}]` + members + `}`
}

// says is a chat with so many further messages.
func says(messages string) string {
	return `{"truncate_prompt_tokens":16,"chat_template":"{% for m in messages %}{{ m.content }}{% endfor %}","messages":[` + messages + `{"role":"user","content":"x"}]}`
}

// ranks is a query with documents, of which each has a comma behind it.
func ranks(most int, query, documents string) string {
	return fmt.Sprintf(`{"truncate_prompt_tokens":%d,"query":"%s","documents":[%s"a"]}`, most, query, documents)
}

// hostileBodies are the worst bodies of about n bytes for each way to take memory.
func hostileBodies(n int) []hostile {
	prompt := func(s string) string { return `{"prompt":"` + many(s, n) + `"}` }
	strs := func(s string) string { return `{"return_token_strs":true,"prompt":"` + many(s, n) + `"}` }
	content := func(s string) string { return says(`{"role":"user","content":"` + many(s, n) + `"},`) }
	template := func(t string) string {
		return `{"truncate_prompt_tokens":16,"chat_template":"` + t + `","messages":[{"role":"user","content":"` + many("a", n) + `"}]}`
	}
	members := func() string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, `"%x":0,`, i)
		}
		return b.String()
	}
	return []hostile{
		{"one piece", asTokenize, prompt("a")},
		{"words", asTokenize, prompt("many different words, ")},
		{"a token for each character", asTokenize, prompt("q1 z9 #~ ")},
		{"a token for each byte", asTokenize, prompt("语言模型")},
		{"strings of tokens", asTokenize, strs("语言模型")},
		{"escaped strings of tokens", asTokenize, strs(`\u0001`)},
		{"composed", asTokenize, prompt("e\u0301")},
		{"twice as long when it is composed", asTokenize, strs("\u0958")},
		{"three times as long when it is composed", asTokenize, strs("\U0001D160")},
		{"many marks", asTokenize, prompt("a" + strings.Repeat("\u0301", 40))},
		{"escapes", asTokenize, prompt(`\u0958`)},
		{"line ends", asTokenize, prompt(`\n`)},
		{"chat of one piece", asTokenize, content("a")},
		{"ids", asDetokenize, `{"tokens":[` + many("1,", n) + `1]}`},
		{"ids with long texts", asDetokenize, `{"tokens":[` + many("3000,", n) + `1]}`},
		{"ids outside", asDetokenize, `{"tokens":[` + many("9999,", n) + `1]}`},
		{"a member without use", asChat, chatOf(`,"user":"` + many("a", n) + `"`)},
		{"one piece", asChat, content("a")},
		{"one piece for an endless context", asChat, strings.Replace(content("语言模型"), ":16", ":-1", 1)},
		{"brackets in a text", asChat, content("[{")},
		{"large messages", asChat, says(strings.Repeat(`{"role":"developer","content":"`+many("a", n/4)+`"},`, 4))},
		{"small messages", asChat, says(strings.Repeat(`{"role":"user","content":""},`, min(16_000, n/30)))},
		{"small messages with thoughts", asChat, says(strings.Repeat(`{"role":"assistant","reasoning":"","content":""},`, min(16_000, n/50)))},
		{"parts", asChat, says(`{"role":"user","content":[` + strings.Repeat(`"",`, 65_000) + `""]},`)},
		{"parts for a template", asChat, `{"chat_template":"{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}","messages":[{"role":"user","content":[` + strings.Repeat(`"",`, 65_000) + `"x"]}]}`},
		{"calls", asChat, says(`{"role":"assistant","content":"","tool_calls":[` + many(`{"id":"","function":{"name":"","arguments":"{}"}},`, n) + `{"id":"","function":{"name":"","arguments":"{}"}}]},`)},
		{"objects in arguments", asChat, says(`{"role":"assistant","content":"","tool_calls":[{"id":"","function":{"name":"","arguments":"{\"a\":[` + many("{},", n) + `0]}"}}]},`)},
		{"numbers in arguments", asChat, says(`{"role":"assistant","content":"","tool_calls":[{"id":"","function":{"name":"","arguments":"{\"a\":[` + many("1,", n) + `0]}"}}]},`)},
		{"numbers in tools", asChat, chatOf(`,"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[` + many("1,", n) + `1]}}}]`)},
		{"objects in tools", asChat, chatOf(`,"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[` + many("{},", n) + `1]}}}]`)},
		{"tools", asChat, chatOf(`,"tools":[` + many(`{"type":"function","function":{"name":"f"}},`, n) + `{"type":"function","function":{"name":"f"}}]`)},
		{"objects in documents", asChat, chatOf(`,"documents":[` + many("{},", n) + `{}]`)},
		{"lists in documents", asChat, chatOf(`,"documents":[{"":[` + many(strings.Repeat("[", 100)+strings.Repeat("]", 100)+",", n) + `{}]}]`)},
		{"strings in documents", asChat, chatOf(`,"documents":[{"":[` + many(`"",`, n) + `1]}]`)},
		{"members in documents", asChat, chatOf(`,"documents":[{` + members() + `"":0}]`)},
		{"objects for the template", asChat, chatOf(`,"chat_template_kwargs":{"a":[` + many("{},", n) + `{}]}`)},
		{"allowed tokens", asChat, chatOf(`,"allowed_token_ids":[` + many("1,", n) + `1]`)},
		{"choices", asChat, chatOf(`,"structured_outputs":{"choice":[` + strings.Repeat(`"",`, 65_000) + `"a"]}`)},
		{"a schema", asChat, chatOf(`,"structured_outputs":{"json":{"enum":[` + many(`"a",`, n) + `"a"]}}`)},
		{"bad words", asChat, chatOf(`,"bad_words":[` + strings.Repeat(`"aaaaaaa",`, 4000) + `"a"]`)},
		{"a long bad word", asChat, chatOf(`,"bad_words":["` + many("a", n) + `"]`)},
		{"biases", asChat, chatOf(`,"logit_bias":{` + strings.Repeat(`"1":0,`, 16_000) + `"1":0}`)},
		{"a template that multiplies", asChat, template("{% for i in range(12) %}{{ messages[0].content }}{% endfor %}")},
		{"a template that keeps", asChat, template("{% set ns = namespace(a=[]) %}{% for i in range(12) %}{% set ns.a = ns.a + [messages[0].content + 'x'] %}{% endfor %}{{ ns.a | length }}")},
		{"one piece", asTexts, `{"truncate_prompt_tokens":16,` + prompt("a")[1:]},
		{"an echo", asTexts, `{"truncate_prompt_tokens":-1,"echo":true,"prompt":[` + many("1000,", n) + `1]}`},
		{"prompts", asTexts, `{"prompt":[` + strings.Repeat(`"`+many("a", n/2048)+`",`, 2047) + `"a"]}`},
		{"small prompts", asTexts, `{"prompt":[` + strings.Repeat(`"a",`, 2047) + `"a"]}`},
		{"ids", asTexts, `{"truncate_prompt_tokens":16,"prompt":[` + many("1,", n) + `1]}`},
		{"lists of ids", asTexts, `{"truncate_prompt_tokens":16,"prompt":[` + strings.Repeat(`[`+many("1,", n/2048)+`1],`, 2047) + `[1]]}`},
		{"ids outside", asTexts, `{"truncate_prompt_tokens":16,"prompt":[` + many("9999,", n) + `1]}`},
		{"ids to be rendered", asRenderTexts, `{"truncate_prompt_tokens":-1,"prompt":[` + many("1000,", n) + `1]}`},
		{"a text to be rendered", asRenderTexts, `{"truncate_prompt_tokens":-1,` + prompt("语言模型")[1:]},
		{"a chat to be rendered", asRenderChat, strings.Replace(content("语言模型"), ":16", ":-1", 1)},
		{"pairs", asScores, ranks(16, many("语言模型", 4<<10), strings.Repeat(`"a",`, 2000))},
		{"whole pairs", asScores, ranks(-1, many("语言模型", 4<<10), strings.Repeat(`"a",`, 2000))},
		{"whole pairs that are one text", asTextScores, ranks(-1, many("语言模型", 4<<10), strings.Repeat(`"a",`, 2000))},
		{"one large pair", asScores, ranks(-1, many("语言模型", n), "")},
		{"one large pair with escapes", asTextScores, ranks(-1, "a", `"`+many(`\n`, n)+`",`)},
		{"documents", asCosines, ranks(-1, "a", strings.Repeat(`"`+many("语言模型", n/2048)+`",`, 2000))},
		{"documents that are shortened", asScores, strings.Replace(ranks(-1, "a", strings.Repeat(`"`+many("语言模型", n/2048)+`",`, 2000)), "{", `{"max_tokens_per_doc":100,`, 1)},
		{"a short text", asTexts, `{"prompt":"a"}`},
		{"a short chat", asChat, chatOf("")},
	}
}

// prepareHostile prepares a body in an account, and returns what that took and what was
// reserved for it.
func (f *preparingFixture) prepareHostile(t *testing.T, h *hostile, account *memory.Account) (made any, took, reserved int64, err error) {
	t.Helper()
	body := []byte(h.body)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	in := &input{body: body, from: Sender{Who: auth.Anonymous}, memory: newPreparing(account, "", body, 0, stop)}
	if err := in.memory.reserve(ctx); err != nil {
		t.Fatal(err)
	}
	took = testkit.Highest(func() { made, err = h.prepare(f, ctx, in) })
	reserved = in.memory.memory.Held()
	in.memory.leave()
	runtime.KeepAlive(body)
	return made, took, reserved, err
}

// Preparing a body takes no more memory than what is reserved for it, of the worst bodies
// there are; and the estimate is not much more than the worst of them needs.
func TestPreparingSizes(t *testing.T) {
	f := newPreparingFixture(t)
	const slack = 256 << 10 // of other goroutines, and of what the runtime rounds up
	for _, h := range hostileBodies(512 << 10) {
		t.Run(h.name, func(t *testing.T) {
			made, took, reserved, err := f.prepareHostile(t, &h, memory.New(1<<40, 0))
			for range 4 { // what is allocated during a collection counts as in use although it may be garbage
				if took > reserved+slack {
					made, took, reserved, err = f.prepareHostile(t, &h, memory.New(1<<40, 0))
				}
			}
			why := ""
			if err != nil {
				why = err.Error()[:min(len(err.Error()), 60)]
			}
			t.Logf("%d bytes: %d were used and %d reserved, %.2f and %.2f per byte %s", len(h.body), took, reserved, float64(took)/float64(len(h.body)), float64(reserved)/float64(len(h.body)), why)
			if took > reserved+slack {
				t.Error("more was used than reserved")
			}
			runtime.KeepAlive(made)
		})
	}
}

// What a prepared request holds is counted, and the body is not among it.
func TestRetained(t *testing.T) {
	f := newPreparingFixture(t)
	for _, h := range hostileBodies(256 << 10) {
		t.Run(h.name, func(t *testing.T) {
			body := []byte(h.body)
			before := testkit.Heap()
			made, err := h.prepare(f, t.Context(), &input{body: body, from: Sender{Who: auth.Anonymous}})
			if err != nil {
				made = nil
			}
			body = nil
			held := testkit.Heap() - before
			counted := int64(64 << 10)
			switch made := made.(type) {
			case *prepared:
				if made != nil {
					counted += made.retained() + made.size(vocabulary)
				}
			case *pooled:
				if made != nil {
					counted += made.size
				}
			case []byte:
				counted += int64(cap(made))
			}
			t.Logf("%d bytes: %d are held, %d counted", len(h.body), held, counted)
			if held > counted {
				t.Error("more is held than counted")
			}
			runtime.KeepAlive(made)
		})
	}
}

// If a template or a text grows beyond what there is, the request is refused: with 503 if
// others have the memory, and otherwise because it can never have it.
func TestPreparingThatGrows(t *testing.T) {
	f := newPreparingFixture(t)
	for _, h := range hostileBodies(1 << 20) {
		if h.name != "a template that multiplies" && h.name != "a template that keeps" && h.name != "three times as long when it is composed" {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			size := preparingSize([]byte(h.body))
			if _, _, _, err := f.prepareHostile(t, &h, memory.New(size+size/16, 0)); !errors.Is(err, memory.ErrNever) {
				t.Errorf("in an account that is too small: %v", err)
			}
			account := memory.New(32*size, 0)
			others, err := account.Reserve(t.Context(), 31*size-size/16)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, _, err := f.prepareHostile(t, &h, account); !errors.Is(err, memory.ErrFull) {
				t.Errorf("in an account that others have filled: %v", err)
			}
			others.Release()
			if made, _, _, err := f.prepareHostile(t, &h, account); err != nil {
				t.Errorf("alone: %v, %v", made, err)
			}
			if used := account.Stats().Used; used != 0 {
				t.Errorf("%d bytes are left in the account", used)
			}
		})
	}
}

// The memory of a preparation is given back once, whether its worker or its call ends last.
func TestPreparingEnds(t *testing.T) {
	body := []byte(`{"prompt":"a"}`)
	for _, c := range []struct {
		name  string
		steps func(t *testing.T, p *preparing, account *memory.Account)
	}{
		{"never begun", func(t *testing.T, p *preparing, _ *memory.Account) {
			p.leave()
			if p.begin() {
				t.Error("a worker begins although the client has left")
			}
		}},
		{"left after the end", func(_ *testing.T, p *preparing, _ *memory.Account) {
			p.begin()
			p.end()
			p.leave()
		}},
		{"left before the end", func(t *testing.T, p *preparing, account *memory.Account) {
			p.begin()
			p.leave()
			if used := account.Stats().Used; used != p.size+p.body {
				t.Errorf("%d bytes are counted while the worker goes on, want %d", used, p.size+p.body)
			}
			p.end()
		}},
		{"kept in part", func(t *testing.T, p *preparing, account *memory.Account) {
			p.begin()
			p.end()
			call := account.Open()
			p.keep(call, 100)
			if used := account.Stats().Used; used != 100 || call.Held() != 100 {
				t.Errorf("%d bytes are kept", used)
			}
			call.Release()
		}},
		{"kept and more", func(t *testing.T, p *preparing, account *memory.Account) {
			call := account.Open()
			p.keep(call, p.size+100)
			if used := account.Stats().Used; used != p.size+100 {
				t.Errorf("%d bytes are kept", used)
			}
			call.Release()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			account := memory.New(1<<30, 0)
			p := newPreparing(account, "", body, 0, func(error) {})
			if err := p.reserve(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.steps(t, p, account)
			if used := account.Stats().Used; used != 0 {
				t.Errorf("%d bytes are left", used)
			}
		})
	}
}

// What a preparation needs more, and could never have beside the body of its own call, is refused
// as such.
func TestPreparingBesideItsBody(t *testing.T) {
	body := []byte(`{"prompt":"a"}`)
	size := preparingSize(body)
	for beside, want := range map[int64]error{40: memory.ErrFull, 60: memory.ErrNever} {
		account := memory.New(size+100, 0)
		if !account.Open().TryGrow(60) { // the body, and more of somebody else
			t.Fatal("there is no memory")
		}
		var cause error
		p := newPreparing(account, "", body, beside, func(err error) { cause = err })
		if err := p.reserve(t.Context()); beside == 60 && err != nil {
			t.Fatal(err)
		}
		p.memory.Force(size - p.memory.Held())
		if p.more(50) || !errors.Is(cause, want) {
			t.Errorf("beside %d bytes of its own: %v, want %v", beside, cause, want)
		}
	}
}
