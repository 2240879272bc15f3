// Package feedback keeps records of feedback: reactions, notes, ratings and scores that
// people and programs attach to what a model did. It reads and checks the requests of
// docs/interface/feedback.md, carries them out on a database of package store, and answers
// queries. It knows no HTTP.
//
//	s := feedback.New(db, feedback.DefaultConfig())
//	request, err := feedback.DecodeRequest(ctx, body, feedback.Create)   // form: Invalid, a 422
//	answer, err := s.Create(ctx, author, request, feedback.Once{})  // meaning: Refusal, a 400
//	query, err := s.DecodeQuery(ctx, body, feedback.ForQuery, false)
//	err = s.Query(ctx, query, w)                                    // streams the answer
//
// A request goes through three steps. Decoding finds everything that is wrong with its
// form ([Invalid]). [Config.Check] applies the rules of meaning and stops at the first
// one that is broken ([Refusal]). [Store] carries it out: all its writes return when they
// are on stable storage. A payload is kept as the text that was sent, without the white
// space between tokens, so numbers and escapes come back as they were.
//
// # Keys
//
// A record is one row, and has an entry in the index of time and in one for each of the
// columns that people filter by (index.go):
//
//	'r' project id                               the record
//	't' project            created_at id         all records of the project
//	'f' project trace_ref  created_at id         and likewise 'c' call_ref, 'q' queue_id,
//	                                             'u' platform_user_id, 'y' feedback_type
//
// Because every entry ends with created_at and id, the entries of one value are in the
// default order of a query. Such a position, 24 bytes, is all that a query needs to
// count a record, to skip it, or to find it in another index.
//
// # How a query is answered
//
// plan.go divides an expression into conditions that keys decide (an indexed column equals
// a value or one of several, bounds of created_at, anything about created_at and id) and
// conditions that need the record. Take
//
//	{"$and": [{"$eq":  [{"$getField": "feedback_type"}, {"$literal": "wandb.note.1"}]},
//	          {"$eq":  [{"$getField": "queue_id"},      {"$literal": "q7"}]},
//	          {"$gte": [{"$getField": "created_at"},    {"$literal": "2026-03-01"}]},
//	          {"$gt":  [{"$getField": "payload.score"}, {"$literal": 0.5}]}]}
//
// for the project acme/support. Its plan is
//
//	from    2026-03-01T00:00:00.000Z
//	sets    'q' acme/support q7             leads, because queues are more selective
//	        'y' acme/support wandb.note.1   follows
//	onRows  payload.score > 0.5
//
// walk.go reads the first position of q7 from March 1st on. It moves the cursor of
// wandb.note.1 to the first position that is not before it, then that of q7 to where the
// other one is, and so on; where both meet, the record is read for payload.score. Without
// the last condition only the records of the page would be read. A condition with several
// values ($in, $or) is the union of their entries, merged from up to 16 cursors or sorted
// in memory.
//
// Orders that do not begin with created_at are sorted in memory (sort.go): positions and
// sort keys of the records up to the end of the page, at most 200,000.
//
// # Blocks of counts
//
// The answer has a total, and a page may begin far down. So that neither reads all keys
// each time, counts.go remembers how many records match a plan from one millisecond to
// another, in blocks of 512 keys or more. Queries add blocks as they count. They are exact:
// records are never changed in place, a deletion is noted before it commits, and no block
// reaches the newest record, after which all new ones come. Blocks are in memory alone, so
// after a start the first query of a plan counts its keys.
//
// # How long a query takes
//
// A legal query can read a million records, and evaluate a thousand nodes on a payload of a
// megabyte. Nothing bounds its time. Instead everything that it does is counted on a meter
// (package pace): keys, rows, bytes of payloads, comparisons of a sort. So it ends soon
// after its context has, also within one record or one large body, and whoever started it can let it take turns
// with others. Memory and the size of one step are bounded: [Config.DecodeQuery] refuses
// more fields, orders, nodes and elements, and rows are written in parts. An $in is looked
// up in a set, and texts are searched in linear time (package internal/query).
//
// A reader never keeps anybody from writing. It holds the positions of one millisecond at
// most, besides what is sorted, and stops when its client leaves.
//
// # Rewards
//
// A record of the type "reward" sets the reward of a recorded chat completion, which is in
// another database (package trajectory/archive). The update that writes the record also
// writes a note of it, under tenant and completion. Package server reads the notes
// ([Store.Rewards], [Store.MoreRewards]), sets the rewards and removes the notes
// ([Store.Settle]). Setting a reward twice does no harm, so a crash in between costs
// nothing.
//
// # Alternatives
//
//   - Reading every record that matches, for the total and the offset, was the first
//     version. Blocks and intersections of keys made the first page of one user's records
//     801 -> 1.8 ms and a count of all 31 -> 0.5 ms (100,000 records, over HTTP).
//   - Counters on disk would slow down every write, and they know no combinations of
//     conditions.
//   - Reading rewards out of feedback whenever trajectories are queried would tie every
//     read of one database to the other.
//
// # Files
//
// decode.go, ref.go, rules.go, types.go and emoji.go read and check requests; weave.go has
// the columns that only the clients of W&B Weave know. record.go is a record on disk and as
// JSON. store.go, write.go, delete.go and reward.go change records, index.go keeps the
// indexes. expr.go says what names stand for in expressions, which package
// internal/query reads and evaluates. query.go, plan.go, walk.go,
// iterator.go, page.go, counts.go and sort.go answer queries; stats.go, schema.go and
// export.go are the other ways to read.
//
// The tests compare queries between random writes with a reference implementation that
// filters and sorts all records (reference_test.go), and kill a process that writes
// (crash_real_test.go).
package feedback
