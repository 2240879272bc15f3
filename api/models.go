package api

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Model is one entry of GET /v1/models: an alias of the base model or an adapter.
type Model struct {
	ID          string
	Root        string // path or repository of the weights
	Parent      string // the base model of an adapter; "": null
	MaxModelLen int    // context in tokens; 0: null
}

// AppendModels appends the body of GET /v1/models. created is the time of the
// call in unix seconds, as in the reference engine.
func AppendModels(dst []byte, models []Model, created int64) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, &models[i], created)
	}
	return append(dst, `]}`...)
}

// AppendModel appends the body of GET /v1/models/{id}.
func AppendModel(dst []byte, m *Model, created int64) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, m.ID)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"owned_by":"weir","root":`...)
	dst = AppendString(dst, m.Root)
	dst = append(dst, `,"parent":`...)
	if m.Parent == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, m.Parent)
	}
	dst = append(dst, `,"max_model_len":`...)
	if m.MaxModelLen == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, int64(m.MaxModelLen), 10)
	}
	// Nobody looks a permission up by its id; deriving it from the name keeps the
	// answer the same from call to call.
	h := fnv.New64a()
	h.Write([]byte(m.ID))
	dst = append(dst, `,"permission":[{"id":"modelperm-`...)
	dst = strconv.AppendUint(dst, h.Sum64(), 16)
	dst = append(dst, `","object":"model_permission","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	return append(dst, `,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]}`...)
}

// AppendVersion appends the body of GET /version.
func AppendVersion(dst []byte, version string) []byte {
	dst = append(dst, `{"version":`...)
	dst = AppendString(dst, version)
	return append(dst, '}')
}

// IsJSON reports whether a Content-Type header announces JSON: the part before
// the first semicolon, in any case, and no white space (docs/interface/chat-completions.md, section 1.5).
func IsJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(media) == "application/json"
}
