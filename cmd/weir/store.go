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
	"time"

	"github.com/spf13/pflag"

	"weir/store"
	"weir/trajectory/export"
)

const storeUsage = `weir store looks after the records in a data directory, with or without a server
that uses it.

  weir store backup  FILE   write everything to FILE, which must not exist; - is standard output
  weir store restore FILE   read FILE into a data directory without records; needs the server stopped
  weir store verify         read everything and report what is damaged
  weir store export         print feedback as JSON, a record a line; with --model trajectories, as --format says

`

// storeMain is weir store. It asks the server that uses the directory, and opens
// the directory itself only if there is none.
func storeMain(args []string, env func(string) string, in io.Reader, out, errOut io.Writer) (err error) {
	fs := pflag.NewFlagSet("weir store", pflag.ContinueOnError)
	fs.SetOutput(errOut)
	dir := fs.String("data-dir", defaultDataDir(env), "`folder` with the records")
	project := fs.String("project", "", "export: the records of one `project` only")
	model := fs.String("model", "", "export: the trajectories of this `model`, in place of feedback")
	tenant := fs.String("tenant", "", "export: whose they are; need not be said where one `tenant` alone has the model")
	format := fs.String("format", string(export.JSONL), "export: `form` of trajectories: jsonl, jsonl-groups, parquet, art, verl, trl, verifiers or sft")
	splits := fs.StringArray("split", nil, "export: trajectories of this `split`; repeat for more (default: all)")
	low := fs.String("min-policy-version", "", "export: trajectories of this policy `version` and later")
	high := fs.String("max-policy-version", "", "export: trajectories of this policy `version` and earlier")
	fs.Usage = func() { fmt.Fprint(out, storeUsage, fs.FlagUsages()) }
	rest, err := parse(fs, args, env)
	if err != nil {
		return err
	}
	name := ""
	if len(rest) > 0 {
		name, rest = rest[0], rest[1:]
	}
	want := map[string]int{"backup": 1, "restore": 1, "verify": 0, "export": 0}
	n, ok := want[name]
	switch {
	case !ok:
		return usageError{fmt.Errorf("store %s: want backup, restore, verify or export; weir store --help", name)}
	case len(rest) != n:
		return usageError{fmt.Errorf("store %s takes %d arguments, not %d", name, n, len(rest))}
	case *dir == "":
		return usageError{errors.New("store: --data-dir is missing")}
	}
	log, err := newLog(errOut, "warn")
	if err != nil {
		return err
	}
	cfg := func(dir string) store.Config {
		c := store.DefaultConfig(dir)
		c.Log, c.MaintainEvery = log, 0
		return c
	}
	damaged := 0
	switch name {
	case "restore":
		return restore(*dir, rest[0], cfg, in, out)
	case "backup":
		w := out
		if rest[0] != "-" {
			f, bad := os.OpenFile(rest[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if bad != nil {
				return bad
			}
			defer func() { err = errors.Join(err, f.Sync(), f.Close()) }()
			w = f
		}
		damaged, err = ask(*dir, "/backup", cfg, w, func(l *local, w io.Writer) (int, error) { return l.backup(w) })
	case "verify":
		damaged, err = ask(*dir, "/verify", cfg, out, func(l *local, w io.Writer) (int, error) { return l.verify(w) })
	case "export":
		if !slices.Contains(export.Forms(), export.Form(*format)) {
			return usageError{fmt.Errorf("store export: there is no --format %s", *format)}
		}
		q := url.Values{"project": {*project}, "model": {*model}, "tenant": {*tenant}, "format": {*format}, "split": *splits, "min": {*low}, "max": {*high}}
		damaged, err = ask(*dir, "/export?"+q.Encode(), cfg, out, func(l *local, w io.Writer) (int, error) { return l.export(w, q) })
	}
	if err == nil && damaged > 0 {
		err = fmt.Errorf("store %s: %d faults", name, damaged)
	}
	return err
}

// ask has the server do it that uses dir, or does it here.
func ask(dir, query string, cfg func(string) store.Config, w io.Writer, here func(*local, io.Writer) (int, error)) (damaged int, err error) {
	damaged, found, err := remote(dir, query, w)
	if found {
		return damaged, err
	}
	l, err := openLocal(dir, cfg)
	for try := 0; try < 20 && errors.Is(err, store.ErrLocked); try++ { // a server that starts, or stops
		time.Sleep(50 * time.Millisecond)
		if damaged, found, err := remote(dir, query, w); found {
			return damaged, err
		}
		l, err = openLocal(dir, cfg)
	}
	if errors.Is(err, store.ErrLocked) {
		err = fmt.Errorf("%w, and it does not answer at %s", err, filepath.Join(dir, socketName))
	}
	if err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	damaged, err = here(l, buffered)
	return damaged, errors.Join(err, buffered.Flush(), l.Close())
}

func restore(dir, from string, cfg func(string) store.Config, in io.Reader, out io.Writer) (err error) {
	r := in
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
		for _, known := range databases {
			if name != known {
				continue
			}
			db, err := store.Open(cfg(filepath.Join(dir, name)))
			if errors.Is(err, store.ErrLocked) {
				err = fmt.Errorf("%w: stop the server first", err)
			}
			if err == nil {
				opened[name] = db
			}
			return db, err
		}
		return nil, fmt.Errorf("%w: it has a database %q", store.ErrBackup, name)
	})
	if err != nil {
		return fmt.Errorf("%w (%d keys were read)", err, rows)
	}
	fmt.Fprintf(out, "%d keys\n", rows)
	return nil
}
