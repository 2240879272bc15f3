package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"weir/feedback"
)

// schema has the same columns and indexes as weir: a primary key, and for every filter an
// index that ends in the time, by which answers are sorted.
const schema = `
CREATE TABLE feedback (
	project TEXT NOT NULL, id TEXT NOT NULL, trace_ref TEXT NOT NULL, user TEXT NOT NULL, creator TEXT, created_at INTEGER NOT NULL,
	type TEXT NOT NULL, payload TEXT NOT NULL, annotation_ref TEXT, runnable_ref TEXT, call_ref TEXT, trigger_ref TEXT, queue TEXT,
	PRIMARY KEY (project, id)) WITHOUT ROWID;
CREATE INDEX by_time ON feedback (project, created_at, id);
CREATE INDEX by_ref ON feedback (project, trace_ref, created_at, id);
CREATE INDEX by_type ON feedback (project, type, created_at, id);
CREATE INDEX by_user ON feedback (project, user, created_at, id);
CREATE INDEX by_queue ON feedback (project, queue, created_at, id) WHERE queue IS NOT NULL;`

// db writes through one connection, because SQLite has one writer.
type db struct {
	cfg                                         feedback.Config
	sql                                         *sql.DB
	conn                                        *sql.Conn
	write                                       sync.Mutex // protects the connection and the fields below it
	begin, commit, back, exists, remove, insert *sql.Stmt
	newest                                      int64

	grouped bool
	wait    struct {
		sync.Mutex
		list []*job
	}
}

type job struct {
	user   string
	r      *feedback.Request
	answer []byte
	done   chan error
}

func open(path string, grouped bool) (*db, error) {
	pool, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=10000")
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	d := &db{cfg: feedback.DefaultConfig(), sql: pool, grouped: grouped}
	if d.conn, err = pool.Conn(ctx); err != nil {
		return nil, err
	}
	if _, err := d.conn.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	var mode string
	var sync int
	if err := errors.Join(d.conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode), d.conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&sync)); err != nil {
		return nil, err
	}
	if mode != "wal" || sync != 2 {
		return nil, fmt.Errorf("journal mode %s, synchronous %d", mode, sync)
	}
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&d.begin, "BEGIN IMMEDIATE"}, {&d.commit, "COMMIT"}, {&d.back, "ROLLBACK"},
		{&d.exists, "SELECT 1 FROM feedback WHERE project = ? AND id = ?"},
		{&d.remove, "DELETE FROM feedback WHERE project = ? AND id = ?"},
		{&d.insert, "INSERT INTO feedback VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
	} {
		if *s.stmt, err = d.conn.PrepareContext(ctx, s.text); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *db) Close() error { return errors.Join(d.conn.Close(), d.sql.Close()) }

func (d *db) Replace(_ context.Context, a feedback.Author, r *feedback.Request, _ feedback.Once) ([]byte, error) {
	if err := d.cfg.Check(r); err != nil {
		return nil, err
	}
	j := &job{user: a.User, r: r, done: make(chan error, 1)}
	if !d.grouped {
		d.write.Lock()
		defer d.write.Unlock()
		err := d.group([]*job{j})
		return j.answer, err
	}
	d.wait.Lock()
	d.wait.list = append(d.wait.list, j)
	d.wait.Unlock()
	// The request that gets the lock commits all that wait.
	d.write.Lock()
	d.wait.Lock()
	list := d.wait.list
	d.wait.list = nil
	d.wait.Unlock()
	if len(list) > 0 {
		_ = d.group(list) // each job gets the error
	}
	d.write.Unlock()
	err := j.err()
	return j.answer, err
}

func (j *job) err() error { return <-j.done }

// group runs jobs in one transaction and gives each the result.
func (d *db) group(list []*job) (err error) {
	defer func() {
		for _, j := range list {
			j.done <- err
		}
	}()
	if _, err = d.begin.Exec(); err != nil {
		return err
	}
	for _, j := range list {
		if err = d.replace(j); err != nil {
			_, undo := d.back.Exec()
			return errors.Join(err, undo)
		}
	}
	_, err = d.commit.Exec()
	return err
}

var errConflict = errors.New("id already exists")

func (d *db) replace(j *job) error {
	r := j.r
	id := r.ID
	if id == "" {
		id = newID()
	}
	if r.Replaces != "" {
		if _, err := d.remove.Exec(r.Project, r.Replaces); err != nil {
			return err
		}
	}
	if id != r.Replaces {
		var one int
		switch err := d.exists.QueryRow(r.Project, id).Scan(&one); {
		case err == nil:
			return errConflict
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	d.newest = max(time.Now().UnixMilli(), d.newest+1)
	rec := r.Record(id, j.user, d.newest)
	_, err := d.insert.Exec(rec.Project, rec.ID, rec.TraceRef, rec.User, rec.Creator, rec.CreatedAt, rec.Type, string(rec.Payload),
		rec.Refs.Annotation, rec.Refs.Runnable, rec.Refs.Call, rec.Refs.Trigger, rec.Queue)
	j.answer = rec.AppendReceipt(nil, r.Dialect)
	return err
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x70, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
