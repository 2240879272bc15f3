// Package export writes selections of archived trajectories in the formats that trainers and
// analysts read (docs/interface/trajectories.md, section 13): JSONL, the JSONL and Parquet
// files of OpenPipe ART, and the inputs of verl, TRL, verifiers and supervised fine-tuning.
//
//	err := archive.View(tenant, func(v *archive.View) error {
//		return export.Write(w, v, model, filter, export.Options{Format: export.Parquet})
//	})
//
// [Write] visits the batches of a model in one snapshot. A textVisitor reads the text of each
// group and each selected trajectory and passes it to the sink of the format:
//
//	archive.Contents.Visit -> textVisitor -> jsonlSink | groupSink | sampleSink | parquetSink -> w
//
// Everything is streamed: a trajectory is in memory, or for Parquet a row group of 32 MiB of
// texts. Groups are never divided. After an error w has only a part of the selection, so the
// server cuts the connection.
//
// The format art is a tar with a Parquet file for each split and step. A tar has the size of a
// file before its content, so tree.go first finds the groups of each file from the rows of the
// archive, then writes one file at a time to a temporary file and copies it.
//
// Texts are copied, not decoded and encoded again, wherever the format has them as JSON. The
// columns without bounds (parquet.go) make files smaller and faster to write: parquet-go
// writes the least and greatest value of a page in full.
//
// The tests rebuild groups from Parquet files as ART's reader does; make parquet-check reads
// the files with pyarrow and DuckDB.
package export
