package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"weir/feedback"
	"weir/store"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// A server answers weir store on a unix socket in its data directory: the
// database's lock keeps every other process out. Who may write in the directory
// may do everything there is here, so nobody is asked for a key.
type admin struct {
	http *http.Server
	path string
	dir  *os.File // keeps the short name of the socket valid
}

const socketName = "admin.sock"

// The trailers that say how an answer ended.
const (
	trailerError   = "Weir-Error"
	trailerDamaged = "Weir-Damaged"
)

// maxSocketPath is what fits into a unix address on every system.
const maxSocketPath = 100

// socketPath is the address of the socket in dir. A long one is spelt through the
// descriptor of the directory, which has to stay open.
func socketPath(dir string) (path string, open *os.File, err error) {
	path = filepath.Join(dir, socketName)
	if len(path) <= maxSocketPath {
		return path, nil, nil
	}
	if open, err = os.Open(dir); err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", open.Fd(), socketName), open, nil
}

func startAdmin(dir string, r *records) (*admin, error) {
	path, open, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	// Whoever left it there has ended: this process has the database's lock.
	_ = os.Remove(path)
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	mux := http.NewServeMux()
	handle := func(pattern string, f func(w io.Writer, req *http.Request) (damaged int, err error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Trailer", trailerError+", "+trailerDamaged)
			damaged, err := f(w, req)
			w.Header().Set(trailerDamaged, strconv.Itoa(damaged))
			if err != nil {
				w.Header().Set(trailerError, err.Error())
			}
		})
	}
	local := r.local()
	handle("GET /backup", func(w io.Writer, _ *http.Request) (int, error) { return local.backup(w) })
	handle("GET /verify", func(w io.Writer, _ *http.Request) (int, error) { return local.verify(w) })
	handle("GET /export", func(w io.Writer, req *http.Request) (int, error) {
		return local.export(w, req.URL.Query())
	})
	a := &admin{http: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, path: path, dir: open}
	go func() { _ = a.http.Serve(ln) }() // it ends with Close
	return a, nil
}

func (a *admin) Close() error {
	err := a.http.Close()
	if a.dir != nil {
		err = errors.Join(err, a.dir.Close())
	}
	return err
}

// local are the databases of this process.
type local struct {
	names []string
	dbs   []*store.DB
	book  *feedback.Book // nil: there is none

	archive *archive.Archive // nil: there is none, or it is not open yet
	spool   string
}

func (r *records) local() *local {
	return &local{names: databases, dbs: []*store.DB{r.feedback, r.trajectories}, book: r.book, archive: r.archive, spool: r.spool}
}

// openLocal opens the databases in dir, which no server uses.
func openLocal(dir string, cfg func(dir string) store.Config) (l *local, err error) {
	l = &local{}
	for _, name := range databases {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		db, err := store.Open(cfg(path))
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.names, l.dbs = append(l.names, name), append(l.dbs, db)
		if name == "feedback" {
			l.book = feedback.New(db, feedback.DefaultConfig())
			continue
		}
		if l.archive, err = archive.New(db, cfg(path).Log); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if len(l.dbs) == 0 {
		return nil, fmt.Errorf("there is no database in %s", dir)
	}
	return l, nil
}

func (l *local) Close() error {
	var err error
	if l.archive != nil {
		l.archive.Close()
	}
	for _, db := range l.dbs {
		err = errors.Join(err, db.Close())
	}
	return err
}

func (l *local) backup(w io.Writer) (damaged int, err error) {
	b := store.NewBackup(w)
	for i, name := range l.names {
		n, err := b.Add(name, l.dbs[i])
		damaged += n
		if err != nil {
			return damaged, err
		}
	}
	return damaged, b.Close()
}

func (l *local) verify(w io.Writer) (damaged int, err error) {
	for i, name := range l.names {
		before := damaged
		rows, err := l.dbs[i].Verify(func(err error) {
			damaged++
			fmt.Fprintf(w, "%s: %v\n", name, err)
		})
		if err != nil {
			return damaged, err
		}
		if name == "feedback" {
			if err := l.book.Check(func(what string) {
				damaged++
				fmt.Fprintf(w, "%s: %s\n", name, what)
			}); err != nil {
				return damaged, err
			}
		}
		fmt.Fprintf(w, "%s: %d keys are whole, %d faults\n", name, rows, damaged-before)
	}
	return damaged, nil
}

// export writes feedback, or with a model its trajectories.
func (l *local) export(w io.Writer, q url.Values) (damaged int, err error) {
	if q.Get("model") != "" {
		return 0, l.exportTrajectories(w, q)
	}
	if l.book == nil {
		return 0, errors.New("there is no feedback")
	}
	project := q.Get("project")
	var line []byte
	err = l.book.Each(func(rec *feedback.Record) error {
		if project != "" && rec.Project != project {
			return nil
		}
		line = append(rec.AppendAll(line[:0]), '\n')
		_, err := w.Write(line)
		return err
	}, func([]byte, error) { damaged++ })
	return damaged, err
}

func (l *local) exportTrajectories(w io.Writer, q url.Values) error {
	if l.archive == nil {
		return errors.New("there are no trajectories")
	}
	model, tenant := q.Get("model"), q.Get("tenant")
	f := archive.Filter{Splits: q["split"]}
	for name, bound := range map[string]*trajectory.Int{"min": &f.MinVersion, "max": &f.MaxVersion} {
		if text := q.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			*bound = trajectory.Some(n)
		}
	}
	if tenant == "" {
		tenants, err := l.archive.Tenants(model)
		switch {
		case err != nil:
			return err
		case len(tenants) > 1:
			return fmt.Errorf("several tenants have a model %s: say which with --tenant, %q", model, tenants)
		case len(tenants) == 1:
			tenant = tenants[0]
		}
	}
	return l.archive.View(tenant, func(v *archive.View) error {
		if err := v.Known(model); err != nil {
			return err
		}
		return export.Write(w, v, model, &f, export.Options{Form: export.Form(q.Get("format")), Spool: l.spool})
	})
}

// remote asks the server that uses dir; found is false if there is none.
func remote(dir, query string, w io.Writer) (damaged int, found bool, err error) {
	path, open, err := socketPath(dir)
	if err != nil {
		return 0, false, nil // there is no such directory: the caller will say so
	}
	if open != nil {
		defer open.Close()
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://weir" + query)
	if err != nil {
		return 0, false, nil // nobody listens
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, true, fmt.Errorf("the server answers %s", resp.Status)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return 0, true, fmt.Errorf("the server's answer ends early: %w", err)
	}
	damaged, _ = strconv.Atoi(resp.Trailer.Get(trailerDamaged))
	if text := resp.Trailer.Get(trailerError); text != "" {
		return damaged, true, errors.New(text)
	}
	return damaged, true, nil
}
