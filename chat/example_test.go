package chat_test

import (
	"fmt"

	"weir/api"
	"weir/chat"
)

// The messages of a request and a template become the prompt.
func Example() {
	const template = `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}` +
		`{% if add_generation_prompt %}<|assistant|>{% endif %}`
	r, err := chat.New(chat.Config{Templates: []chat.Template{{Source: template}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	message := func(role, text string) api.Message {
		return api.Message{Role: role, Content: api.Content{Kind: api.ContentText, Text: text}}
	}
	p, err := r.Render(chat.Input{Messages: []api.Message{message("user", "Hi")}})
	fmt.Println(p.Text, err)

	p, err = r.Render(chat.Input{
		Messages:             []api.Message{message("user", "Hi"), message("assistant", "It is a")},
		ContinueFinalMessage: true,
	})
	fmt.Println(p.Text, err)
	// Output:
	// <|user|>Hi<|end|><|assistant|> <nil>
	// <|user|>Hi<|end|><|assistant|>It is a <nil>
}
