package main

import (
	"context"
	"sync"

	"weir/server"
)

// inProcess is a server in this process, with a model, that listens nowhere yet.
type inProcess struct {
	server  *server.Server
	source  *source
	engine  *preparedEngine
	failed  chan error     // what the engine has ended with; capacity 1
	running sync.WaitGroup // what stop waits for
	cancel  context.CancelFunc
}

// startInProcess loads a model and gives it to a server.
func startInProcess(dir string, m *modelOptions, o *engineOptions, cfg server.Config) (_ *inProcess, err error) {
	p := &inProcess{failed: make(chan error, 1)}
	if p.source, err = openSource(dir, m); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	if p.engine, err = prepareEngine(ctx, p.source, m, o, nil); err != nil {
		return nil, err
	}
	if p.server, err = server.New(cfg); err != nil {
		return nil, err
	}
	p.running.Go(func() { p.failed <- p.engine.engine.Run(ctx) })
	select {
	case err = <-p.failed:
	case <-p.engine.engine.Ready():
		err = p.server.SetModel(p.engine.served(p.source, o.policy == "priority"))
	}
	return p, err
}

// stop ends the engine and waits for it.
func (p *inProcess) stop() {
	p.cancel()
	p.running.Wait()
	_ = p.source.network.Close()
}
