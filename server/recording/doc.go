// Package recording keeps chat completions as trajectories and as calls, and sets the rewards
// of trajectories from feedback.
//
// A [Recorder] records the completions of some projects, and those whose request asks for
// it in engine_xargs. A request becomes a group, and each of its choices a trajectory with
// token ids and log-probabilities, which has no reward until one is set. No answer waits
// for its recording: Recorder.Begin decides before the engine gets the request whether it is
// recorded, Recorder.Commit takes the complete answer, and a goroutine writes the gathered
// ones once a second. If the disk is too slow, recordings are dropped, and the log and the
// metrics count them; answers are never delayed.
//
// A completion of a project is written as a call of package calls as well (call.go). The two
// databases do not wait for each other: what one cannot take is lost or tried again there
// alone. A request that failed is a call with an exception, and no trajectory.
//
// A recording takes over the memory that its request had reserved for it (package memory),
// and gives it back when it is written. Work on the archive, of the recorder and the linker,
// reserves what it holds; if there is no room it is done a little later.
//
// A [Linker] sets the rewards that feedback of the type "reward" gives to recorded
// completions. The two are in different databases. The update that writes the feedback also
// writes a waiting reward, which is removed when it has been set in the archive; after a
// crash between the two it is set again, which changes nothing. A reward whose completion is
// not recorded yet waits for the recorder, and is dropped after a day. The archive finds a
// completion by an index that is written with its batch.
//
// The alternative was to look rewards up in feedback at every query of the archive. Then
// each read of one database would have depended on the other.
package recording
