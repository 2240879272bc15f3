package quantconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/jsontext"
)

var (
	// ErrConfig says that a quantization_config is malformed or contradicts itself.
	ErrConfig = errors.New("bad quantization_config")
	// ErrUnsupported says that a checkpoint is quantized in a way that is not implemented.
	// The message lists what is.
	ErrUnsupported = errors.New("quantization that is not supported")
	// ErrMismatch says that the tensors of a checkpoint are not those that its
	// quantization_config asks for.
	ErrMismatch = errors.New("the tensors do not match the quantization_config")
)

// Config is a quantization_config that is supported.
type Config struct {
	// Method is quant_method, in lower case.
	Method string
	choose chooser
}

// chooser finds the scheme of a module. class is that of PyTorch, Linear or Embedding.
type chooser func(module, class string) (scheme, verdict, error)

// verdict says whether a module is quantized.
type verdict uint8

const (
	plain     verdict = iota // the lists leave it out
	quantised                // the lists name it
	either                   // the lists say nothing: the tensors decide
)

// methods are the supported values of quant_method.
var methods = map[string]func(v jsontext.Value) (chooser, error){
	"gptq":               parseGPTQ,
	"awq":                parseAWQ,
	"auto-round":         parseAutoRound,
	"fp8":                parseFP8,
	"fbgemm_fp8":         parseFP8,
	"compressed-tensors": parseCompressed,
	"modelopt":           parseModelOpt,
	"mxfp4":              parseMXFP4,
}

// Methods lists the supported values of quant_method, sorted.
func Methods() []string {
	var names []string
	for name := range methods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Parse reads a quantization_config, or the content of one of Files. The text is valid JSON. An
// error wraps ErrConfig or ErrUnsupported, and does not name the file.
func Parse(v jsontext.Value) (*Config, error) {
	if v.Kind() != jsontext.Object {
		return nil, badConfig("it is %.60s, not an object", v)
	}
	var head struct {
		Method   string `json:"quant_method"`
		Old      string `json:"method"`
		Producer struct {
			Name string `json:"name"`
		} `json:"producer"`
		Quantization jsontext.RawMessage `json:"quantization"`
		Groups       jsontext.RawMessage `json:"config_groups"`
		WBit         *int                `json:"w_bit"`
		Bits         *int                `json:"bits"`
	}
	if err := decode(v, &head); err != nil {
		return nil, err
	}
	method := strings.ToLower(head.Method)
	switch { // files that have no quant_method
	case method != "":
	case head.Old != "":
		method = strings.ToLower(head.Old)
	case head.Producer.Name == "modelopt" || len(head.Quantization) > 0:
		method = "modelopt"
	case len(head.Groups) > 0:
		method = "compressed-tensors"
	case head.WBit != nil:
		method = "awq"
	case head.Bits != nil:
		method = "gptq"
	}
	if method == "modelopt_fp4" || method == "modelopt_fp8" {
		method = "modelopt"
	}
	parse, ok := methods[method]
	if !ok {
		if method == "" {
			return nil, badConfig("quant_method is missing")
		}
		return nil, unsupported("the quantization method %.100q; there are %s", method, strings.Join(Methods(), ", "))
	}
	choose, err := parse(v)
	if err != nil {
		return nil, err
	}
	return &Config{Method: method, choose: choose}, nil
}

// Files are the names of files that hold a quantization_config where config.json has none, in
// the order in which they are looked for: those of AutoGPTQ, AutoAWQ and ModelOpt.
var Files = []string{"quantize_config.json", "quant_config.json", "hf_quant_config.json"}

func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// decode reads an object whose members may have wrong types.
func decode(v jsontext.Value, into any) error {
	err := jsontext.Decode(v, into)
	if e, ok := errors.AsType[*jsontext.TypeError](err); ok {
		return badConfig("%s is %.60s, which has the wrong type", e.Field, e.Value)
	}
	if err != nil {
		return badConfig("%v", err)
	}
	return nil
}
