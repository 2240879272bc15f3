package openai_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/server/servertest"
)

// player is a backend that draws what it is told to: output token i of every
// sequence is script[i], and beyond it the last one again. Behind it the oracle
// checks what the engine asks for, and scores the tokens.
type player struct {
	backend.Backend
	script *atomic.Pointer[[]int32]
	draws  backend.Draws
}

func (p *player) Draw(d *backend.Draws) error {
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

// stage is a server whose model says what play tells it to.
type stage struct {
	*testServer
	script atomic.Pointer[[]int32]
}

func newStage(t *testing.T, change func(*servertest.Setup)) *stage {
	st := new(stage)
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
			return &player{Backend: o, script: &st.script}, nil
		}
	})
	return st
}

// play sets the output: texts as they are tokenized, token ids as they are.
func (st *stage) play(parts ...any) (ids []int32) {
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

// singles are the tokens of the single bytes of s.
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
