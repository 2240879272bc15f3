package api

import "strconv"

// ProjectUsage is what one project has used. Cached tokens are among those of
// Prompt. Project "" is sent as null: requests that named none.
type ProjectUsage struct {
	Project                              string
	Requests, Prompt, Cached, Completion uint64
}

// AppendProjectUsage appends the answer of GET /usage. since is the unix second
// when counting began.
func AppendProjectUsage(dst []byte, since int64, list []ProjectUsage) []byte {
	dst = append(dst, `{"object":"list","since":`...)
	dst = strconv.AppendInt(dst, since, 10)
	dst = append(dst, `,"data":[`...)
	for i, p := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"project":`...)
		if p.Project == "" {
			dst = append(dst, "null"...)
		} else {
			dst = AppendString(dst, p.Project)
		}
		dst = append(dst, `,"requests":`...)
		dst = strconv.AppendUint(dst, p.Requests, 10)
		dst = append(dst, `,"prompt_tokens":`...)
		dst = strconv.AppendUint(dst, p.Prompt, 10)
		dst = append(dst, `,"cached_tokens":`...)
		dst = strconv.AppendUint(dst, p.Cached, 10)
		dst = append(dst, `,"completion_tokens":`...)
		dst = strconv.AppendUint(dst, p.Completion, 10)
		dst = append(dst, '}')
	}
	return append(dst, `]}`...)
}
