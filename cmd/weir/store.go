package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"weir/calls"
	"weir/feedback"
	"weir/objects"
	"weir/queues"
	"weir/store"
	"weir/trajectory/export"
)

const storeAbout = `Looks after the records in a data directory: feedback, what Weave's clients store, and trajectories. It works while a server uses the directory, by asking that server, and without one. Only restore and repair need the server to be stopped.

  weir store backup  FILE   write everything to FILE, which must not exist; - is standard output
  weir store restore FILE   read FILE into a data directory without records; - is standard input
  weir store verify         read everything and report what is damaged
  weir store repair         rebuild damaged databases; the old folders are kept
  weir store export         print feedback as JSON, one record per line; with --calls, calls, and
                            with --model, trajectories`

// storeCommands are the words that follow weir store.
var storeCommands = []string{"backup", "restore", "verify", "repair", "export"}

// storeOptions are the flags of weir store. All but the first are for export.
type storeOptions struct {
	dir        string
	project    string
	calls      bool
	model      string
	tenant     string
	format     string
	splits     []string
	minVersion string
	maxVersion string
}

func (o *storeOptions) bind(f *flagSet, getenv func(string) string) {
	dataDirFlag(f, &o.dir, defaultDataDir(getenv), "`folder` with the records")
	f.group("Flags of export")
	f.StringVar(&o.project, "project", "", "export the feedback, or the calls, of this `project` only")
	f.BoolVar(&o.calls, "calls", false, "export calls, as /call/read answers them, instead of feedback")
	f.StringVar(&o.model, "model", "", "export the trajectories of this `model` instead of feedback. A model that a client has created may be named by its name, team/project/name, or its id")
	f.StringVar(&o.tenant, "tenant", "", "`tenant` that the trajectories belong to; it may be left out if only one tenant has the model")
	f.StringVar(&o.format, "format", string(export.JSONL), "`form` of trajectories: jsonl, jsonl-groups, parquet, art, verl, trl, verifiers or sft")
	f.StringArrayVar(&o.splits, "split", nil, "export only trajectories of this `split`; repeat it for several (default: all)")
	f.StringVar(&o.minVersion, "min-policy-version", "", "export only trajectories of this policy `version` and later ones")
	f.StringVar(&o.maxVersion, "max-policy-version", "", "export only trajectories of this policy `version` and earlier ones")
}

// selection checks what export was asked for and writes it as a query.
func (o *storeOptions) selection() (url.Values, error) {
	if !slices.Contains(export.Formats(), export.Format(o.format)) {
		return nil, fmt.Errorf("store export: there is no --format %s", o.format)
	}
	for name, version := range map[string]string{"min": o.minVersion, "max": o.maxVersion} {
		if _, err := strconv.ParseInt(version, 10, 64); version != "" && err != nil {
			return nil, fmt.Errorf("store export: --%s-policy-version %s is not a whole number", name, version)
		}
	}
	if o.calls && o.model != "" {
		return nil, errors.New("store export: --calls and --model are two exports")
	}
	q := url.Values{"project": {o.project}, "model": {o.model}, "tenant": {o.tenant}, "format": {o.format}, "split": o.splits,
		"min": {o.minVersion}, "max": {o.maxVersion}}
	if o.calls {
		q.Set("calls", "1")
	}
	return q, nil
}

func setupStore(f *flagSet, env *environment) action {
	o := &storeOptions{}
	o.bind(f, env.getenv)
	return func(args []string) error {
		name := ""
		if len(args) > 0 {
			name, args = args[0], args[1:]
		}
		want, ok := map[string]int{"backup": 1, "restore": 1, "verify": 0, "repair": 0, "export": 0}[name]
		switch {
		case !ok:
			return usageError{fmt.Errorf("store %s: want backup, restore, verify, repair or export; weir store --help", name)}
		case len(args) != want:
			return usageError{fmt.Errorf("store %s takes %d arguments, not %d", name, want, len(args))}
		case o.dir == "":
			return usageError{errors.New("store: --data-dir is missing")}
		}
		log, err := newLog(env.errOut, "warn")
		if err != nil {
			return err
		}
		t := &storeTool{dir: o.dir, config: func(dir string) store.Config {
			c := store.DefaultConfig(dir)
			c.Log, c.MaintainEvery = log, 0
			if filepath.Base(dir) == tracesName {
				c.ValueThreshold = calls.ValueThreshold
			}
			return c
		}}
		damaged := 0
		switch name {
		case "restore":
			return t.restore(args[0], env)
		case "repair":
			return t.repair(env.out)
		case "backup":
			damaged, err = t.backup(args[0], env)
		case "verify":
			damaged, err = t.ask("/verify", env.out, (*openStores).verify, storeNames...)
		case "export":
			damaged, err = t.export(o, env)
		}
		if err == nil && damaged > 0 {
			err = fmt.Errorf("store %s: %d faults", name, damaged)
		}
		return err
	}
}

// storeTool does the commands of weir store on a data directory.
type storeTool struct {
	dir    string
	config func(dir string) store.Config // of the database in dir
}

// backup writes all databases to a new file, or to standard output.
func (t *storeTool) backup(path string, env *environment) (damaged int, err error) {
	w := env.out
	if path != "-" {
		f, failed := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if failed != nil {
			return 0, failed
		}
		defer func() { err = errors.Join(err, f.Sync(), f.Close()) }()
		w = f
	}
	return t.ask("/backup", w, (*openStores).backup, storeNames...)
}

// export prints feedback, calls, or the trajectories of a model.
func (t *storeTool) export(o *storeOptions, env *environment) (damaged int, err error) {
	q, err := o.selection()
	if err != nil {
		return 0, usageError{err}
	}
	database := feedbackName
	switch {
	case o.model != "":
		database = trajectoriesName
	case o.calls:
		database = tracesName
	}
	export := func(s *openStores, w io.Writer) (int, error) { return s.export(w, q) }
	return t.ask("/export?"+q.Encode(), env.out, export, database)
}

// ask lets the server that uses the directory answer the query. If there is none, it
// opens these databases and lets here answer it.
func (t *storeTool) ask(query string, w io.Writer, here func(*openStores, io.Writer) (damaged int, err error), databases ...string) (damaged int, err error) {
	damaged, found, err := askServer(t.dir, query, w)
	if found {
		return damaged, err
	}
	s, err := openDirectory(t.dir, t.config, databases...)
	// A server that is just starting or stopping holds the lock without answering.
	for try := 0; try < 20 && errors.Is(err, store.ErrLocked); try++ {
		time.Sleep(50 * time.Millisecond)
		if damaged, found, err := askServer(t.dir, query, w); found {
			return damaged, err
		}
		s, err = openDirectory(t.dir, t.config, databases...)
	}
	if errors.Is(err, store.ErrLocked) {
		err = fmt.Errorf("%w, and it does not answer at %s", err, filepath.Join(t.dir, socketName))
	}
	if err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	damaged, err = here(s, buffered)
	return damaged, errors.Join(err, buffered.Flush(), s.Close())
}

// repair rebuilds the databases that are damaged, and says what was done.
func (t *storeTool) repair(w io.Writer) error {
	found := false
	for _, name := range storeNames {
		cfg := t.config(filepath.Join(t.dir, name))
		if _, err := os.Stat(cfg.Dir); errors.Is(err, os.ErrNotExist) {
			continue
		}
		found = true
		done, err := store.Repair(cfg)
		if errors.Is(err, store.ErrLocked) {
			err = fmt.Errorf("%w: stop the server first", err)
		}
		if err == nil && len(done.Faults) > 0 {
			err = mend(name, cfg)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		report := func(what string, list []string) {
			for _, line := range list {
				fmt.Fprintf(w, "%s: %s: %s\n", name, what, line)
			}
		}
		report("found", done.Faults)
		report("may be lost", done.Lost)
		if len(done.Faults) == 0 {
			fmt.Fprintf(w, "%s: nothing is damaged, %d keys\n", name, done.Rows)
			continue
		}
		fmt.Fprintf(w, "%s: repaired, %d keys; the folder as it was: %s\n", name, done.Rows, done.Aside)
	}
	if !found {
		return fmt.Errorf("there is no database in %s", t.dir)
	}
	return nil
}

// mend makes the indexes of a database agree with the records that are left, and lets sinks begin anew.
func mend(name string, cfg store.Config) error {
	if name == responsesName || name == batchesName {
		return nil // they have no indexes, and no sinks
	}
	db, err := store.Open(cfg)
	if err != nil {
		return err
	}
	switch name {
	case trajectoriesName:
		err = forgetChanges(db)
	case feedbackName:
		_, err = feedback.New(db, feedback.DefaultConfig()).Mend(context.Background())
		err = errors.Join(err, forgetChanges(db))
	default:
		for _, mend := range []func(context.Context) (int, error){calls.New(db).Mend, objects.New(db).Mend, queues.New(db).Mend} {
			_, failed := mend(context.Background())
			err = errors.Join(err, failed)
		}
	}
	return errors.Join(err, db.Close())
}

// restore reads a backup into new databases.
func (t *storeTool) restore(from string, env *environment) (err error) {
	r := env.in
	if from != "-" {
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		defer f.Close()
		r = f
	}
	opened := map[string]*store.DB{}
	defer func() {
		for _, db := range opened {
			err = errors.Join(err, db.Close())
		}
	}()
	rows, err := store.Restore(context.Background(), r, func(name string) (*store.DB, error) {
		if !slices.Contains(storeNames, name) {
			return nil, fmt.Errorf("%w: it has a database %q", store.ErrBackup, name)
		}
		db, err := store.Open(t.config(filepath.Join(t.dir, name)))
		if errors.Is(err, store.ErrLocked) {
			err = fmt.Errorf("%w: stop the server first", err)
		}
		if err == nil {
			opened[name] = db
		}
		return db, err
	})
	for _, name := range []string{feedbackName, trajectoriesName} {
		if db := opened[name]; db != nil && err == nil {
			err = forgetChanges(db)
		}
	}
	if err != nil {
		return fmt.Errorf("%w (%d keys were read)", err, rows)
	}
	fmt.Fprintf(env.out, "%d keys\n", rows)
	return nil
}
