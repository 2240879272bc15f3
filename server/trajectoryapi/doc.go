// Package trajectoryapi answers the functions below /v1/preview/models over HTTP: it logs
// trajectories, lists, counts, exports and deletes them, and sets rewards. The rules are in
// docs/interface/trajectories.md; package archive keeps what is logged.
//
// routes.go finds the function of a path. Each function is in the file of its name and
// can be read from top to bottom: log.go, logs.go (the list of models and of batches),
// list.go and one.go (trajectories), metrics.go, export.go, delete.go, rewards.go. They
// share query.go, which reads filters and other parameters, and page.go, which
// encodes lists with a cursor.
//
// An upload is read in pieces and may be larger than the memory. Nothing of it can be
// read before all of it was checked and is on the disk. Lists find their page by what
// is known without the texts of trajectories, and read texts as the answer is written.
package trajectoryapi
