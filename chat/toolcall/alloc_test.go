package toolcall

import "testing"

// TestAllocations: a token within text, or within a string of the arguments of a call, allocates
// nothing, however the family writes its arguments.
func TestAllocations(t *testing.T) {
	begins := map[string]string{
		"hermes":       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"",
		"qwen3_coder":  "<tool_call>\n<function=weather>\n<parameter=city>\n",
		"glm45":        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>",
		"deepseek_v32": "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">",
		"mistral":      "[TOOL_CALLS]weather[ARGS]{\"city\": \"",
		"llama3_json":  "{\"name\": \"weather\", \"parameters\": {\"city\": \"",
		"pythonic":     "[weather(city=\"",
		"gemma4":       "<|tool_call>call:weather{city:<|\"|>",
	}
	for name, begin := range begins {
		for _, text := range []string{"Well,", begin} {
			p := format(t, name).NewParser(weather)
			p.Next([]byte(text), false)
			some := 0
			piece := []byte(" token")
			n := testing.AllocsPerRun(200, func() {
				for _, d := range p.Next(piece, false) {
					some += len(d.Text) + len(d.Arguments)
				}
			})
			if n != 0 || some < 200*len(piece) || p.calls > 0 != (text == begin) {
				t.Errorf("%s after %q: %v allocations, %d bytes, %d calls", name, text, n, some, p.calls)
			}
		}
	}
}
