// Package queues keeps annotation queues: lists of calls that people are asked to annotate,
// and how far each annotator has come. They are the queues of W&B Weave, whose clients work
// with them unchanged. It knows no HTTP. The rules are in docs/interface/weave.md, section 4.
//
//	s := queues.New(db)
//	request, err := queues.DecodeCreate(ctx, body)
//	id, err := s.Create(ctx, user, request)            // on stable storage
//	err = s.WriteItems(ctx, query, w)                  // streams the answer
//
// # Keys
//
//	'U' project queue        a queue, with the numbers of its items
//	'V' project queue item   an item: a call, and the progress of each annotator
//	'W' project queue call   which item a call is, so that no call is added twice
//
// Ids of items sort by the time at which they were added, and within one request by the order
// of its calls (Store.moment). So the keys of the items are in the default order of a query,
// and only other orders are sorted in memory.
//
// The numbers of items and of finished items are kept in the record of the queue and written
// in the update that changes an item, so statistics read one record for each queue. The
// progress of all annotators is in the record of the item: an update that moves one of them
// from one state to another, and the number of finished items with it, is one update.
//
// A queue that is deleted is first marked, which takes it out of all answers, and then
// removed in pieces with its items. Sweep finishes what a crash has interrupted.
package queues
