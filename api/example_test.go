package api_test

import (
	"fmt"

	"weir/api"
)

func ExampleDecodeChat() {
	body := []byte(`{"messages":[{"role":"user","content":"Hi"}],"temperature":2.5,"seed":9223372036854776000}`)
	r, err := api.DecodeChat(body, api.DefaultLimits())
	if err != nil {
		fmt.Println(err.Status, string(err.AppendJSON(nil)))
		return
	}
	fmt.Println(r.Messages[0].Role, r.Messages[0].Content.Text, *r.Seed)
	if err := r.CheckSampling(); err != nil {
		fmt.Println(string(err.AppendJSON(nil)))
	}
	// Output:
	// user Hi 9223372036854775807
	// {"error":{"message":"temperature must be in [0, 2], got 2.5. (parameter=temperature, value=2.5)","type":"BadRequestError","param":"temperature","code":400}}
}

func ExampleStream() {
	s := api.NewStream(api.Meta{ID: api.ChatID("1"), Created: 1772900000, Model: "m"}, api.Form{})
	var b []byte
	b = s.AppendRole(b, 0, "assistant", nil, api.Usage{})
	b = s.AppendChunk(b, &api.Chunk{Content: "Hi", Finish: api.FinishStop})
	b = append(b, api.Done...)
	fmt.Print(string(b))
	// Output:
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772900000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}
	//
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772900000,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]}
	//
	// data: [DONE]
}
