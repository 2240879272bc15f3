package store

import "os"

// preallocator writes zeros to the log of a memtable, ahead of what badger will write
// there. Where a file has its blocks already, a sync writes the data alone and nothing of
// the file system's own records, which takes about half the time.
type preallocator struct {
	f      *os.File
	b      []byte // the mapped file
	unmap  func()
	end    int // of badger's records
	zeroed int // up to here the file has its blocks
}

// zeroChunk is how many bytes are compared with zero, or zeroed, at a time.
const zeroChunk = 64 << 10

// zeroAhead is how many bytes are zeroed at a time, ahead of badger.
const zeroAhead = 256 << 10

var zeroPage [zeroAhead]byte

// follow goes to another log; nil means that there is none.
func (p *preallocator) follow(f *os.File) {
	if p.unmap != nil {
		p.unmap()
	}
	*p = preallocator{}
	if f == nil || !syncsMaps {
		return
	}
	b, unmap, err := mapFile(f.Name())
	if err != nil {
		return // without preallocation, commits are slower and nothing else
	}
	*p = preallocator{f: f, b: b, unmap: unmap, end: logHeader, zeroed: logHeader}
}

// prepare zeroes the next part of the log, if badger is near the end of the last. It must
// be called between two of badger's writes, so that nobody else writes to the file.
func (p *preallocator) prepare() {
	if p.f == nil {
		return
	}
	from := p.end
	for {
		end, _, _, ok := headerAt(p.b, p.end)
		if !ok || end > len(p.b) {
			break
		}
		p.end = end
	}
	// A client that writes much has the blocks made in the same sync as the data.
	last := p.end - from
	if last > zeroAhead/8 || p.end+2*last <= p.zeroed {
		p.zeroed = max(p.zeroed, p.end)
		return
	}
	at := max(p.end, p.zeroed)
	n := min(zeroAhead, len(p.b)-at)
	if leadingZeros(p.b[at:at+n]) < n {
		p.f = nil // badger's logs do not look like this, so leave the file alone
		return
	}
	n, _ = p.f.WriteAt(zeroPage[:n], int64(at)) // DB.checkSpace finds a full disk
	p.zeroed = at + n
}
