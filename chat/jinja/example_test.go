package jinja_test

import (
	"fmt"

	"weir/chat/jinja"
)

// A template is compiled once and rendered with the variables of each request.
func Example() {
	t, err := jinja.Compile(`{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := jinja.FromJSON([]byte(`[{"role": "user", "content": " Hi "}, {"role": "assistant", "content": "Hello"}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	vars := jinja.NewDict(1)
	vars.Set("messages", messages)
	text, err := t.Render(vars, jinja.Options{})
	fmt.Println(text, err)
	// Output: <user>Hi<assistant>Hello <nil>
}
