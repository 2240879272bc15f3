// Package store keeps records on disk so that nothing it has acknowledged is lost. It
// knows neither HTTP nor what the records mean. Feedback and trajectories each have a
// database of their own, so that compacting one never delays the other.
//
//	db, err := store.Open(store.DefaultConfig(dir))
//	err = db.Update(ctx, func(tx *store.Tx) error { tx.Set(key, value); return nil })
//	err = db.View(func(r *store.Reader) error { value, err := r.Get(key); ... })
//
// # Group commit
//
// A [DB] is one badger database behind one writer goroutine. [DB.Update] hands a function
// to the writer. The writer takes all functions that wait, runs them in one transaction,
// makes that durable with one sync of one file, and then answers them all:
//
//	client A   Update ──┐                          ┌──▶ nil
//	client B   Update ──┼─▶ one transaction ─ sync ┼──▶ nil
//	client C   Update ──┘                          └──▶ nil
//
// So the number of updates in a commit follows the load, with nothing to tune. Readers
// ([DB.View]) see snapshots and wait for nobody.
//
// # What badger leaves open
//
// The version is badger v4.9.6. Each of these points is closed in the file that is named:
//
//   - badger stops replaying a log at the first damaged record and cuts off the rest. Damage
//     in the middle of a log is copied aside, bridged and reported before badger opens the
//     database (log.go).
//   - A damaged table ends the process, or compaction drops what follows the damage. Tables
//     are checked before, and repaired (sst.go).
//   - After a failed write badger is unusable, so it is opened again (writer.go).
//   - badger syncs more files than have changed, does not sync the directory of a new log,
//     and only logs a failed sync of its value log (sync.go, unsynced.go).
//   - badger writes to mapped sparse files, where a full disk is a fatal signal. Updates are
//     refused while there is less space than Config.MinFree, and reads go on.
//   - A transaction holds at most 15 % of a memtable. Larger updates go through a journal
//     (journal.go).
//   - Only its logs have checksums of single values. Here every value has one, over its key
//     too (tx.go).
//   - Its lock of the directory is released between a repair and the opening, and its error
//     is recognized only by its text. The lock is taken here (disk_unix.go).
//
// # Syncs
//
// On Linux badger runs without SyncWrites, and the store syncs what a commit has changed:
// the value log before any pointer to it is written, or a loss of power could leave a
// pointer to nothing in place of an older, acknowledged value; and the memtable's log before
// readers can see the commit. With SyncWrites badger syncs both files for each commit,
// which took one client 1.6 to 2.5 times as long, and 16 clients 1.6 to 1.9 times
// (BenchmarkUpdate on ext4).
//
// Both moments lie within badger's write, and badger v4.9.6 has no hook there. They are
// recognized by two messages of its debug log, which are checked after each commit. If one
// does not come, because another version of badger words it differently, the commit fails,
// and from then on badger runs with SyncWrites: slower, but with the same guarantees.
// TestOtherMessages proves that, and TestSyncsOfACommit fails after an upgrade that changes
// the messages. These were considered in place of the debug log:
//
//   - DB.Sync, or our own syncs, after the commit has returned. It is too late for both
//     moments: readers have seen the commit, and the kernel may have written the pointer
//     before the value. OpenManaged would hide a commit from readers until it is synced,
//     because the caller chooses the timestamps, but does not help with the order of the files.
//   - A file layer below badger. It calls the os package and mmap directly, and writes by
//     copying to mapped memory, so there is nothing to intercept.
//   - Finding out from the files what is dirty. Reading log headers tells what has to be
//     synced, and the preallocator does it, but not when.
//   - Options, Subscribe and the metrics of package y. Subscribers are called on another
//     goroutine, metrics are counters without callbacks, and the logger is the only
//     interface among the options.
//   - No value log, which leaves one file with one order. ValueThreshold is limited to 1 MiB
//     and to 15 % of a memtable, and compaction would copy every block of a trajectory at
//     each level.
//   - A fork of badger with a hook: ten lines to change, and all of badger to keep up to date.
//
// # Files
//
// config.go has the configuration and the errors, db.go opening and closing. writer.go has
// the writer's goroutine, batching.go how long it waits for more updates. gate.go lets the
// database be opened again between readers. tx.go has transactions, cursor.go iteration over
// keys, key.go the encoding of keys, and table.go rows with secondary indexes. prealloc.go
// halves the time of a sync, zeros.go passes quickly over the empty part of logs. maintain.go
// removes garbage, backup.go writes, restores and verifies backups.
package store
