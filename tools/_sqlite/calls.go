package main

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"weir/calls"
)

// callSchema has the columns of a call that clients send, and the indexes that weir has: for
// every filter one that ends in the start, by which answers are sorted.
const callSchema = `
CREATE TABLE calls (
	project TEXT NOT NULL, id TEXT NOT NULL, op_name TEXT NOT NULL, trace_id TEXT NOT NULL, parent_id TEXT, thread_id TEXT, display_name TEXT, user TEXT,
	started_at INTEGER NOT NULL, ended_at INTEGER, status TEXT NOT NULL, exception TEXT, attributes TEXT, inputs TEXT, output TEXT, summary TEXT,
	PRIMARY KEY (project, id)) WITHOUT ROWID;
CREATE INDEX calls_by_time ON calls (project, started_at, id);
CREATE INDEX calls_by_op ON calls (project, op_name, started_at, id);
CREATE INDEX calls_by_trace ON calls (project, trace_id, started_at, id);
CREATE INDEX calls_by_parent ON calls (project, parent_id, started_at, id);
CREATE INDEX calls_by_status ON calls (project, status, started_at, id);
CREATE INDEX calls_by_thread ON calls (project, thread_id, started_at, id) WHERE thread_id IS NOT NULL;`

// callKeeper stores calls that have ended: it returns once they are on the disk.
type callKeeper interface {
	Complete(ctx context.Context, r *calls.Request) error
}

// weirCalls are calls on weir's store.
type weirCalls struct{ *calls.Store }

func (w weirCalls) Complete(ctx context.Context, r *calls.Request) error {
	_, err := w.Write(ctx, calls.Author{User: "anonymous"}, r)
	return err
}

// callDB writes calls to SQLite, in the transactions of a db.
type callDB struct {
	*db
	insert *sql.Stmt
	wait   struct {
		sync.Mutex
		list []*callJob
	}
}

type callJob struct {
	r    *calls.Request
	done chan error
}

func openCalls(d *db) (*callDB, error) {
	ctx := context.Background()
	if _, err := d.conn.ExecContext(ctx, callSchema); err != nil {
		return nil, err
	}
	insert, err := d.conn.PrepareContext(ctx, "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
	return &callDB{db: d, insert: insert}, err
}

// Complete writes a batch in a transaction of its own, or together with all that wait.
func (d *callDB) Complete(_ context.Context, r *calls.Request) error {
	j := &callJob{r: r, done: make(chan error, 1)}
	if !d.grouped {
		d.write.Lock()
		defer d.write.Unlock()
		d.group([]*callJob{j})
		return <-j.done
	}
	d.wait.Lock()
	d.wait.list = append(d.wait.list, j)
	d.wait.Unlock()
	d.write.Lock()
	d.wait.Lock()
	list := d.wait.list
	d.wait.list = nil
	d.wait.Unlock()
	if len(list) > 0 {
		d.group(list)
	}
	d.write.Unlock()
	return <-j.done
}

// group runs jobs in one transaction and gives each the result.
func (d *callDB) group(list []*callJob) {
	err := d.all(list)
	for _, j := range list {
		j.done <- err
	}
}

func (d *callDB) all(list []*callJob) error {
	if _, err := d.begin.Exec(); err != nil {
		return err
	}
	for _, j := range list {
		for _, c := range j.r.Changes {
			if err := d.put(c.Record()); err != nil {
				_, undo := d.back.Exec()
				return errors.Join(err, undo)
			}
		}
	}
	_, err := d.commit.Exec()
	return err
}

func (d *callDB) put(r *calls.Record) error {
	text := func(c calls.Column) any {
		if !r.Has(c) {
			return nil
		}
		return string(r.Bytes(c))
	}
	_, err := d.insert.Exec(text(calls.Project), text(calls.ID), text(calls.OpName), text(calls.TraceID), text(calls.ParentID), text(calls.ThreadID), text(calls.DisplayName),
		"anonymous", r.Started, r.Ended, r.Status.String(), text(calls.Exception), text(calls.Attributes), text(calls.Inputs), text(calls.Output), text(calls.Summary))
	return err
}
