package openai_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/server/servertest"
)

// scriptedBackend is a backend whose draws are given: output token i of every sequence is
// script[i], and after the end of the script its last token. It passes everything else to
// the oracle, which checks the calls of the engine and scores the tokens.
type scriptedBackend struct {
	backend.Backend
	script *atomic.Pointer[[]int32]
	draws  backend.Draws
}

func (p *scriptedBackend) Draw(d *backend.Draws) error {
	p.draws = *d
	p.draws.Rows = append([]backend.Draw(nil), d.Rows...)
	script := *p.script.Load()
	for i := range p.draws.Rows {
		if r := &p.draws.Rows[i]; !r.Dead && r.Target < 0 {
			r.Target = script[min(int(r.Index), len(script)-1)]
		}
	}
	return p.Backend.Draw(&p.draws)
}

// scriptedServer is a server whose model generates what setOutput was called with.
type scriptedServer struct {
	*testServer
	script atomic.Pointer[[]int32]
}

func newScripted(t *testing.T, change func(*servertest.Setup)) *scriptedServer {
	st := new(scriptedServer)
	st.script.Store(&[]int32{servertest.EndOfTurn})
	st.testServer = newServer(t, func(s *servertest.Setup) {
		if change != nil {
			change(s)
		}
		s.Open = func() (backend.Backend, error) {
			o, err := sim.NewOracle(s.Spec, s.Oracle)
			if err != nil {
				return nil, err
			}
			return &scriptedBackend{Backend: o, script: &st.script}, nil
		}
	})
	return st
}

// setOutput sets the output of the model: the tokens of texts, and token ids.
func (st *scriptedServer) setOutput(parts ...any) (ids []int32) {
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			ids = append(ids, servertest.Encode(p, false)...)
		case int:
			ids = append(ids, int32(p))
		case []int32:
			ids = append(ids, p...)
		}
	}
	st.script.Store(&ids)
	return ids
}

// singles returns the tokens of the single bytes of s.
func singles(t *testing.T, s string) (ids []int32) {
	t.Helper()
	tok := servertest.Tokenizer()
	for i := range len(s) {
		for id := range int32(tok.VocabSize()) {
			if bytes.Equal(tok.Bytes(id), []byte{s[i]}) {
				ids = append(ids, id)
				break
			}
		}
	}
	if len(ids) != len(s) {
		t.Fatalf("no tokens for the bytes of %q", s)
	}
	return ids
}
