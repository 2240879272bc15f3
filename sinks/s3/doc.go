// Package s3 stores messages as Parquet files in an object store that speaks Amazon S3's protocol.
//
//	s, err := s3.New("s3://bucket/prefix?endpoint=http://localhost:9000", os.Getenv)
//
// A file has a range of entries of one kind of record, and its name is that of the range, which is decided
// and on the disk before the file is written (package sinks). So a file that is written a second time after a crash
// takes the place of the first. A range is complete when its manifest is there, which is written last and
// names its files with their sums; a file that no manifest names does not count.
//
// Only PUT is needed, so requests are signed here (AWS's Signature Version 4) and sent with net/http: SDKs of S3
// have megabytes of code for all the rest.
package s3
