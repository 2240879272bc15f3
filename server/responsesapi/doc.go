// Package responsesapi is OpenAI's newer interface, POST /v1/responses and what belongs to it,
// as another form of chat completions ([openai.Surface]). docs/interface/responses-api.md has
// its rules.
//
//	body ─▶ decode ─▶ conversation ─▶ body of a chat completion      request.go, tools.go, items.go, translate.go
//	response or events ◀─ answer ◀─ thoughts, text, calls            answer.go, output.go, custom.go
//	                         └─▶ Store: what a later request continues   keep.go, record.go, store.go
//
// # What the two interfaces do not share
//
// What a model writes in one turn is one message of a chat, and here several items: a
// reasoning item, a message, calls. conversation puts such items together again.
//
// Tools are flat in a chat and have JSON schemas. A tool of a namespace is shown as a function
// whose name begins with that of the namespace. A custom tool, whose input is a text, is shown
// as a function with one parameter, and inputText takes its text out of the JSON as it is
// generated, so that streams show it at once.
//
// # Turns
//
// A response that is kept has the tokens of its prompt and of its output. A request that
// continues it begins with exactly these (package openai, Past), so that nothing is tokenized
// twice, and the prefix cache has them. The messages are kept beside them, for what comes after
// the tokens to be rendered, and for the case that tools or instructions have changed, which
// stand in front of everything.
//
// # In the background
//
// A response in the background is prepared twice: as a trial, so that what is wrong with its request is
// said at once, and when its turn has come. In between there is only what is on disk: the
// response as it was queued, and the body of the request. The request is then served as any other, with
// a form (runAnswer) that appends its events to a job instead of a connection. Clients read the events
// of the job (follower), and those of one that has ended from the disk.
//
//	queuedAnswer ─▶ Store ─▶ jobs ─▶ run ─▶ runAnswer ─▶ job ─▶ follower      background.go, jobs.go, job.go
//	                  ◀──────────────────────────┘ the end, in one update     store_jobs.go
//
// Keeping the prepared request between the two would save a preparation, but hold the memory of all that
// waits, and would not survive a restart.
//
// # What was considered in keeping turns
//
// Walking back from response to response would store each turn once, where now each response
// has all messages before it. But then deleting one would end all conversations that go on from
// it, and dropping the oldest of a project would do so, too.
package responsesapi
