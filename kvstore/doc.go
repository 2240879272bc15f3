// Package kvstore keeps copies of KV blocks and recurrent states where they outlive their place in the pool of a device:
// in a folder, so that a prefix cache survives a restart and a crash, and in memory of this machine, for a device that
// has a memory of its own.
//
//	s, err := kvstore.Open(cfg)    // cfg.Identity is all that decides the bits of a block
//	if !s.Has(key) {
//		if b := s.Buffer(n); b != nil {
//			fill(b)
//			s.Save(key, b)         // written by a goroutine of the store
//		}
//	}
//	s.Fetch(key, n)                // read by goroutines of the store
//	for _, f := range s.Fetched(nil, most) { ... }
//
// No call waits for a disk but Open, Erase and Close. What is too much is refused: Buffer returns nil if so much waits to be
// written that there is no memory for more, and Fetch false if so much is being read.
//
// # Content addresses
//
// A key is the chain hash of package kvcache: a hash over the salt and all tokens up to the end of the block. What a block
// holds depends on these, and on the program, the instructions, the types and the weights that computed it. Those are the
// identity of a store, and files of another identity are never read. So a file never has to be changed, and
// nothing has to be kept consistent: whoever finds a file under a key and an intact checksum has the right bits.
//
// # Files
//
//	DIR/lock                          locked by the server that uses the folder
//	DIR/secret                        the secret of the salts, see Secret
//	DIR/IDENTITY/ab/cdef...01.kv      a block
//	DIR/IDENTITY/ab/cdef...01.state   a state
//
// IDENTITY is a hash. A file is a header of 48 bytes and the data, all numbers little-endian:
//
//	magic number  8 bytes
//	identity     16 bytes  a hash
//	hash         16 bytes  of the key; a state's has the first bit of its last byte turned
//	checksum      8 bytes  XXH64 of all that is before it and of the data
//
// A file is written under a name that ends in .part and then renamed, so that a process that is killed leaves no file that is
// not whole. Nothing is synced: after a failure of the power a file may have the right size and wrong content, which
// its checksum shows. To sync would cost a write of the disk's own for each block, and to save only that a prefix is
// computed once more. A file that is damaged is removed and counts as not there.
//
// One server at a time uses a folder; another one is refused by a lock. Servers that share a folder would have to agree on what is
// used longest ago and on the sizes of files that others write, and most that they compute of each other's is in
// other namespaces. Several identities may be in one folder, one after another: the files of an older build are the first to go.
//
// # What goes
//
// If all files together take more than Config.Size, or leave less than Config.MinFree of the disk, those that were used
// longest ago are removed. Their order is kept in memory, and in the times of the files for the next start. The
// folder is listed in the background when it is opened, and until that has ended nothing is found. An entry takes about 100 bytes of memory.
//
// # Alternatives
//
//   - Segments, to which blocks are appended, need fewer files. But they are removed as a whole, with what is still used in
//     them, or have to be compacted, and which bytes are whole has to be found out after a crash. A block of a usual model is
//     a megabyte or more, for which a file costs nothing that counts.
//   - A database such as badger copies each value several times, through its log and its levels, for an order and a durability
//     that nobody needs here.
//   - Mapping files instead of reading them: the first touch of a page waits for the disk, in the goroutine that must not wait.
package kvstore
