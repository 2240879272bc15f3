// Package archive keeps logged trajectories (docs/interface/trajectories.md) on a database
// of package store. What one log request brought is a batch. It is stored whole or not at
// all, and its texts are kept exactly as they were sent, except for white space between
// tokens. The package knows no HTTP.
//
//	u, err := a.Begin(ctx, tenant, model)        // an Upload is a trajectory.Sink
//	defer u.Abort()                              // does nothing after Commit
//	end, err := trajectory.Read(body, limits, u)
//	receipt, err := u.Commit(archive.Meta{Split: end.Split, Step: end.Step, Bytes: end.Bytes})
//
//	err = a.View(tenant, func(v *archive.View) error {       // one snapshot
//		return v.Batches(model, archive.ID{}, false, func(b *archive.Batch) bool {
//			err := v.Open(b).Visit(filter, visitor)
//			...
//
// # An upload, from its first block to a visible header
//
// A log request may have gigabytes. It passes through memory as three streams:
//
//	texts    the trajectories of a group, then the rest of the group, then the next group
//	rows     a record for each trajectory: its facts (reward, versions, metrics, metadata,
//	         finish reasons), and where its text is; about a hundred bytes
//	groups   a record for each group, and where its text is
//
// Each stream is cut into blocks of 256 KiB, which are compressed with zstd. When about
// 1 MiB of them is ready, one update hands them to the store, which writes them while the
// next ones are being compressed. An upload of 3 MiB of compressed texts writes these keys:
//
//	1st update   'U' upload                   the marker
//	             'D' upload texts 0 ... 4     blocks
//	2nd          'D' upload texts 5 ... 9
//	Commit       'D' upload texts 10 ... 12, rows 0, groups 0
//	             'B' tenant model id          the header: the batch is visible
//	             'I' tenant model key-hash    the receipt, if there is an Idempotency-Key
//	             'C' tenant call              an entry for each recorded completion
//	             removes 'U' upload
//
// Until the last update nobody sees anything of it. That update also checks the
// Idempotency-Key, and gives the batch its id and its time, in the order of commits. If the
// upload ends in any other way, the marker is there, and a goroutine, the sweeper, removes
// the blocks that it names and then the marker; after a crash at the next start.
//
// # Changing and deleting
//
// To delete a batch is to remove its header and to set the marker of its upload. To change
// it (to delete some of its trajectories, or to set rewards) is to stage it again and to
// swap the header in one update, which fails with [ErrChanged] if another change was
// faster. So a reader sees the old batch or the new one, and what was deleted does not stay
// on the disk.
//
// # Queries
//
// A header has bounds of what is in the rows: times, split, versions, rewards. A query
// passes over the headers of a model, then over the rows of the batches that may match, and
// reads only the texts that it returns. There are no indexes of facts. So there is nothing
// to keep consistent, every condition can be combined with every other, and a million rows
// still take only a fraction of a second. Metadata values of 128 bytes or more are hashed in
// rows.
//
// # Rewards
//
// A chat completion that was recorded has an index entry, which leads to its batch and
// group. [Archive.RewardCalls] sets rewards by it: package server passes on those that come
// as feedback. Setting a reward that is set already changes nothing and costs no copy, so
// the server may repeat it after a crash.
//
// # Alternatives
//
//   - Decoding trajectories and encoding them again would not keep numbers, escapes and the
//     order of members.
//   - Indexes on rewards, metrics and metadata would have to be written with every upload
//     and removed with every deletion, and would answer only some combinations.
//
// # Files
//
// archive.go opens and closes the archive; sweep.go is the sweeper. upload.go writes batches,
// staging.go reserves the memory for that,
// rewrite.go changes them, delete.go, expire.go and reward.go use that. call.go is the index
// of recorded completions. view.go reads batches and contents.go what is in them, as
// filter.go selects. key.go, header.go, block.go, row.go and record.go are the format on
// disk.
package archive
