package jsontext

import "github.com/goccy/go-json"

// maxDecodeDepth bounds the nesting of what Decode reads, as encoding/json does.
const maxDecodeDepth = 10000

// RawMessage is a value that is decoded later, or was encoded before. It is the type of
// encoding/json, which both encoders know.
type RawMessage = json.RawMessage

// TypeError is the error of Decode for a value that does not fit into its Go type.
type TypeError = json.UnmarshalTypeError

// Decode reads a JSON text into what into points to, by the rules and tags of
// encoding/json. A text that Scan refuses is a *SyntaxError; the decoder never sees it.
func Decode(text []byte, into any) error {
	if err := Scan(text, maxDecodeDepth); err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Encode writes v as JSON without white space, by the rules and tags of encoding/json: the
// keys of maps are sorted, and <, > and & in strings are escaped.
func Encode(v any) ([]byte, error) { return json.Marshal(v) }

// EncodeIndent is Encode with a line for each member and element, indented by so many
// copies of indent as it is deep.
func EncodeIndent(v any, indent string) ([]byte, error) { return json.MarshalIndent(v, "", indent) }
