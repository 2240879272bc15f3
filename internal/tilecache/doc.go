// Package tilecache keeps weights that a device has packed into its own layout in files, so that
// the next start of a program reads them instead of packing them again.
//
//	c := tilecache.Open(cfg, identity) // what identifies weights, device and layout
//	read := c.Find(key, piece, size)   // nil: pack
//	c.Keep(key, piece, tiles)          // all of them, read or packed
//	c.Save()                           // writes a file in the background, if something was packed
//	c.Close()                          // before the tiles' memory is released
//
// A file has the tiles of one model for one device:
//
//	data    the tiles of each key, one after another
//	index   the identity; for each key its name, where it begins, its size, the size of a
//	        piece, and a checksum (CRC-32C) of each piece
//	footer  uint64 where the index begins, uint32 CRC-32C of the index, and the magic number
//
// Numbers of the index are varints, checksums and the footer little-endian. The file's name is a
// hash of the identity, which the index has as well.
//
// A file is written beside its place, as NAME.part under a lock, synced and then renamed. So a
// process that is killed leaves a .part at most, which is no cache for anybody and which the next
// one overwrites or removes, and of two processes one writes. Pieces are read with pread into
// the memory where they stay, by any number of threads, and each is compared with its checksum
// there. Mapping the file instead was rejected: pages of a mapped file are small, with which a
// step reads weights a tenth slower than with large ones; a checksum has to touch all of them anyway;
// and a file that is cut would raise SIGBUS.
//
// Nothing here fails a start. What cannot be read or written is a line of the log, and the weights
// are packed.
package tilecache
