// Package trajectory reads, checks and describes logged trajectories: groups of rollouts as
// OpenPipe ART's clients send them. docs/interface/trajectories.md has the rules, of the
// body of a request (section 2) as well as of the errors (section 3) and the metrics
// (section 10). The package knows neither HTTP nor storage.
//
//	Read      reads the body of a log request, of any size, piece by piece
//	Describe  checks one trajectory and returns its Facts, which queries need
//	Stats     computes the metrics over any selection
//	Turns     the conversation of a trajectory, as messages
//
// # Reading
//
// [Read] goes over the body as it arrives, with a scanner of package internal/jsontext. It
// hands each trajectory, and after the trajectories of a group what else the group has, to
// a [Sink], which may not keep the text:
//
//	{"split": "train", "trajectory_groups": [{"trajectories": [{...}, {...}], "logs": []}]}
//	                                                           |      |       |
//	                                        Sink.Trajectory ---+------+       |
//	                                        Sink.Group -----------------------+
//
// So memory is bounded by the largest trajectory, whatever the size of the body: its text, in a
// buffer that doubles, and its facts, which of many small metrics take up to twenty times
// their text. Limits.Reserve is asked before either grows (room.go has the sizes; a test
// measures them). Names of members are cut in the paths of errors, because a hundred of them
// outlast their trajectories. Only when
// Read has returned without an error is everything known to be valid; a sink stages what it
// gets until then. Once something is wrong the sink gets nothing more, but the body is read
// on, so that the answer lists up to [MaxDetails] faults with the path of each.
//
// # The text stays as it is
//
// The text of a trajectory is never decoded and encoded again. What comes in goes out,
// except for the white space between tokens: big integers, 1.0, surrogates without their
// partner, unknown members and the order of members survive.
//
// reference_test.go has a reference implementation, which decodes the whole body with
// encoding/json; a fuzz test compares it with Read.
package trajectory
