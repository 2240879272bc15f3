package chat

import (
	"regexp"
	"sync"

	"weir/chat/jinja"
)

// Phi-4-mini's own template knows no tools of a request. It prints what the system message has under
// the name tools, which is to be a text: a list in JSON of functions with name, description and
// parameters (its model card). So that its tools can be given as those of any other model, they are
// written there.

// messageTools finds templates that read the tools of a message.
var messageTools = regexp.MustCompile(`\[['"]tools['"]\]|\.tools\b`)

// functionList writes the functions of tools as a list in JSON, as json.dumps does.
var functionList = sync.OnceValues(func() (*jinja.Template, error) {
	return jinja.Compile(`[{% for tool in tools %}{{ (tool.function if tool.function is defined else tool) | tojson }}{{ ", " if not loop.last }}{% endfor %}]`)
})

// giveTools gives the tools of the request to the system message where only that is read. There is an
// empty one if the conversation begins without. What a message has already is left as it is.
func (r *Renderer) giveTools(t *compiled, conv *conversation, a *jinja.Dict, in *Input) error {
	tools, _ := a.Get("tools")
	list, ok := tools.(*jinja.List)
	if !t.ownTools || !ok || list.Len() == 0 {
		return nil
	}
	writer, err := functionList()
	if err != nil {
		return err
	}
	vars := jinja.NewDict(1)
	vars.Set("tools", list)
	text, err := writer.Render(vars, jinja.Options{Limits: r.cfg.Limits, Now: r.cfg.Now, Done: in.Done, Reserve: in.Reserve})
	if err != nil {
		return err
	}
	conv.system().Set("tools", text)
	return nil
}

// system is the system message at the beginning, which is made if there is none.
func (c *conversation) system() *jinja.Dict {
	if len(c.dicts) > 0 {
		first := c.dicts[0].(*jinja.Dict)
		if role, _ := first.Get("role"); role == "system" {
			return first
		}
	}
	d := jinja.NewDict(3)
	d.Set("role", "system")
	d.Set("content", "")
	c.dicts = append([]jinja.Value{d}, c.dicts...)
	return d
}
