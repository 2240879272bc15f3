// Package calls keeps records of calls: what a function, an agent or a model was called
// with, what it returned, when, and what it called in turn. They are the calls of W&B Weave,
// whose clients work with them unchanged. The package reads and checks requests, carries
// them out on a database of package store, and answers queries. It knows no HTTP. The rules
// are in docs/interface/weave.md, section 2.
//
//	s := calls.New(db)
//	request, err := calls.DecodeRequest(ctx, body, calls.FormUpsert, "")
//	answer, err := s.Write(ctx, author, request)      // on stable storage
//	err = s.Complete(ctx, author, []calls.Complete{…})  // without a request
//	call, err := s.Get(project, id)
//
// # Records
//
// A [Record] is a view over its stored bytes, so that a query can look at a column of many
// records without decoding the others (record.go). JSON is kept as the text that was sent,
// without white space between tokens.
//
// A call comes in parts: its start, its end, a new display name. Clients send them from
// several threads, so any of them may come first, and twice. [Change] is one part, and
// Change.apply is what it makes of the record that is there (change.go). A record whose
// start has not come waits, invisible, and one whose call was deleted stays for three days
// without its content, so that an end that comes late does not bring it back.
//
// # Keys
//
//	'A' project id                              the record
//	'B' project            started_at id        all calls of the project
//	'C' project op_name    started_at id        and likewise 'D' trace_id, 'E' parent_id
//	                                            ("" of roots), 'F' status, 'G' thread_id
//	'H' project            written id           records that wait for their start
//	'K' project                                 how many bytes its records take
//
// As with feedback every entry ends with the time and the id. So the entries of one value
// are in the order of time, and those of several can be intersected without reading records.
// Unlike feedback's, records change: the end of a call moves it from one status to another.
//
// # Writing fast
//
// The writer of a database is one goroutine for all requests, so as much as possible is done
// before: a request is decoded in one pass over its text after the scan, its parts are put
// together by calls, and each is encoded with its index entries as if nothing were there yet,
// which is the usual case (write.go). The writer then looks whether something is there. On
// two processors 20,000 calls per second of 1.4 KB are acknowledged in batches of 100 from
// eight clients; of the time in the server a tenth is spent in this package, and the rest in
// badger, whose compaction is what limits it.
//
// The count of bytes by projects is a key of its own that each update reads and writes, so it
// is exact after a crash, and an update pays for it once and not for each call.
package calls
