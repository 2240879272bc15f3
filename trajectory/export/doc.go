// Package export writes selections of archived trajectories in the forms that
// trainers and analysts read (spec trajectories 13).
//
// Everything streams: memory holds one trajectory, or for Parquet one row group.
// Groups are never torn apart, and a selection is read from one snapshot.
package export
