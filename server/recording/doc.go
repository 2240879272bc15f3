// Package recording keeps chat completions as trajectories, and sets their rewards from
// feedback.
//
// A [Recorder] records the completions of some projects, and those whose request asks for
// it in engine_xargs: a request is a group, each of its choices a trajectory with token
// ids and log-probabilities, and without a reward until somebody sets one. Nobody waits for
// a record. Begin decides before the engine has the request, Commit hands over what is
// complete, and a goroutine writes once a second what has ended. If the disk does not keep
// up, records are lost, and counted in the log and in the metrics, rather than answers
// delayed.
//
// A [Linker] sets the rewards that feedback of the type "reward" gives to recorded
// completions. The two are in different databases. A reward waits in that of feedback,
// written by the update that writes the record, until it has been set in the archive: a
// crash in between costs nothing but doing it again. One whose completion is not recorded
// yet waits for the recorder, and is forgotten after a day. The archive finds a completion
// by an index that is written with its batch.
//
// Reading rewards out of feedback at every query was the alternative. It would have tied
// each read of one database to the other.
package recording
