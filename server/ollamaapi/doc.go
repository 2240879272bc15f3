// Package ollamaapi answers the functions below /api/ that Ollama's clients call: chat, generate,
// embed, and what they ask about models. Its rules are in docs/interface/ollama.md.
//
// A chat is a chat completion underneath, as in package messagesapi: its body is written anew
// ([openai.Service.Serve]), and the answer comes back as one JSON object or as a line of JSON for
// each piece. Functions that manage models on Ollama's machine, such as pull, push and create, are
// not there: a server has the model that it was started with.
//
// # Calls
//
// Ollama's calls have no ids, and templates want some. They are numbered in the order of the
// conversation, which a client sends anew with every turn, so that they are the same each time. A
// result belongs to the first call of its tool that has none yet.
//
// Arguments are objects there, so that a stream has a call when it is complete, and not in pieces.
package ollamaapi
