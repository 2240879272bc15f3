package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"weir/calls"
	"weir/feedback"
	"weir/objects"
	"weir/queues"
	"weir/store"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// openStores are open databases, and what weir store does with them. They are the
// databases of a running server, or were opened for one command.
type openStores struct {
	dbs     []namedStore
	book    *feedback.Store  // nil: there is no feedback
	calls   *calls.Store     // nil: there are no calls
	objects *objects.Store   // nil: there are no objects
	queues  *queues.Store    // nil: there are no annotation queues
	archive *archive.Archive // nil: there are no trajectories, or they are not open yet
	spool   string           // folder for temporary files; "": the system's
}

type namedStore struct {
	name string
	db   *store.DB
}

// open returns the databases of a running server.
func (r *records) open() *openStores {
	return &openStores{
		dbs:  []namedStore{{feedbackName, r.feedback}, {tracesName, r.traces}, {trajectoriesName, r.trajectories}},
		book: r.book, calls: r.calls, objects: r.objects, queues: r.queues, archive: r.archive, spool: r.spool,
	}
}

// openDirectory opens databases of these names in dir, which no server uses. A
// database that does not exist is left out.
func openDirectory(dir string, cfg func(dir string) store.Config, names ...string) (s *openStores, err error) {
	s = &openStores{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := s.add(name, cfg(path)); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if len(s.dbs) == 0 {
		return nil, fmt.Errorf("there is no database (%s) in %s", strings.Join(names, " or "), dir)
	}
	return s, nil
}

func (s *openStores) add(name string, cfg store.Config) error {
	db, err := store.Open(cfg)
	if err != nil {
		return err
	}
	s.dbs = append(s.dbs, namedStore{name, db})
	switch name {
	case feedbackName:
		s.book = feedback.New(db, feedback.DefaultConfig())
		return nil
	case tracesName:
		s.calls, s.objects, s.queues = calls.New(db), objects.New(db), queues.New(db)
		return nil
	}
	s.archive, err = archive.New(db, cfg.Log)
	return err
}

// Close closes databases that openDirectory opened.
func (s *openStores) Close() error {
	var err error
	if s.archive != nil {
		s.archive.Close()
	}
	for _, d := range s.dbs {
		err = errors.Join(err, d.db.Close())
	}
	return err
}

// backup writes all databases to w.
func (s *openStores) backup(w io.Writer) (damaged int, err error) {
	b := store.NewBackup(w)
	for _, d := range s.dbs {
		n, err := b.Add(d.name, d.db)
		damaged += n
		if err != nil {
			return damaged, err
		}
	}
	return damaged, b.Close()
}

// verify reads everything and writes to w what is damaged.
func (s *openStores) verify(w io.Writer) (damaged int, err error) {
	for _, d := range s.dbs {
		before := damaged
		report := func(fault any) {
			damaged++
			fmt.Fprintf(w, "%s: %v\n", d.name, fault)
		}
		rows, err := d.db.Verify(func(err error) { report(err) })
		if err != nil {
			return damaged, err
		}
		if err := s.check(d.name, func(what string) { report(what) }); err != nil {
			return damaged, err
		}
		for _, doubt := range d.db.Doubts() {
			fmt.Fprintf(w, "%s: possible loss, after a crash: %s\n", d.name, doubt)
		}
		fmt.Fprintf(w, "%s: %d keys are whole, %d faults\n", d.name, rows, damaged-before)
	}
	return damaged, nil
}

// check calls report with what is wrong with the indexes of a database.
func (s *openStores) check(name string, report func(what string)) error {
	switch name {
	case feedbackName:
		return s.book.Check(report)
	case tracesName:
		return errors.Join(s.calls.Check(report), s.objects.Check(report), s.queues.Check(report))
	}
	return nil
}

// export writes what the query selects: the trajectories of a model, if it names
// one, otherwise feedback.
func (s *openStores) export(w io.Writer, q url.Values) (damaged int, err error) {
	if q.Get("model") != "" {
		return 0, s.exportTrajectories(w, q)
	}
	return s.exportFeedback(w, q.Get("project"))
}

// exportFeedback writes feedback as JSON lines, of all projects or of one.
func (s *openStores) exportFeedback(w io.Writer, project string) (damaged int, err error) {
	if s.book == nil {
		return 0, errors.New("there is no feedback")
	}
	var line []byte
	err = s.book.Each(func(rec *feedback.Record) error {
		if project != "" && rec.Project != project {
			return nil
		}
		line = append(rec.AppendAll(line[:0]), '\n')
		_, err := w.Write(line)
		return err
	}, func([]byte, error) { damaged++ })
	return damaged, err
}

func (s *openStores) exportTrajectories(w io.Writer, q url.Values) error {
	if s.archive == nil {
		return errors.New("there are no trajectories")
	}
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
	model := q.Get("model")
	tenant, err := s.tenantOf(model, q.Get("tenant"))
	if err != nil {
		return err
	}
	return s.archive.View(tenant, func(v *archive.View) error {
		if err := v.Known(model); err != nil {
			return err
		}
		return export.Write(w, v, model, &f, export.Options{Format: export.Format(q.Get("format")), TempDir: s.spool})
	})
}

// tenantOf is the tenant that was asked for, or else the only one that has the
// model.
func (s *openStores) tenantOf(model, asked string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	tenants, err := s.archive.Tenants(model)
	switch {
	case err != nil:
		return "", err
	case len(tenants) > 1:
		return "", fmt.Errorf("several tenants have a model %s: say which with --tenant, %q", model, tenants)
	case len(tenants) == 1:
		return tenants[0], nil
	}
	return "", nil // the export says that there is no such model
}
