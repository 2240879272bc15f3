package model

import "testing"

func TestFinite(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": 1}`: `{"a": 1}`,
		`{"time_step_limit": [0.0, Infinity], "b": -Infinity, "c": NaN}`: `{"time_step_limit": [0.0, 1e300], "b": -1e300, "c": null}`,
		`{"Infinity": "Infinity \"NaN\" \\", "x": NaN}`:                  `{"Infinity": "Infinity \"NaN\" \\", "x": null}`,
		`"\`: `"\`, `"Infinity`: `"Infinity`, `Infinity\`: `1e300\`,
	} {
		if got := string(finite([]byte(in))); got != want {
			t.Errorf("%s becomes %s instead of %s", in, got, want)
		}
	}
}
