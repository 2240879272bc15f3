// Package messagesapi answers POST /v1/messages and /v1/messages/count_tokens: the interface that
// Anthropic's clients speak, and the agents that are built on them. Its rules are in
// docs/interface/messages.md.
//
// A message is a chat completion underneath. A request is decoded here, its blocks become the
// messages of a chat, and the body of that chat goes the way of every other
// ([openai.Service.Serve]). What comes back is written as blocks again, whole or as events:
//
//	request.go, blocks.go, tools.go   from a body to a conversation
//	chat.go                           from a conversation to the body of a chat
//	answer.go                         from the answer of the chat to blocks and events
//	threads.go                        conversations that the server keeps for its clients
//
// # The beginning of the prompt stays as it is
//
// Agents send a long conversation again with every turn, and a turn is cheap only if the tokens
// of the last one are its beginning. Four things here serve that alone:
//
//   - A block of the system prompt that begins with x-anthropic-billing-header is left out: its
//     text depends on the conversation, and it comes first.
//   - A message of the role system between other messages stays in its place. Where the model's
//     template refuses that or leaves it out, it becomes text of the user, in tags. Joining it
//     with the first system message, as weir does for the role developer, would change the
//     beginning whenever a client adds one.
//   - One block of text and a string are the same, because clients change one for the other.
//   - Tools that are deferred are not in the list of tools that the model sees, and are shown
//     where a result refers to them. Those that a message adds or removes leave the list as it is,
//     too: the chat underneath is told which of its tools are listed, and which may be called.
//
// # Thoughts that are not shown
//
// Clients ask for thoughts and then do not want to see them ("display": "omitted"), and send the
// block back, so that a model may go on from them. The block's signature then holds the thoughts
// themselves, in base64. They are no secret: the client could have asked for them. Where they
// are shown, the signature is a digest, because some clients drop blocks without one.
//
// # Threads
//
// A kept conversation is in memory, where it takes room that can be given to others at any time,
// and lasts until its next turn, the end of the process, or until others need its room. Clients
// know how to send a lost one again. Keeping them on disk was left out for that reason.
package messagesapi
