package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/api"
	"weir/engine"
	"weir/feedback"
	"weir/internal/retry"
	"weir/internal/testkit"
	"weir/store"
	"weir/trajectory"
)

var settings = Settings{
	Body: 33554432, Header: 16384, Upload: 8589934592, Trajectory: 268435456, Trajectories: 1000000, Quota: 1000, Ratio: 200,
	Progress: func() (string, time.Duration) { return "the model is loading", 3 * time.Second },
}

var interfaceNames = [interfaces]string{OpenAI: "openai", Feedback: "feedback", Trajectories: "trajectories", Messages: "messages", Ollama: "ollama"}

// TestBodies keeps the bodies of all rows in all interfaces, byte for byte, and what the
// log and the metrics have of them.
func TestBodies(t *testing.T) {
	var b strings.Builder
	for _, r := range append(table, fault) {
		err := errors.Join(errors.New("wrapped"), r.err)
		for i := range interfaces {
			f := settings.Of(i, err)
			if i == 0 {
				fmt.Fprintf(&b, "# %v\nstatus %d, kind %s, reason %q, retry %v, log %v\n", r.err, f.Status, f.Kind, f.Reason, f.Retry(), f.Level())
			}
			if f.Status != r.status || f.Kind != r.kind || f.Reason != r.reason {
				t.Errorf("%v: %+v", r.err, f)
			}
			fmt.Fprintf(&b, "%-13s%s\n", interfaceNames[i], f.AppendBody(nil))
		}
		b.WriteByte('\n')
	}
	testkit.Golden(t, "testdata/bodies.txt", []byte(b.String()))
}

// Errors that know their answer pass through, whatever they are wrapped in.
func TestErrorsWithAnAnswer(t *testing.T) {
	param := "model"
	for _, c := range []struct {
		i    Interface
		err  error
		kind string
		body string
	}{
		{OpenAI, api.ErrModelNotFound("x"), "model-not-found", string(api.ErrModelNotFound("x").AppendJSON(nil))},
		{OpenAI, BadRequest(param, "too %s", "long"), "request", `{"error":{"message":"too long","type":"BadRequestError","param":"model","code":400}}`},
		{Feedback, feedback.Invalid{{Loc: []string{"body"}, Type: "missing", Msg: "Field required"}}, "invalid", `{"detail":[{"loc":["body"],"msg":"Field required","type":"missing"}]}`},
		{Feedback, &feedback.Refusal{Status: 409, Reason: "no"}, "refused", `{"reason":"no"}`},
		{Trajectories, &trajectory.Invalid{Details: []trajectory.Detail{{Loc: []string{"path", "id"}, Type: "t", Msg: "m"}}}, "invalid", `{"detail":[{"loc":["path","id"],"msg":"m","type":"t"}]}`},
		{OpenAI, errors.Join(ErrMemory, api.ErrInternal()), "internal", string(api.ErrInternal().AppendJSON(nil))},
	} {
		f := settings.Of(c.i, fmt.Errorf("wrapped: %w", c.err))
		if body := string(f.AppendBody(nil)); body != c.body || f.Kind != c.kind {
			t.Errorf("%v: %s %s, want %s %s", c.err, f.Kind, body, c.kind, c.body)
		}
	}
}

func TestEvent(t *testing.T) {
	f := settings.Of(OpenAI, ErrDraining)
	if got, want := string(f.AppendEvent(nil)), string(api.ErrUnavailable("The server is stopping.").AppendEvent(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// An error that nobody has classified is the server's fault, and none of the client's
// business.
func TestUnknownErrors(t *testing.T) {
	for i := range interfaces {
		f := settings.Of(i, io.ErrUnexpectedEOF)
		if body := string(f.AppendBody(nil)); f.Status != 500 || f.Level() != slog.LevelError || strings.Contains(body, "EOF") {
			t.Errorf("%d %v %s", f.Status, f.Level(), body)
		}
	}
}

// What somebody has to mend is not tried again soon; else an error may say when.
func TestWhenToRetry(t *testing.T) {
	for _, c := range []struct {
		err  error
		want time.Duration
	}{
		{store.ErrFull, time.Minute}, {store.ErrDamaged, time.Minute}, {ErrEngineFailed, time.Minute}, {engine.ErrFull, 0},
		{ErrLoading, 3 * time.Second}, {engine.ErrLoading, 3 * time.Second},
		{retry.After(engine.ErrFull, 7*time.Second), 7 * time.Second},
		{fmt.Errorf("wrapped: %w", retry.After(ErrQueueFull, time.Second)), time.Second},
	} {
		if f := settings.Of(OpenAI, c.err); !f.Retry() || f.After != c.want {
			t.Errorf("%v: %d after %v, want %v", c.err, f.Status, f.After, c.want)
		}
	}
}

// A cause that knows better comes before the cancelled context that it ended.
func TestCancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrDraining)
	if f := settings.Of(OpenAI, context.Cause(ctx)); f.Status != 503 {
		t.Error(f.Status)
	}
	if f := settings.Of(Trajectories, fmt.Errorf("%w: %w", context.Canceled, store.ErrClosed)); f.Status != 503 {
		t.Error(f.Status)
	}
	if f := settings.Of(Feedback, context.Canceled); !f.Gone() {
		t.Error(f.Status)
	}
}

// TestErrorsDocument writes docs/interface/errors.md from the table of package api, which
// decodes requests, and the table of this package.
func TestErrorsDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Errors\n\n" +
		"`go test ./server/failure -rewrite` writes this file from the program's own tables.\n\n" +
		"## The OpenAI interface\n\n" +
		"The body of these errors is `{\"error\":{\"message\",\"type\",\"param\",\"code\"}}`; `code` is the status ([chat-completions.md, section 1.6](chat-completions.md#section-1-6)).\n" +
		"The stages are those of [section 1.2](chat-completions.md#section-1-2). Three bodies have another form: 401 is `" + api.UnauthorizedBody + "`, an unknown path\n" +
		"`" + api.NotFoundBody + "`, a wrong method `" + api.MethodNotAllowedBody + "`.\n\n" +
		"| Name | Stage | Status | type | param | When |\n|---|---|---|---|---|---|\n")
	for _, r := range api.ErrorTable() {
		stage, param := "any", "null"
		if r.Stage > 0 {
			stage = fmt.Sprint(r.Stage)
		}
		if r.Param != "" {
			param = "`" + r.Param + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s |\n", r.Name, stage, r.Status, r.Type, param, r.When)
	}
	fmt.Fprintf(&b, "| %s | any | 400 | %s | null, or the field | a bound or a setting of this server refuses what the rules of the interface allow |\n", badRequest, api.TypeBadRequest)
	b.WriteString("\n## Errors of the server\n\n" +
		"These are the errors that do not come from the fields of a body, in all interfaces. Feedback has the body `{\"reason\":\"…\"}` ([feedback.md,\n" +
		"section 7](feedback.md#section-7)), trajectories have `{\"detail\":\"…\"}` ([trajectories.md, section 5](trajectories.md#section-5)); 404 for a path, 405 and 415 are\n" +
		"`{\"detail\":\"…\"}` in all of these. Messages have `{\"type\":\"error\",\"error\":{…}}` ([messages.md, section 6](messages.md#section-6)) and\n" +
		"Ollama's interface `{\"error\":\"…\"}` ([ollama.md, section 4](ollama.md#section-4)) for all errors. Kind is what the log says as `kind`, and as `error` in the line of a finished request. Counted is the label `reason` of\n" +
		"`weir:rejected_requests_total`. 429 and 503 come with `Retry-After` and `x-should-retry` ([admission.md, section 3](admission.md#section-3)). Nobody receives 499, which is in the log alone.\n\n" +
		"| Kind | Status | type | Counted | Message |\n|---|---|---|---|---|\n")
	for _, r := range append(table, fault) {
		counted := "–"
		if r.reason != "" {
			counted = "`" + string(r.reason) + "`"
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", r.kind, r.status, r.typ, counted, messages(&r))
	}
	testkit.Golden(t, "../../docs/interface/errors.md", []byte(b.String()))
}

// messages are the words of a row, with those of interfaces that have their own.
func messages(r *row) string {
	err := r.err
	text := r.text(&settings, err)
	for i, own := range [interfaces]message{Feedback: r.feedback, Trajectories: r.trajectories} {
		if own != nil {
			text += "; " + interfaceNames[i] + ": " + own(&settings, err)
		}
	}
	return text
}
