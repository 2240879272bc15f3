package reasoning_test

import (
	"fmt"

	"weir/chat/reasoning"
)

// A Splitter gets the output in the pieces in which it is generated.
func Example() {
	start := reasoning.Auto.Start(reasoning.AtEnd("<|assistant|>\n"), false)
	s := reasoning.New(start)
	for _, piece := range []string{"<thi", "nk>\nHm", ", is it</", "think>Yes"} {
		thought, content := s.Next([]byte(piece), false)
		fmt.Printf("%-12q %-12q %q\n", piece, thought, content)
	}
	// Output:
	// "<thi"       ""           ""
	// "nk>\nHm"    "\nHm"       ""
	// ", is it</"  ", is it"    ""
	// "think>Yes"  ""           "Yes"
}
