package batchesapi

import "testing"

// TestUsage: the answers of all endpoints have their tokens under one of a few names.
func TestUsage(t *testing.T) {
	for body, want := range map[string]usage{
		`{"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`: {7, 4, 3, 2},
		`{"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":10}}`:           {7, 4, 3, 2},
		`{"object":"list","usage":{"prompt_tokens":5,"total_tokens":5,"completion_tokens":0,"prompt_tokens_details":null}}`:                                                    {5, 0, 0, 0},
		`{"id":"rerank-1","usage":{"total_tokens":9}}`: {9, 0, 0, 0},
		`{"usage":null}`: {},
		`{"usage":{"prompt_tokens":"7","completion_tokens":-1,"prompt_tokens_details":[]}}`: {},
		`{"error":{"message":"x"}}`: {},
		`[1]`:                       {},
	} {
		if got := usageOf([]byte(body)); got != want {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
		line := `{"id":"a","custom_id":"b","response":{"status_code":200,"request_id":"c","body":` + body + `},"error":null}` + "\n"
		if got := usageIn([]byte(line)); got != want {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	if got := usageIn([]byte(`{"id":"a","custom_id":"b","response":null,"error":{"code":"x"}}` + "\n")); got != (usage{}) {
		t.Errorf("%+v", got)
	}
}
