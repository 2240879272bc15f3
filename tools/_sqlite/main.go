// Command sqlite is a server that weir bench store compares with weir: POST
// /feedback/replace and /v2/{entity}/{project}/calls/complete on SQLite, or on weir's store,
// with the same handler. In both cases packages feedback and calls read and check requests.
//
//	sqlite serve --host 127.0.0.1 --port N --store sqlite|grouped|weir
//
// With sqlite, every request is a transaction of its own. With grouped, one transaction takes
// all requests that wait, as in weir. Both run in WAL mode with synchronous=FULL, so a commit
// is on the disk before it is answered.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/valyala/fasthttp"

	"weir/calls"
	"weir/feedback"
	"weir/store"
)

// keeper stores feedback: it returns the answer once the record is on the disk.
type keeper interface {
	Replace(ctx context.Context, a feedback.Author, r *feedback.Request, o feedback.Once) ([]byte, error)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) == 0 || args[0] != "serve" {
		return fmt.Errorf("usage: sqlite serve --host H --port N --store sqlite|grouped|weir")
	}
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	host, port, kind := fs.String("host", "127.0.0.1", ""), fs.Int("port", 8000, ""), fs.String("store", "sqlite", "")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	dir := filepath.Join(os.Getenv("XDG_DATA_HOME"), "peer")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var keep keeper
	var keepCalls callKeeper
	var done func() error
	switch *kind {
	case "sqlite", "grouped":
		db, err := open(filepath.Join(dir, "feedback.db"), *kind == "grouped")
		if err != nil {
			return err
		}
		keep, done = db, db.Close
		if keepCalls, err = openCalls(db); err != nil {
			return err
		}
	case "weir":
		db, err := store.Open(store.DefaultConfig(filepath.Join(dir, "feedback")))
		if err != nil {
			return err
		}
		cfg := store.DefaultConfig(filepath.Join(dir, "traces"))
		cfg.ValueThreshold = calls.ValueThreshold
		traces, err := store.Open(cfg)
		if err != nil {
			return err
		}
		keep, done = feedback.New(db, feedback.DefaultConfig()), func() error { return errors.Join(db.Close(), traces.Close()) }
		keepCalls = weirCalls{calls.New(traces)}
	default:
		return fmt.Errorf("no store %q", *kind)
	}
	s := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) { handle(c, keep, keepCalls) }, MaxRequestBodySize: 32 << 20}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-end
		_ = s.Shutdown()
	}()
	if err := s.ListenAndServe(*host + ":" + strconv.Itoa(*port)); err != nil {
		return err
	}
	return done()
}

func handle(c *fasthttp.RequestCtx, keep keeper, keepCalls callKeeper) {
	switch path := string(c.Path()); path {
	case "/health":
	case "/feedback/replace":
		r, err := feedback.DecodeRequest(context.Background(), c.PostBody(), feedback.Replace)
		var answer []byte
		if err == nil {
			answer, err = keep.Replace(c, feedback.Author{User: "anonymous"}, r, feedback.Once{})
		}
		if err != nil {
			c.Error(err.Error(), fasthttp.StatusBadRequest)
			return
		}
		c.SetContentType("application/json")
		c.Response.SetBodyRaw(answer)
	default:
		if strings.HasSuffix(path, "/calls/complete") {
			r, err := calls.DecodeRequest(context.Background(), c.PostBody(), calls.FormComplete, "")
			if err == nil {
				err = keepCalls.Complete(c, r)
			}
			if err != nil {
				c.Error(err.Error(), fasthttp.StatusBadRequest)
				return
			}
			c.SetContentType("application/json")
			c.Response.SetBodyString("{}")
			return
		}
		c.Error("not found", fasthttp.StatusNotFound)
	}
}
