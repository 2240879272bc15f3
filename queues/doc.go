// Package queues keeps annotation queues: lists of calls that people are asked to annotate,
// and how far each annotator has come. They are the queues of W&B Weave, whose clients work
// with them unchanged. It knows no HTTP.
package queues
