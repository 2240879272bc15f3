package jsontext_test

import (
	"fmt"

	"weir/internal/jsontext"
)

func Example() {
	text := []byte(`{"model": "weir-tiny", "temperature": 1.0, "stop": ["\u0041", "B"]}`)
	if err := jsontext.Scan(text, 100); err != nil {
		fmt.Println(err)
		return
	}
	for name, value := range jsontext.Trim(text).Members() {
		fmt.Println(string(name), value.Kind(), string(value))
	}
	for i, e := range jsontext.Trim(text).Member("stop").Elements() {
		fmt.Println(i, e.Text())
	}
	// Output:
	// model a string "weir-tiny"
	// temperature a number 1.0
	// stop an array ["\u0041", "B"]
	// 0 A
	// 1 B
}

func ExampleScan() {
	fmt.Println(jsontext.Scan([]byte(`{"a": NaN}`), 100))
	// Output: NaN and Infinity are not JSON at byte 6
}
