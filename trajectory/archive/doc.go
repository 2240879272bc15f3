// Package archive keeps logged trajectories on a store: whole batches or
// nothing, exactly as they were spelt.
//
// A batch is what one log request brought. While it arrives it is staged: three
// streams of bytes, each cut into compressed blocks, under the id of the upload.
//
//	texts    the trajectories and, behind those of each group, the group
//	rows     one record per trajectory: its facts and where its text is
//	groups   one record per group: what belongs to it, and where its text is
//
// Nobody sees any of it until one update writes the batch's header (T-22,
// decision 13). A header holds bounds of what the rows say, so that a query passes
// over batches, then over rows, and reads only the texts that it returns.
//
// What was staged and never became visible has a marker that was written with
// its first block, and what was deleted gets one with the header's removal; a
// sweeper removes what markers name, also after a crash. To change a batch is to
// stage it anew and to swap the headers.
//
//	archive.go   opening, the sweeper      upload.go   writing
//	key.go       keys and ids              view.go     reading
//	header.go    headers, receipts         filter.go   which trajectories
//	block.go     streams of blocks         edit.go     deleting, setting rewards
//	row.go       records                   call.go     recorded chat completions
package archive
