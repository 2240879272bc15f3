// Package store will persist feedback and trajectory logs on badger: one writer,
// group commit, fsync before acknowledgement. Nothing is here yet.
package store
