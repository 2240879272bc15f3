package openai

import (
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/server/transport"
)

// ModelPath is the path of OneModel without the id of the model, which follows it.
const ModelPath = "/v1/models/"

// entry returns the entry of m in the list of models under one of its names.
func (m *Model) entry(name string) api.Model {
	return api.Model{ID: name, Root: m.Root, MaxModelLen: m.MaxLen}
}

// Models answers GET /v1/models.
func (s *Service) Models(c *transport.Call) {
	m, err := s.Serving()
	if err != nil {
		c.Fail(err)
		return
	}
	list := make([]api.Model, len(m.Names))
	for i, name := range m.Names {
		list[i] = m.entry(name)
	}
	c.Answer(fasthttp.StatusOK, string(api.AppendModels(nil, list, m.Created.Unix())))
}

// OneModel answers GET /v1/models/{id}. The id is the whole rest of the path, because
// names of models contain slashes, which some clients escape and others do not.
func (s *Service) OneModel(c *transport.Call) {
	m, err := s.Serving()
	if err != nil {
		c.Fail(err)
		return
	}
	id := strings.TrimPrefix(c.Target, ModelPath)
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	if !m.serves(id) {
		c.Fail(api.ErrModelNotFound(id))
		return
	}
	e := m.entry(id)
	c.Answer(fasthttp.StatusOK, string(api.AppendModel(nil, &e, m.Created.Unix())))
}
