package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// fleet are the processes of a run.
type fleet struct {
	o       *options
	workers []*worker
	router  *exec.Cmd
	ended   chan struct{} // closed when the router has ended; nil: it was not started
}

// worker is a weir process.
type worker struct {
	url  string
	args []string
	log  *os.File
	cmd  *exec.Cmd
}

// freePort returns a port that nobody listens at.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// add starts one more process, with room for few prefixes.
func (f *fleet) add() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	name := filepath.Join(f.o.dir, "weir-"+strconv.Itoa(port))
	w := &worker{url: fmt.Sprintf("http://127.0.0.1:%d", port), args: []string{
		"serve", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--data-dir", name, "--threads", "1", "--max-model-len", "1024", "--kv-cache-memory", "16MiB",
		"--drain-delay", "4s",
	}}
	if w.log, err = os.Create(name + ".log"); err != nil {
		return err
	}
	f.workers = append(f.workers, w)
	return f.restart(w)
}

// restart starts a process that does not run, and waits until it is ready.
func (f *fleet) restart(w *worker) error {
	w.cmd = exec.Command(f.o.weir, w.args...)
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		return err
	}
	return waitFor(w.url+"/ready", time.Minute, nil)
}

// waitFor waits until a URL answers with 200, or ended is closed.
func waitFor(url string, long time.Duration, ended <-chan struct{}) error {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		select {
		case <-ended:
			return fmt.Errorf("the process of %s has ended", url)
		default:
		}
		resp, err := http.Get(url)
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("%s does not answer with 200 within %v", url, long)
}

// kill ends a process at once.
func (w *worker) kill() error {
	if err := w.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = w.cmd.Wait() // it was killed, which is an error
	return nil
}

// drain asks a process to end, and returns a channel that gets its end.
func (w *worker) drain() chan error {
	ended := make(chan error, 1)
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		ended <- err
		return ended
	}
	go func() {
		ended <- w.cmd.Wait()
		w.cmd = nil
	}()
	return ended
}

// front starts a router in front of all processes and returns its address.
func (f *fleet) front(r *router, policy string) (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	metrics, err := freePort()
	if err != nil {
		return "", err
	}
	var urls []string
	for _, w := range f.workers {
		urls = append(urls, w.url)
	}
	args, err := r.args(f.o, policy, port, metrics, urls)
	if err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(f.o.dir, fmt.Sprintf("%s-%s-%d.log", r.name, policy, len(urls))))
	if err != nil {
		return "", err
	}
	f.router = exec.Command(filepath.Join(r.folder(f.o), "bin", r.program), args...)
	f.router.Stdout, f.router.Stderr = log, log
	f.router.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it may have children
	if err := f.router.Start(); err != nil {
		return "", err
	}
	f.ended = make(chan struct{})
	go func() {
		_ = f.router.Wait()
		close(f.ended)
	}()
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := waitFor(url+"/v1/models", 2*time.Minute, f.ended); err != nil {
		return "", err
	}
	time.Sleep(2 * time.Second) // smg adds processes one by one
	return url, nil
}

// stop ends all processes.
func (f *fleet) stop() error {
	var errs []error
	if f.ended != nil {
		_ = syscall.Kill(-f.router.Process.Pid, syscall.SIGKILL)
		<-f.ended
	}
	for _, w := range f.workers {
		if w.cmd != nil && w.cmd.ProcessState == nil && w.cmd.Process != nil {
			errs = append(errs, w.kill())
		}
		errs = append(errs, w.log.Close())
	}
	return errors.Join(errs...)
}
