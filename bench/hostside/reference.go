package hostside

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/internal/jsontext"
)

// recorded are answers of a server, which the references give again.
type recorded struct {
	Pieces []string `json:"pieces"` // of a stream, each written by itself, in base64
	Chat   string   `json:"chat"`   // body of an answer that is not a stream
}

// record cuts the bytes of a stream into pieces as a server writes them: the head with the first chunk, and
// each further chunk, the last of them with the end.
func record(stream []byte) (pieces []string) {
	head := bytes.Index(stream, []byte("\r\n\r\n"))
	if head < 0 {
		return []string{base64.StdEncoding.EncodeToString(stream)}
	}
	begin, at := 0, head+4
	for at < len(stream) {
		line := bytes.IndexByte(stream[at:], '\n')
		var size int
		if line < 0 {
			break
		}
		if _, err := fmt.Sscanf(string(stream[at:at+line]), "%x", &size); err != nil || size == 0 {
			break
		}
		if at += line + 1 + size + 2; at > len(stream) {
			break
		}
		pieces = append(pieces, base64.StdEncoding.EncodeToString(stream[begin:at]))
		begin = at
	}
	if begin < len(stream) {
		pieces = append(pieces, base64.StdEncoding.EncodeToString(stream[begin:]))
	}
	return pieces
}

// addresses are where the references listen.
type addresses struct {
	Raw  string `json:"raw"`
	HTTP string `json:"http"`
}

// ServeReferences gives recorded answers, which it reads from in as a line of JSON, without any of a server's work: on
// one port from loops over the sockets, on another from a handler of fasthttp. It writes a line of JSON with the
// addresses to out, and ends with in.
func ServeReferences(in io.Reader, out io.Writer) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var r recorded
	if err := jsontext.Decode(line, &r); err != nil {
		return err
	}
	var pieces [][]byte
	for _, p := range r.Pieces {
		piece, err := base64.StdEncoding.DecodeString(p)
		if err != nil {
			return err
		}
		pieces = append(pieces, piece)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer raw.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &fasthttp.Server{Handler: handler([]byte(r.Chat)), NoDefaultServerHeader: true, Concurrency: 1 << 20}
	go serveRaw(raw, pieces)
	go server.Serve(web)
	text, err := jsontext.Encode(addresses{raw.Addr().String(), web.Addr().String()})
	if err != nil {
		return err
	}
	if _, err := out.Write(append(text, '\n')); err != nil {
		return err
	}
	_, _ = lines.WriteTo(io.Discard) // until whoever started this closes it
	return errors.Join(web.Close(), raw.Close())
}

// wholePath is asked of the loop for a whole answer in one write, and holdPath of the handler for a stream that
// stays open after its first event.
const (
	wholePath = "/whole"
	holdPath  = "/hold"
)

// serveRaw writes the pieces for every request, which comes in one read.
func serveRaw(l net.Listener, pieces [][]byte) {
	all := bytes.Join(pieces, nil)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 64<<10)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				list := pieces
				if strings.HasPrefix(string(buf[:min(n, 16)]), "POST "+wholePath) {
					list = [][]byte{all}
				}
				for _, p := range list {
					if _, err := c.Write(p); err != nil {
						return
					}
				}
			}
		}()
	}
}

// handler answers like a server that has nothing to do.
func handler(chat []byte) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) != holdPath {
			ctx.SetContentType("application/json")
			ctx.SetBody(chat)
			return
		}
		ctx.SetContentType("text/event-stream")
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for { // a blank line keeps the connection, and tells when it has ended
				if _, err := w.WriteString("data: {}\n\n"); err != nil || w.Flush() != nil {
					return
				}
				time.Sleep(time.Hour)
			}
		})
	}
}
