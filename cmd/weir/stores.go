package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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
		dbs:  []namedStore{{feedbackName, r.feedback}, {tracesName, r.traces}, {trajectoriesName, r.trajectories}, {responsesName, r.responsesDB}, {batchesName, r.batchesDB}},
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
	case responsesName, batchesName:
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

// export writes what the query selects: the trajectories of a model, if it names one, calls, or
// otherwise feedback.
func (s *openStores) export(w io.Writer, q url.Values) (damaged int, err error) {
	switch {
	case q.Get("model") != "":
		return 0, s.exportTrajectories(w, q)
	case q.Get("calls") != "":
		return s.exportCalls(w, q.Get("project"))
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

// exportCalls writes calls as JSON lines, of all projects or of one.
func (s *openStores) exportCalls(w io.Writer, project string) (damaged int, err error) {
	if s.calls == nil {
		return 0, errors.New("there are no calls")
	}
	var line []byte
	err = s.calls.Each(func(rec *calls.Record) error {
		if project != "" && rec.Text(calls.Project) != project {
			return nil
		}
		line = append(rec.AppendJSON(line[:0], calls.NoSizes), '\n')
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
	tenant, model, err := s.modelOf(q.Get("model"), q.Get("tenant"))
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

// modelOf finds the model that was asked for: one with batches under this name, or else one
// that a client has created with it. Without a tenant there has to be one tenant alone that has it.
func (s *openStores) modelOf(name, asked string) (tenant, model string, err error) {
	tenants, err := s.archive.Tenants(name)
	if err != nil {
		return "", "", err
	}
	switch {
	case asked != "" && slices.Contains(tenants, asked):
		return asked, name, nil
	case asked == "" && len(tenants) > 1:
		return "", "", fmt.Errorf("several tenants have a model %s: say which with --tenant, %q", name, tenants)
	case asked == "" && len(tenants) == 1:
		return tenants[0], name, nil
	}
	created, err := s.archive.Named(name)
	if err != nil {
		return "", "", err
	}
	created = slices.DeleteFunc(created, func(m archive.Owned) bool { return asked != "" && m.Tenant != asked })
	switch len(created) {
	case 0:
		return asked, name, nil // the export says that there is no such model
	case 1:
		return created[0].Tenant, created[0].ID, nil
	}
	var all []string
	for _, m := range created {
		all = append(all, fmt.Sprintf("%s of the tenant %q (%s)", m.Names()[1], m.Tenant, m.ID))
	}
	return "", "", fmt.Errorf("several models have the name %s: say which, by team/project/name or by id, and --tenant: %s", name, strings.Join(all, ", "))
}
