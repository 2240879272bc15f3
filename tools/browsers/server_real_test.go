package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowEnd is a body whose end comes after everything else of it has arrived at weir, if that
// ever happens before the end.
type slowEnd struct {
	io.Reader
	arrived <-chan struct{}
	early   bool
}

func (b *slowEnd) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		select {
		case <-b.arrived:
			b.early = true
		case <-time.After(200 * time.Millisecond):
		}
	}
	return n, err
}

func (b *slowEnd) Close() error { return nil }

// TestRelay: the relay has read the end of a request before it passes any of it on, so that it
// does not matter how soon the answer comes.
func TestRelay(t *testing.T) {
	const question, answer = `{"stream":true}`, "data: [DONE]\n\n"
	arrived, once := make(chan struct{}), sync.Once{}
	weir := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := make([]byte, len(question))
		if _, err := io.ReadFull(r.Body, text); err != nil || string(text) != question {
			t.Errorf("%q, %v", text, err)
		}
		once.Do(func() { close(arrived) })
		_, _ = io.WriteString(w, answer)
	}))
	defer weir.Close()
	s := &server{direct: weir.URL}
	if err := s.relay(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.http.Close() }()
	body := &slowEnd{Reader: strings.NewReader(question), arrived: arrived}
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", body)
	r.ContentLength = int64(len(question))
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Body.String() != answer || body.early {
		t.Errorf("%d %q; weir had the request before its end was read: %v", w.Code, w.Body, body.early)
	}
}
