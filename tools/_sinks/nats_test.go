package sinks

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/sinks"
	"weir/sinks/nats"
)

// natsServer is a server of NATS in a process of its own, which can be killed.
type natsServer struct {
	dir, addr string
}

// runNATS is the process.
func runNATS(args []string) {
	port, err := strconv.Atoi(args[1])
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: args[0], NoSigs: true, SyncAlways: true, NoLog: true})
	if err != nil {
		panic(err)
	}
	s.Start()
	select {}
}

func (s *natsServer) start(t *testing.T) *process {
	return startRole(t, "nats", s.addr, s.dir, port(s.addr))
}

func (s *natsServer) sink(t *testing.T) sinks.Sink {
	t.Helper()
	to, err := nats.New("nats://" + s.addr + "/WEIR?window=1h")
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// read returns the messages of the stream in order, and the values of the bucket.
func (s *natsServer) read(t *testing.T) (list []got, bucket map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := client.Connect("nats://" + s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, "WEIR")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(m.Subject, "weir.feedback.p.") {
			t.Fatal(m.Subject)
		}
		key := strings.ReplaceAll(m.Header.Get("Weir-Key"), "%2F", "/")
		list = append(list, got{id: m.Header.Get(client.MsgIdHdr), key: key, gone: m.Header.Get("Weir-Op") == "delete", body: string(m.Data)})
	}
	kv, err := js.KeyValue(ctx, "weir-feedback")
	if err != nil {
		t.Fatal(err)
	}
	bucket = map[string]string{}
	keys, err := kv.Keys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		e, err := kv.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		bucket[key] = string(e.Value())
	}
	return list, bucket
}

// TestNATS: weir and NATS are both killed under load, in turn, and in the end the stream has everything once
// and in order, and the bucket what the store has.
func TestNATS(t *testing.T) {
	s := &natsServer{dir: t.TempDir(), addr: freeAddress(t)}
	crash(t, crashed{start: s.start, sink: s.sink, role: "feedback-nats", address: s.addr, check: func(want map[string]string, acked map[string]int) {
		list, bucket := s.read(t)
		ids := map[string]bool{}
		for _, m := range list {
			if ids[m.id] {
				t.Errorf("%s is there twice", m.id)
			}
			ids[m.id] = true
		}
		checkList(t, list, want, acked)
		same(t, "the bucket", bucket, want)
	}})
}

func init() {
	roles["nats"] = runNATS
	roles["feedback-nats"] = func(args []string) {
		to, err := nats.New("nats://" + args[2] + "/WEIR?window=1h")
		write(args, to, err)
	}
}
