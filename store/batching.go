package store

import "time"

// batching decides how long the writer waits for more updates before it commits.
//
// Clients that write one record after the other would fall into two halves, of which one
// waits while the other is written, so that every sync serves half of the clients. If the
// writer waits for the others, for less time than a sync takes, all of them share it.
//
// If the others do not come in that time, there are more clients than before, or they are
// busy. While one part of many clients is synced, the others have work for the
// processors, and waiting only delays it. So after each wait in vain, more and more
// commits are made without waiting.
type batching struct {
	clients int           // how many updates came last: those committed, and those that came meanwhile
	took    time.Duration // to commit, on average
	most    time.Duration // the longest wait
	timer   *time.Timer
	pause   int // commits without waiting that follow a wait in vain
	left    int // of them, still to come
}

const (
	fewClients = 4 // it does not pay to wait for fewer
	mostPause  = 1024
)

// wait returns when as many updates wait as came last, or when it is not worth waiting.
func (c *batching) wait(in *intake) {
	switch {
	case c.clients < fewClients || in.waiting() >= c.clients:
		return
	case c.left > 0:
		c.left--
		return
	}
	most := min(c.took/2, c.most)
	if c.timer == nil {
		c.timer = time.NewTimer(most)
	} else {
		c.timer.Reset(most)
	}
	defer c.timer.Stop()
	for in.waiting() < c.clients {
		select {
		case <-in.full:
		case <-c.timer.C:
			c.pause = min(2*c.pause+1, mostPause)
			c.left = c.pause
			return
		}
	}
	c.pause /= 2
}

// wrote notes a commit: the updates in it, those that came meanwhile, and its time.
func (c *batching) wrote(updates, waiting int, took time.Duration) {
	c.clients = updates + waiting
	c.took += (took - c.took) / 8
}
