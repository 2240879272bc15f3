//go:build !linux

package cpu

import "errors"

// machine is empty: nothing is known of the processors here.
func machine() topology { return topology{} }

// bindThread refuses to bind a thread: these systems have no call for it, or
// only hints.
func bindThread(cpus []int) (undo func(), err error) {
	if cpus == nil {
		return func() {}, nil
	}
	return func() {}, errors.New("cpu: threads are bound to processors on Linux only")
}
