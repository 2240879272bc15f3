package server

import (
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
)

// entry is what the list of models says under one of m's names.
func (m *Model) entry(name string) api.Model {
	return api.Model{ID: name, Root: m.Root, MaxModelLen: m.MaxLen}
}

// models answers GET /v1/models.
func (s *Server) models(c *call) {
	m, err := s.serving()
	if err != nil {
		s.fail(c, err)
		return
	}
	list := make([]api.Model, len(m.Names))
	for i, name := range m.Names {
		list[i] = m.entry(name)
	}
	c.answer(fasthttp.StatusOK, string(api.AppendModels(nil, list, m.Created.Unix())))
}

// oneModel answers GET /v1/models/{id}. The id is all that follows in the path:
// names have slashes in them, which some clients escape and some do not.
func (s *Server) oneModel(c *call) {
	m, err := s.serving()
	if err != nil {
		s.fail(c, err)
		return
	}
	id := strings.TrimPrefix(c.path, modelPath)
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	if !m.serves(id) {
		s.fail(c, api.ErrModelNotFound(id))
		return
	}
	e := m.entry(id)
	c.answer(fasthttp.StatusOK, string(api.AppendModel(nil, &e, m.Created.Unix())))
}
