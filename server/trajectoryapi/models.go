package trajectoryapi

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"weir/api"
	"weir/auth"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// models answers what is asked of the list of models.
func (h *Handlers) models(c *transport.Call) {
	if c.Verb() == "POST" {
		h.createModel(c)
		return
	}
	h.listModels(c)
}

// listModels answers GET /v1/preview/models.
func (h *Handlers) listModels(c *transport.Call) {
	h.read(c, "", false, func(q *selection, v *archive.View) error {
		var all []*archive.Model
		if err := v.Models(func(m *archive.Model) bool {
			if mayUse(c.Who, m.Name, m.Created) && q.wants(m) {
				all = append(all, m)
			}
			return true
		}); err != nil {
			return err
		}
		// The newest are the last by name: models have no order of their own.
		if q.backwards {
			slices.Reverse(all)
		}
		if q.after != "" {
			i := slices.IndexFunc(all, func(m *archive.Model) bool { return m.Name == q.after })
			if i < 0 {
				return wrong("after", "value_error")
			}
			all = all[i+1:]
		}
		p := page{more: len(all) > q.limit}
		for _, m := range all[:min(len(all), q.limit)] {
			p.entry(m.Name)
			p.d = appendModel(p.d, m)
		}
		c.Reply(p.end())
		return nil
	}, pages, creations)
}

// wants reports whether a model has the names that a query asks for. A model that was not
// created has its id as its name, and no entity and project.
func (q *selection) wants(m *archive.Model) bool {
	entity, project, name := "", "", m.Name
	if m.Created != nil {
		entity, project, name = m.Created.Entity, m.Created.Project, m.Created.Name
	}
	return (q.entity == "" || q.entity == entity) && (q.project == "" || q.project == project) && (q.name == "" || q.name == name)
}

// oneModel answers GET /v1/preview/models/{model_id}.
func (h *Handlers) oneModel(c *transport.Call, model string) {
	h.read(c, "", false, func(_ *selection, v *archive.View) error {
		m, err := v.Model(model)
		if err == nil {
			c.Reply(appendModel(nil, m))
		}
		return err
	})
}

func appendModel(d []byte, m *archive.Model) []byte {
	d = api.AppendString(append(d, `{"id":`...), m.Name)
	d = appendNames(append(d, `,"object":"model"`...), m.Created)
	d = append(d, `,"splits":[`...)
	for i, name := range m.Splits {
		if i > 0 {
			d = append(d, ',')
		}
		d = api.AppendString(d, name)
	}
	d = strconv.AppendInt(append(d, `],"logs":`...), int64(m.Batches), 10)
	d = appendCounts(d, m.Counts)
	d = strconv.AppendInt(append(d, `,"bytes":`...), m.Bytes, 10)
	if m.Batches == 0 {
		d = append(d, `,"first_received_at":null,"last_received_at":null`...)
	} else {
		d = append(m.First.AppendFormat(append(d, `,"first_received_at":"`...), export.TimeFormat), '"')
		d = append(m.Last.AppendFormat(append(d, `,"last_received_at":"`...), export.TimeFormat), '"')
	}
	d = export.AppendInt(append(d, `,"min_policy_version":`...), trajectory.Int{N: m.Versions.Min, Given: m.Versions.Given})
	d = export.AppendInt(append(d, `,"max_policy_version":`...), trajectory.Int{N: m.Versions.Max, Given: m.Versions.Given})
	return append(d, '}')
}

// appendNames appends the members that ART's client reads of a model. weir runs no training,
// so there is no run.
func appendNames(d []byte, m *archive.Created) []byte {
	if m == nil {
		return append(d, `,"entity":null,"project":null,"name":null,"base_model":null,"run_id":null,"created_at":null`...)
	}
	d = api.AppendString(append(d, `,"entity":`...), m.Entity)
	d = api.AppendString(append(d, `,"project":`...), m.Project)
	d = api.AppendString(append(d, `,"name":`...), m.Name)
	d = api.AppendString(append(d, `,"base_model":`...), m.BaseModel)
	return append(m.At.UTC().AppendFormat(append(d, `,"run_id":null,"created_at":"`...), export.TimeFormat), '"')
}

// mayUse reports whether somebody may use a model by its id or, of one that was created, by
// its name.
func mayUse(who *auth.Identity, id string, m *archive.Created) bool {
	return who.MayUse(id) || m != nil && who.MayUse(m.Name)
}

// mayUse is mayUse for a model of which only the id is known.
func (h *Handlers) mayUse(c *transport.Call, id string) (may bool, err error) {
	if c.Who.MayUse(id) {
		return true, nil
	}
	err = h.cfg.Archive.View(c.Who.Tenant, func(v *archive.View) error {
		m, err := v.Created(id)
		may = mayUse(c.Who, id, m)
		return err
	})
	return may, err
}

// createModel answers POST /v1/preview/models.
func (h *Handlers) createModel(c *transport.Call) {
	body, ok := h.body(c)
	if !ok {
		return
	}
	m, existing, err := parseModel(c.Who, body)
	if err == nil && !(c.Who.May(auth.Write, m.Entity+"/"+m.Project) && c.Who.MayUse(m.Name)) {
		err = failure.ErrForbidden
	}
	if err == nil {
		m, err = h.cfg.Archive.CreateModel(c.Context(), c.Who.Tenant, m)
	}
	if err != nil && !(existing && errors.Is(err, archive.ErrExists)) {
		c.Fail(err)
		return
	}
	c.Reply(appendModel(nil, &archive.Model{Name: m.ID, Created: &m}))
}

// body reads the body of a request and returns it without white space, with the memory for
// it. Otherwise it answers the request.
func (h *Handlers) body(c *transport.Call) (body jsontext.Value, ok bool) {
	err := error(failure.ErrMedia)
	if transport.JSONType(string(c.Request.Header.ContentType())) {
		err = c.ReadBody()
	}
	if err == nil {
		err = c.Memory().Grow(c.Context(), int64(len(c.Body())))
	}
	if err == nil {
		if body, err = jsontext.Compact(c.Body(), trajectory.DefaultLimits().Depth); err != nil {
			err = invalid([]string{"body"}, "json_invalid", "JSON decode error")
		} else if body.Kind() != jsontext.Object {
			err = invalid([]string{"body"}, "model_attributes_type", "Input should be a valid dictionary or object to extract fields from")
		}
	}
	if err != nil {
		c.Fail(err)
	}
	return body, err == nil
}

// maxName bounds the entity, the project, the name and the base model of a model, in bytes.
const maxName = 256

// parseModel reads what is to be created by somebody, and whether a model that exists is
// meant as well.
func parseModel(who *auth.Identity, body jsontext.Value) (m archive.Created, existing bool, err error) {
	var bad []trajectory.Detail
	wrong := func(name, code, msg string) {
		bad = append(bad, trajectory.Detail{Loc: []string{"body", name}, Type: code, Msg: msg})
	}
	text := func(name, otherwise, none string) string {
		v := body.Member(name)
		if v == nil || v.Kind() == jsontext.Null {
			if otherwise == "" {
				wrong(name, "missing", "Field required")
			}
			return otherwise
		}
		if v.Kind() != jsontext.String {
			wrong(name, "string_type", "Input should be a valid string")
			return ""
		}
		s := v.Text()
		switch {
		case s == "":
			wrong(name, "string_too_short", "String should have at least 1 character")
		case len(s) > maxName:
			wrong(name, "string_too_long", "String should have at most 256 bytes")
		case strings.ContainsAny(s, none) || strings.ContainsFunc(s, unicode.IsControl):
			wrong(name, "value_error", "Value error, not such a name")
		}
		return s
	}
	m.Entity = text("entity", defaultEntity(who), "/ ")
	m.Project = text("project", "uncategorized", "/ ")
	m.Name = text("name", "model", "")
	m.BaseModel = text("base_model", "", "")
	if v := body.Member("return_existing"); v != nil && v.Kind() != jsontext.Null {
		if v.Kind() != jsontext.Bool {
			wrong("return_existing", "bool_type", "Input should be a valid boolean")
		}
		existing = string(v) == "true"
	}
	if bad != nil {
		return m, false, &trajectory.Invalid{Details: bad}
	}
	return m, existing, nil
}

// defaultEntity is the entity of a model whose request names none: the first team that the
// key is for, or the name of its user.
func defaultEntity(who *auth.Identity) string {
	for _, p := range who.Projects {
		if team, _, ok := strings.Cut(p, "/"); ok {
			return team
		}
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || r == ' ' || unicode.IsControl(r) {
			return '-'
		}
		return r
	}, who.User)
}
