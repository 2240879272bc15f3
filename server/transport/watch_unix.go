//go:build unix && !linux

package transport

func (w *watcher) newSource() source { return newPeeker(w) }
