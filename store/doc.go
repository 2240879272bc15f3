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
//     in the middle of a memtable's log is found before (log.go), and damage in a value log is
//     copied aside, bridged and reported.
//   - A damaged table ends the process, or compaction drops what follows the damage. Tables
//     are checked before (sst.go).
//   - It believes whatever files it finds. An account of them is kept ("The account").
//   - After a failed write badger is unusable, so it is opened again (writer.go).
//   - badger syncs more files than have changed, does not sync the directory of a new log,
//     and only logs a failed sync of its value log (sync.go, unsynced.go).
//   - badger writes to mapped sparse files, where a full disk is a fatal signal. Updates are
//     refused while there is less space than Config.MinFree, and reads go on. It
//     writes much when it is closed, so with too little space it is not closed at all, and
//     when it is opened, so then it is opened for reading alone (reading.go). A file
//     reserved in advance would have to hold all memtables and the tables that badger
//     compacts on closing, more than 64 MiB for each database. Before badger moves the values
//     that are left in a value log, there has to be space for them (moving.go).
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
// # The account
//
// badger believes its files. Without its MANIFEST it deletes every table; of a MANIFEST or log
// that was cut it takes what is left for all there ever was. So the store keeps an account of
// its own beside it, in two synced files with checksums (account.go): which tables and logs
// there must be, how long they are, and how far the MANIFEST goes, with a checksum of all of
// it so far. It is written when a database is opened and closed, once a second while
// something changes, and before a value log is deleted, on a goroutine of its own
// (keeper.go). A commit only notes how far the log is synced. Before badger
// sees the files they are compared with it (audit.go), and if records are lost the database
// is not opened (ErrDamaged) before Repair has been called.
//
// The account has to be true at every moment, also between two of its writings and in the
// middle of anything that badger does. What badger changes in the meantime, and why
// that is no false alarm and hides nothing that the account knew:
//
//   - The MANIFEST is only appended to, so its beginning has the checksum of the account
//     for ever. It is synced before the account is written. badger writes it anew
//     after 10,000 deletions: then it begins with another set of changes, which is
//     believed only if the account had counted about so many deletions.
//   - Tables are written and synced before the MANIFEST lists them, and deleted after it has
//     ceased to. So exactly the tables that the MANIFEST lists must be there, whatever
//     the account knew. A table that it has never listed is the beginning of a
//     compaction or a flush, whose sources are still there; its records are looked for in the
//     database, and if they are not found the table is kept aside and reported.
//   - Memtables become tables in the order of their numbers, and each leaves one set of changes
//     of a kind of its own in the MANIFEST before its log is deleted. If there are n such
//     sets after the account, the first n logs that it lists may be gone, and no others.
//   - Value logs are deleted when a collection has moved their values. The account
//     says so before that can happen, and from then on the file may be there or not.
//   - Logs only grow, up to the end of their last record, where badger cuts them off. The
//     account has ends of records that were synced before it was written, so a loss of
//     power takes nothing that it lists.
//
// After a clean stop nothing changes, so every missing, emptied, cut or overwritten file is
// found, but for single values in older value logs, whose reading is an error. After
// a crash the same holds for everything up to the last account. What was written in the
// second after it may have been cut off without a trace; Doubts lists it.
//
// Files of versions without an account are taken as they are, if the MANIFEST is whole and
// lists every table. The account has the number of the format. A newer one is refused.
//
// Whoever reads gets everything or an error: a scan that meets a damaged value ends with
// ErrCorrupt, and a table or log with a damaged record is not opened. Until Repair is
// called, the loss of one record thus makes a database unavailable; that was preferred to
// answers that lack something.
//
// Repair (repair.go) copies all versions of all records, with deletions, under the version
// numbers that they have, to a new database, which thus takes the newest by itself. Tables
// that had been compacted away are left out, because compaction drops deletions. A record
// whose newest version has lost its value is left out too, lest an older one take its place.
//
// # Files
//
// manifest.go, account.go, keeper.go, audit.go, tidy.go and repair.go are described above.
// config.go has the configuration and the errors, db.go opening and closing, reading.go
// opening without space on the disk. writer.go has
// the writer's goroutine, batching.go how long it waits for more updates. gate.go lets the
// database be opened again between readers. tx.go has transactions, cursor.go iteration over
// keys, key.go the encoding of keys, and table.go rows with secondary indexes. prealloc.go
// halves the time of a sync, zeros.go passes quickly over the empty part of logs. maintain.go
// removes garbage, backup.go writes, restores and verifies backups.
package store
