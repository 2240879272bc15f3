// Package ratelimit counts what is done with each key, and refuses what goes beyond the key's
// limits ([auth.Limits]):
//
//	limiter, err := ratelimit.Open(ratelimit.Config{Dir: dir})
//	ticket, err := limiter.Admit("ci", limits, ratelimit.Asked{Tokens: bytes/ratelimit.BytesPerToken}) // err is an *Exceeded: when to come again
//	err = ticket.Correct(tokens)      // what the prompt and the output really may take
//	ticket.Done(used)                 // what they took
//
// The package does not know HTTP, and waits for nothing. A request is admitted by all limits of its
// key or by none, so that one which is refused takes nothing from the others.
//
// # Requests and tokens per minute
//
// Each of the two is a token bucket, as Anthropic and OpenAI describe theirs: it begins full with the
// limit, and is filled at an even pace, by the whole limit in a minute. So a key that was silent may
// do at once what it may do in a minute. What is asked for more than a full bucket has passes when the
// bucket is full, and leaves it in debt.
//
// # Tokens per day
//
// A day is one of UTC. What was used in it is kept in a ledger of package usage, a folder for each
// day, and those of the days before yesterday are removed. The ledger writes within 100 ms, so that the end of a
// process, however it comes, forgets no more than that. A request counts for the day on which it ends.
//
// # Tokens are reserved before they are counted
//
// What a prompt comes to is known only when it has been tokenized, and what an output comes to only
// when it has ended. So tokens are reserved by the length of the request first, then as many as the
// prompt has and the output may have, and at the end there is taken what it had. What was reserved in
// vain is given back at once.
//
// # Files
//
// limiter.go has the Limiter and its tickets, bucket.go the buckets, day.go the days.
package ratelimit
