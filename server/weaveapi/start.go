package weaveapi

import (
	"strings"

	"weir/auth"
	"weir/feedback"
	"weir/internal/jsontext"
	"weir/server/transport"
)

// What GET /server_info says to Weave's clients. A client that is older than the first, or
// that needs a newer server than the second, traces nothing, and tells nobody but the log.
const (
	minClient     = "0.52.0"
	serverVersion = "1.0.0"
)

// Info returns the members of GET /server_info that Weave's clients ask for when they start.
func Info() map[string]any {
	return map[string]any{"min_required_weave_python_version": minClient, "trace_server_version": serverVersion}
}

var startRoutes = []route{
	{"POST", "/graphql", (*Handlers).graphQL},
}

// graphQL answers POST /graphql: the questions that Weave's clients ask W&B's main server
// when they start, which are who the caller is, and whether a project is there. This is no
// implementation of GraphQL. The first field of the query says what is asked, and the
// answer has all that clients read of it. Every project that the caller has a right in is
// there, because projects are not created.
func (h *Handlers) graphQL(c *transport.Call) {
	if !h.readBody(c) {
		return
	}
	body := jsontext.Trim(c.Body())
	if err := jsontext.Scan(body, maxQueryDepth); err != nil || body.Kind() != jsontext.Object {
		c.Fail(feedback.Invalid{{Loc: []string{"body"}, Type: "json_invalid", Msg: "JSON decode error"}})
		return
	}
	query := body.Member("query")
	if !query.Given() || query.Kind() != jsontext.String {
		c.Fail(feedback.Invalid{{Loc: []string{"body", "query"}, Type: "missing", Msg: "Field required"}})
		return
	}
	given := body.Member("variables")
	variable := func(name string) string {
		if given.Given() && given.Kind() == jsontext.Object {
			if v := given.Member(name); v.Given() && v.Kind() == jsontext.String {
				return v.Text()
			}
		}
		return ""
	}
	switch field := firstField(query.Text()); field {
	case "viewer":
		c.Reply(viewer(c.Who))
	case "serverInfo":
		c.Reply([]byte(`{"data":{"serverInfo":{"frontendHost":null}}}`))
	case "project":
		name, project := variable("name"), variable("entityName")+"/"+variable("name")
		if !c.Who.May(auth.Read, project) && !c.Who.May(auth.Write, project) {
			c.Reply([]byte(`{"data":{"project":null}}`))
			return
		}
		c.Reply(append(jsontext.AppendString([]byte(`{"data":{"project":{"name":`), name), `}}}`...))
	case "upsertModel":
		name, project := variable("name"), variable("entity")+"/"+variable("name")
		if !c.Who.May(auth.Write, project) {
			c.Reply(refusal("The key has no right to write in the project "+project+".", "PERMISSION_ERROR"))
			return
		}
		c.Reply(append(jsontext.AppendString([]byte(`{"data":{"upsertModel":{"model":{"name":`), name), `,"description":null}}}}`...))
	default:
		c.Reply(refusal("weir answers the fields viewer, serverInfo, project and upsertModel of GraphQL alone, which Weave's clients ask for; this query begins with "+field+".", "NOT_IMPLEMENTED"))
	}
}

// viewer says who the caller is. The entity of a project that is named without one is the
// team of the first project of the caller's key, or the caller's own name.
func viewer(who *auth.Identity) []byte {
	entity := who.User
	for _, p := range who.Projects {
		if team, _, ok := strings.Cut(p, "/"); ok {
			entity = team
			break
		}
	}
	out := jsontext.AppendString([]byte(`{"data":{"viewer":{"username":`), who.User)
	out = jsontext.AppendString(append(out, `,"entity":`...), entity)
	out = jsontext.AppendString(append(out, `,"defaultEntity":{"name":`...), entity)
	return append(out, `}}}}`...)
}

// refusal is an answer of GraphQL that has an error and no data. Its status is 200.
func refusal(message, code string) []byte {
	out := jsontext.AppendString([]byte(`{"data":null,"errors":[{"message":`), message)
	out = jsontext.AppendString(append(out, `,"extensions":{"code":`...), code)
	return append(out, `}}]}`...)
}

// firstField is the name of the first field that an operation of GraphQL selects, or "nothing".
// Names of operations and their variables, which stand in parentheses, come before it.
func firstField(query string) string {
	depth := 0
	for i := 0; i < len(query); i++ {
		switch query[i] {
		case '#': // a comment, to the end of its line
			for i < len(query) && query[i] != '\n' {
				i++
			}
		case '(':
			depth++
		case ')':
			depth--
		case '{':
			if depth > 0 {
				continue // a default value
			}
			rest := strings.TrimLeft(query[i+1:], " \t\r\n,")
			end := strings.IndexFunc(rest, func(r rune) bool {
				return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			})
			if end < 0 {
				end = len(rest)
			}
			if end > maxFieldName {
				end = maxFieldName
			}
			if end > 0 {
				return rest[:end]
			}
			return "nothing"
		}
	}
	return "nothing"
}

const (
	maxFieldName  = 64 // how much of a field's name an error repeats
	maxQueryDepth = 64 // of the JSON around a query and its variables
)
