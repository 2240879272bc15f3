package transport_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"weir/server/servertest"
)

// What a proxy may understand in another way is refused, the connection is closed, and what
// follows is not taken for a request (RFC 9112, sections 2.2, 5, 6 and 7).
func TestSmuggling(t *testing.T) {
	h := newTCPServer(t)
	body := servertest.Body(t, nil)
	const next = "GET /smuggled HTTP/1.1\r\nHost: weir\r\n\r\n"
	get := func(line string) string { return "GET /health HTTP/1.1\r\nHost: weir\r\n" + line + "\r\n" }
	post := func(lines ...string) string { return servertest.Post(-1, lines...) }
	chunked := func(s string) string { return post("Transfer-Encoding: chunked") + s }
	whole := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	for name, c := range map[string]struct {
		bytes  string
		status int
	}{
		"length and chunked":         {post(fmt.Sprintf("Content-Length: %d", len(body)), "Transfer-Encoding: chunked") + whole + "0\r\n\r\n", 400},
		"chunked and length":         {post("Transfer-Encoding: chunked", "Content-Length: 5") + whole + "0\r\n\r\n", 400},
		"length and identity":        {post(fmt.Sprintf("Content-Length: %d", len(body)), "Transfer-Encoding: identity") + body, 400},
		"identity":                   {post("Transfer-Encoding: identity"), 400},
		"gzip, chunked":              {post("Transfer-Encoding: gzip, chunked") + whole + "0\r\n\r\n", 400},
		"chunked in another way":     {post("Transfer-Encoding: chunked;q=1") + whole + "0\r\n\r\n", 400},
		"chunked in quotes":          {post(`Transfer-Encoding: "chunked"`) + whole + "0\r\n\r\n", 400},
		"chunked, chunked":           {post("Transfer-Encoding: chunked, chunked") + whole + "0\r\n\r\n", 400},
		"chunked twice":              {post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + whole + "0\r\n\r\n", 400},
		"chunked, then identity":     {post("Transfer-Encoding: chunked", "Transfer-Encoding: identity") + whole + "0\r\n\r\n", 400},
		"chunked behind spaces":      {post("Transfer-Encoding:"+strings.Repeat(" ", 100)+"chunked") + whole + "0\r\n\r\n", 400},
		"chunked in HTTP/1.0":        {strings.Replace(chunked(whole+"0\r\n\r\n"), "HTTP/1.1", "HTTP/1.0", 1), 400},
		"two lengths":                {post("Content-Length: 5", "Content-Length: 6") + "12345", 400},
		"the same length twice":      {post("Content-Length: 5", "Content-Length: 5") + "12345", 400},
		"two lengths in a line":      {post("Content-Length: 5, 5") + "12345", 400},
		"length +5":                  {post("Content-Length: +5") + "12345", 400},
		"length -5":                  {post("Content-Length: -5") + "12345", 400},
		"length 0x5":                 {post("Content-Length: 0x5") + "12345", 400},
		"length 5e0":                 {post("Content-Length: 5e0") + "12345", 400},
		"length 5 5":                 {post("Content-Length: 5 5") + "12345", 400},
		"no length":                  {post("Content-Length:") + "12345", 400},
		"length beyond 64 bits":      {post("Content-Length: 18446744073709551621") + "12345", 400},
		"space before the colon":     {post("Content-Length : 5") + "12345", 400},
		"tab before the colon":       {post("Transfer-Encoding\t: chunked") + whole + "0\r\n\r\n", 400},
		"space in a name":            {post("Content Length: 5") + "12345", 400},
		"space before a name":        {post(" Content-Length: 5") + "12345", 400},
		"a line that goes on":        {post("X-A: 1", " Content-Length: 5") + "12345", 400},
		"chunked on the next line":   {post("Transfer-Encoding:", " chunked") + whole + "0\r\n\r\n", 400},
		"a first line that goes on":  {"GET /health HTTP/1.1\r\n Host: weir\r\n\r\n", 400},
		"no colon":                   {get("Content-Length\r\n"), 400},
		"no name":                    {get(": 5\r\n"), 400},
		"NUL in a name":              {get("X\x00A: 1\r\n"), 400},
		"NUL in a value":             {get("X-A: 1\x00\r\n"), 400},
		"CR in a value":              {get("X-A: 1\rContent-Length: 5\r\n"), 400},
		"CR at the end of a value":   {get("X-A: 1\r\r\n"), 400},
		"CR before the end":          {get("\r"), 400},
		"umlaut in a name":           {get("X-Ä: 1\r\n"), 400},
		"LF after a field":           {get("X-A: 1\n"), 400},
		"LF after the request line":  {"GET /health HTTP/1.1\nHost: weir\r\n\r\n", 400},
		"LF alone":                   {"GET /health HTTP/1.1\nHost: weir\n\n", 400},
		"LF at the end":              {"GET /health HTTP/1.1\r\nHost: weir\r\n\n", 400},
		"LF before the request":      {"\n" + get(""), 400},
		"LF in front of a body":      {strings.Replace(servertest.Post(len(body)), "\r\n\r\n", "\n\n", 1) + body, 400},
		"HTTP/9.9":                   {"GET /health HTTP/9.9\r\nHost: weir\r\n\r\n", 400},
		"HTTP/9.9 of /":              {"GET / HTTP/9.9\r\nHost: weir\r\n\r\n", 400},
		"HTTP/3":                     {"GET /health HTTP/3\r\nHost: weir\r\n\r\n", 400},
		"HTTP/2.0":                   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		"HTTP/1.2":                   {strings.Replace(servertest.Post(len(body)), "HTTP/1.1", "HTTP/1.2", 1) + body, 400},
		"HTTP/0.9":                   {"GET /health\r\n\r\n", 400},
		"http/1.1":                   {"GET /health http/1.1\r\nHost: weir\r\n\r\n", 400},
		"two hosts":                  {get("Host: other\r\n"), 400},
		"no host":                    {"GET /health HTTP/1.1\r\n\r\n", 400},
		"chunk size overflows":       {chunked("10000000000000000\r\n" + body), 400},
		"chunk size in many zeros":   {chunked(strings.Repeat("0", 100) + "5\r\n12345\r\n0\r\n\r\n"), 400},
		"chunk size 0x5":             {chunked("0x5\r\n12345\r\n0\r\n\r\n"), 400},
		"chunk size +5":              {chunked("+5\r\n12345\r\n0\r\n\r\n"), 400},
		"no chunk size":              {chunked("\r\n12345\r\n0\r\n\r\n"), 400},
		"space before a chunk size":  {chunked(" 5\r\n12345\r\n0\r\n\r\n"), 400},
		"chunk longer than its size": {chunked("3\r\n12345\r\n0\r\n\r\n"), 400},
		"LF after a chunk size":      {chunked(strings.Replace(whole, "\r\n", "\n", 1) + "0\r\n\r\n"), 400},
		"LF after a chunk":           {chunked(strings.TrimSuffix(whole, "\r\n") + "\n0\r\n\r\n"), 400},
		"LF after the last chunk":    {chunked(whole + "0\n\r\n"), 400},
		"LF at the end of chunks":    {chunked(whole + "0\r\n\n"), 400},
		"LF in a chunk extension":    {chunked(strings.Replace(whole, "\r\n", ";a\nb\r\n", 1) + "0\r\n\r\n"), 400},
		"huge chunk extension":       {chunked(strings.Replace(whole, "\r\n", ";"+strings.Repeat("x", 20_000)+"\r\n", 1) + "0\r\n\r\n"), 400},
		"many chunk extensions":      {chunked(strings.Repeat("1;"+strings.Repeat("x", 100)+"\r\n \r\n", 200) + whole + "0\r\n\r\n"), 400},
		"LF in a trailer":            {chunked(whole + "0\r\nX-A: 1\n\r\n"), 400},
		"a trailer that goes on":     {chunked(whole + "0\r\nX-A: 1\r\n 2\r\n\r\n"), 400},
		"a trailer without a colon":  {chunked(whole + "0\r\nGET / HTTP/1.1\r\n\r\n"), 400},
		"length in a trailer":        {chunked(whole + "0\r\nContent-Length: 5\r\n\r\n"), 400},
		"huge trailer":               {chunked(whole + "0\r\n" + strings.Repeat("X-A: 1\r\n", 4000) + "\r\n"), 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := h.Raw(t)
			_, _ = io.WriteString(r, c.bytes+next) // the server may close before it has read everything
			status, answer, header := r.Answer()
			if status != c.status || header.Get("Connection") != "close" {
				t.Errorf("%d %s %v, want %d", status, answer, header, c.status)
			}
			servertest.FaultOf(t, answer)
			if rest, err := io.ReadAll(r.R); len(rest) > 0 || err != nil {
				t.Errorf("%q follows; %v", rest, err)
			}
		})
	}
}

// What the checks look at passes where it is right, in one piece and byte by byte, and with
// a request behind it.
func TestFramed(t *testing.T) {
	h := newTCPServer(t)
	body := servertest.Body(t, nil)
	whole := fmt.Sprintf("%X;name=\"a;b\"\r\n%s\r\n", len(body), body)
	chunked := func(lines ...string) string {
		return servertest.Post(-1, append(lines, "Transfer-Encoding: chunked")...)
	}
	for name, request := range map[string]string{
		"length":              servertest.Post(len(body)) + body,
		"leading zeros":       servertest.Post(-1, fmt.Sprintf("Content-Length:\t 000%d \t", len(body))) + body,
		"names in any case":   servertest.Post(-1, fmt.Sprintf("cONTENT-lENGTH:%d", len(body))) + body,
		"chunked":             chunked() + whole + "0\r\n\r\n",
		"chunked, any case":   servertest.Post(-1, "TRANSFER-encoding: \t Chunked ") + whole + "0\r\n\r\n",
		"padded chunk size":   chunked() + strings.Replace(whole, ";name=\"a;b\"", "  ", 1) + "000\r\n\r\n",
		"small chunks":        chunked() + chunks(body, 1) + "0\r\n\r\n",
		"trailer":             chunked("Trailer: X-A") + whole + "0;last\r\nX-A: 1\r\nX-B: 2\r\n\r\n",
		"empty lines before":  "\r\n\r\n" + servertest.Post(len(body)) + body,
		"many and long lines": servertest.Post(len(body), "X-Long: "+strings.Repeat("x", 8000), "X!#$%&'*+-.^_`|~9: ä ö", "X-Empty:", strings.Repeat("x", 100)+": 1") + body,
		"no body":             "GET /health HTTP/1.1\r\nHost: weir\r\n\r\n",
		"HTTP/1.0":            "GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := request + "GET /version HTTP/1.1\r\nHost: weir\r\n\r\n" + request
			for _, piece := range []int{len(all), 1000, 7, 1} {
				r := h.Raw(t)
				for rest := all; rest != ""; {
					n := min(piece, len(rest))
					r.Send(rest[:n])
					rest = rest[n:]
				}
				for i := range 3 {
					if status, answer, _ := r.Answer(); status != 200 || strings.Contains(answer, "version") != (i == 1) {
						t.Errorf("in pieces of %d, answer %d: %d %s", piece, i, status, answer)
					}
				}
				r.Close()
			}
		})
	}
}

// chunks is a text in chunks of n bytes.
func chunks(s string, n int) string {
	var b strings.Builder
	for s != "" {
		n = min(n, len(s))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, s[:n])
		s = s[n:]
	}
	return b.String()
}

// A client that waits with its body is told before it sends it what its headers alone
// refuse.
func TestExpectRefused(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.TCP = true; s.Config.APIKeys = []string{"k"} })
	const key, expect = "Authorization: Bearer k", "Expect: 100-continue"
	for _, c := range []struct {
		head   string
		status int
	}{
		{servertest.Post(33<<20, key, expect), 413},
		{servertest.Post(10, expect), 401},
		{servertest.PostTo("/nothing", 10, key, expect), 404},
		{servertest.PostTo("/v1/models", 10, key, expect), 405},
		{servertest.Post(10, key, expect, "Compat-Project: x"), 400},
		{servertest.Post(10, key, expect, "Transfer-Encoding: chunked"), 400},
		{servertest.Post(10, key, expect, "Content-Length: 10"), 400},
	} {
		r := h.Raw(t)
		r.Send(c.head)
		status, answer, header := r.Answer()
		if status != c.status || header.Get("Connection") != "close" {
			t.Errorf("%q: %d %s %v, want %d", c.head, status, answer, header, c.status)
		}
		r.Close()
	}
}

// HEAD is answered as GET is, without the body.
func TestHead(t *testing.T) {
	h := newTCPServer(t)
	for _, path := range []string{"/health", "/ready", "/version", "/metrics", "/v1/models", "/v1/models/tiny", "/openapi.json", "/usage", "/v1/models/other"} {
		r := h.Raw(t)
		r.Send("HEAD " + path + " HTTP/1.1\r\nHost: weir\r\n\r\nGET " + path + " HTTP/1.1\r\nHost: weir\r\n\r\n")
		head := map[string]string{}
		line, err := r.R.ReadString('\n')
		for err == nil && line != "\r\n" {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			head[name] = value
			line, err = r.R.ReadString('\n')
		}
		status, answer, header := r.Answer()
		if _, ok := head[fmt.Sprintf("HTTP/1.1 %d %s", status, httpText(status))]; !ok {
			t.Errorf("%s: %v, GET has %d", path, head, status)
		}
		if head["Content-Length"] != fmt.Sprint(len(answer)) && answer != "" && path != "/metrics" || head["Content-Type"] != header.Get("Content-Type") {
			t.Errorf("%s: %v, GET has %d bytes, %v", path, head, len(answer), header)
		}
		r.Close()
	}
	if status, _, header := h.Get("HEAD", servertest.ChatPath, ""); status != 405 || header.Get("Allow") != "POST" {
		t.Errorf("where there is no GET: %d %v", status, header)
	}
}

func httpText(status int) string {
	if status == 404 {
		return "Not Found"
	}
	return "OK"
}

// A path with a slash too many leads to the one without it.
func TestSlashAtTheEnd(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.TCP = true; s.Config.APIKeys = []string{"k"}; s.Config.RootPath = "/llm" })
	const key = "Authorization: Bearer k"
	for _, c := range []struct {
		method, path, key string
		status            int
		to                string
	}{
		{"GET", "/v1/models/", key, 307, "/v1/models"},
		{"GET", "/llm/v1/models/?a=b", key, 307, "/llm/v1/models?a=b"},
		{"POST", servertest.ChatPath + "/", key, 307, servertest.ChatPath},
		{"GET", "/health/", "", 307, "/health"},
		{"GET", "/v1/models/", "", 401, ""},
		{"GET", "/v1/models//", key, 404, ""},
		{"GET", "//weir.example/", key, 404, ""},
		{"GET", "/nothing/", key, 404, ""},
		{"GET", "/", key, 200, ""}, // Ollama's clients ask whether it runs
	} {
		r := h.Raw(t)
		head := c.method + " " + c.path + " HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\n"
		if c.key != "" {
			head += c.key + "\r\n"
		}
		r.Send(head + "\r\n")
		if status, answer, header := r.Answer(); status != c.status || header.Get("Location") != c.to {
			t.Errorf("%s: %d %s %v", c.path, status, answer, header)
		}
		r.Close()
	}
}

// A body may begin with a byte order mark.
func TestByteOrderMark(t *testing.T) {
	h := newTCPServer(t)
	body := "\uFEFF" + servertest.Body(t, nil)
	for name, request := range map[string]string{
		"length":  servertest.Post(len(body)) + body,
		"chunked": servertest.Post(-1, "Transfer-Encoding: chunked") + chunks(body, 1) + "0\r\n\r\n",
	} {
		r := h.Raw(t)
		r.Send(request)
		if status, answer, _ := r.Answer(); status != 200 {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		r.Close()
	}
	for _, body := range []string{"\uFEFF", "\uFEFF\uFEFF{}", "\xef\xbb{}"} {
		if status, answer, _ := h.Get("POST", servertest.ChatPath, body); status != 400 {
			t.Errorf("%q: %d %s", body, status, answer)
		}
	}
}

// A client that wants the connection to be closed says so in any list of Connection.
func TestConnectionClose(t *testing.T) {
	h := newTCPServer(t)
	const next = "GET /version HTTP/1.1\r\nHost: weir\r\n\r\n"
	for _, c := range []struct {
		lines  string
		closes bool
	}{
		{"Connection: close\r\n", true},
		{"Connection: TE, close\r\nTE: trailers\r\n", true},
		{"connection: keep-alive ,\tCLOSE\r\n", true},
		{"Connection: close\r\nConnection: keep-alive\r\n", true},
		{"Connection: keep-alive\r\n", false},
		{"Connection: closed, x-close\r\n", false},
		{"X-Connection: close\r\n", false},
	} {
		r := h.Raw(t)
		r.Send("GET /version HTTP/1.1\r\nHost: weir\r\n" + c.lines + "\r\n" + next)
		status, _, header := r.Answer()
		if status != 200 || (header.Get("Connection") == "close") != c.closes {
			t.Errorf("%q: %d %v", c.lines, status, header)
		}
		if c.closes {
			r.Ended()
		} else if status, _, header := r.Answer(); status != 200 || header.Get("Connection") == "close" {
			t.Errorf("%q, the next request: %d %v", c.lines, status, header)
		}
		r.Close()
	}
}

// HTTP/1.0 knows no 100, so a client of it is answered without one.
func TestExpectOfOldClients(t *testing.T) {
	h := newTCPServer(t)
	body := servertest.Body(t, nil)
	r := h.Raw(t)
	r.Send(strings.Replace(servertest.Post(len(body), "Expect: 100-continue"), "HTTP/1.1", "HTTP/1.0", 1) + body)
	if status, answer, _ := r.Answer(); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

// A client that speaks another protocol learns at once that it is not understood.
func TestOtherProtocols(t *testing.T) {
	h := newTCPServer(t)
	for name, sent := range map[string]string{"TLS": "\x16\x03\x01\x02\x00", "binary": "\x00\x01", "UTF-8": "ä"} {
		r := h.Raw(t)
		r.Send(sent)
		if err := r.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil { // less than the time for headers
			t.Fatal(err)
		}
		answer, err := io.ReadAll(r.R)
		if err != nil || len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		r.Close()
	}
	r := h.Raw(t)
	r.Send("GET /version HTTP/1.1\r\nHost: weir\r\n\r\n\x16\x03")
	if status, _, _ := r.Answer(); status != 200 {
		t.Errorf("before TLS: %d", status)
	}
}
