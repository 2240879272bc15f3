// Package outbox keeps the order in which the records of a database changed, so that others can
// be told of every change once, in that order, whenever they can be reached.
//
//	log := outbox.New(db, 'f', true)
//	err := db.Update(ctx, func(tx *store.Tx) error { tx.Set(key, value); return log.Note(tx, false, ref) })
//	cursors, err := log.Open(ctx, "nats://localhost/WEIR")
//	entries, err := log.Read(cursors[0].State().Seq, 100)
//
// # Entries
//
// A change and its [Entry] are one update, so there is neither without the other. An entry
// names a record and its version. What the record says is read when a message is made of it
// ([Source]), so the log is small, nothing that was deleted stays in it, and a record that changed
// again before it was sent is sent once:
//
//	entry 7  record a, version 1     a has version 3 now: no message, entry 9 will have it
//	entry 8  record b is gone        a tombstone
//	entry 9  record a, version 3     the record
//
// An entry is a key without a value. An update that deletes and writes no value is allowed
// when the disk is nearly full, and has to stay so.
//
// # Cursors and snapshots
//
// A [Cursor] is how far one sink has come, on the disk. A sink that is new, or has missed so much
// that the log would grow beyond its bound, gets a snapshot: first the deletions that are in
// the log, then every record that is there, then what has changed since. So a bound costs no
// record and no deletion. Deletions are not counted in the bound: each stands for a record that took
// more room, and they are the only trace of it.
//
//	Seq ──── deletions only ──── Until │ all records │ ──── entries ────▶
//
// [Log.Trim] removes what no sink needs.
//
// # Epochs
//
// Numbers begin anew in a new database, and lose their meaning where entries are lost: after a
// restoration, a repair, or while changes were made that nobody noted. The log has a random name, its
// epoch, which then changes, and with it the ids of messages; every sink begins with a snapshot.
//
// # Alternatives
//
//   - Copies of the records in the log are simpler to send. They would double what is written, and
//     what has been erased would stay in them.
//   - badger's own versions are an order too, but reading them in that order takes a scan of the
//     whole database, and compaction drops deletions.
package outbox
