// Package calls keeps records of calls: what a function, an agent or a model was called
// with, what it returned, when, and what it called in turn. They are the calls of W&B Weave,
// whose clients work with them unchanged. The package reads and checks requests, carries
// them out on a database of package store, and answers queries. It knows no HTTP.
package calls
