// Package store keeps records on disk such that nothing it has acknowledged is
// lost. It knows neither HTTP nor what the records mean.
//
// A DB is one badger database with one writer goroutine in front of it. Update
// hands the writer a function; the writer runs all that have come since its last
// commit in one transaction, which costs one sync of one file, and answers them when
// that is done. Readers see snapshots (View). What badger leaves open is done here:
//
//	log.go      badger stops replaying a log at the first record that is damaged and
//	            cuts off the rest: before a database is opened, damage in the middle
//	            of a log is copied aside, bridged and reported
//	sst.go      a damaged table ends the process, or compaction drops what stands
//	            behind the damage: tables are checked before, and mended
//	writer.go   a failed write leaves badger unusable: it is opened anew
//	sync.go     badger syncs more files than have changed, does not report a failed
//	            sync of its value log, and does not sync the directory of a new log
//	disk.go     badger writes through maps of sparse files: on a full disk that is a
//	            fatal signal, so writes are refused while there is little space left
//	journal.go  a transaction holds 15 % of a memtable: larger updates are written
//	            ahead and redone after a crash
//	tx.go       every value carries a checksum of its own, over its key too
//
// key.go builds keys, table.go rows with secondary indexes.
package store
