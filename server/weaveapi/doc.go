// Package weaveapi answers the functions of W&B Weave's interface beside feedback over
// HTTP: calls, objects, tables, files, references, annotation queues, traces of
// OpenTelemetry, and what its clients ask when they start. It reads requests, checks the
// rights of their callers, and passes them to packages calls, objects and queues, which
// know what they mean. The rules are in docs/interface/weave.md.
//
// Each file has the functions of one of these subjects, and a method that lists their
// routes; routes.go puts the lists together.
package weaveapi
