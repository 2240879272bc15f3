// Package trajectory reads, checks and describes logged trajectories: groups of
// rollouts as OpenPipe ART's clients send them (spec trajectories).
//
//	Read      the body of a log request, of any size, piece by piece
//	Facts     what queries need of one trajectory
//	Stats     the metrics of section 10 over any selection
//	Turns     the conversation, as messages
//
// It knows neither HTTP nor storage. The text of a trajectory is never decoded
// and encoded again: what comes in goes out, but for white space between
// tokens, so big integers, 1.0, lone surrogates, unknown members and the order
// of members survive.
package trajectory
