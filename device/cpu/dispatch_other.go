//go:build !(amd64 || arm64) || purego

package cpu

func native() []*impl { return nil }

// pause lets n short moments pass in a loop that waits for another thread.
func pause(n int) {
	for i := range n {
		spin(i)
	}
}

// spin is a call that does nothing, so that the loop around it stays.
//
//go:noinline
func spin(int) {}
