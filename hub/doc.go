// Package hub finds models by their names on a model hub, such as Hugging Face's, downloads
// what is missing, and keeps it in the cache that the Python library huggingface_hub uses, so
// that vLLM, transformers and others see the same files.
//
// # Names
//
// A [Reference] is org/name, org/name@revision, org/name:QUANT, and the same after hf://. A
// revision is a branch, a tag or a commit. QUANT says which file of a repository with GGUF
// files is meant.
//
// # The cache
//
// The layout is that of huggingface_hub (file_download.py and _cache_manager.py, read and run in
// version 2.4.0):
//
//	models--org--name/refs/main                  the commit that main was when it was asked for last
//	models--org--name/snapshots/COMMIT/FILE      a relative symlink to a blob, or the file itself
//	models--org--name/blobs/ETAG                 what the file holds
//	models--org--name/.no_exist/COMMIT/FILE      an empty file: the repository has no such file
//	models--org--name/trees/COMMIT.json          names, sizes and hashes of all files (only read here)
//	.locks/models--org--name/ETAG.lock           held with flock while the blob is downloaded
//	blobs/XX/HASH                                blobs that several repositories share (only huggingface_hub writes it)
//
// A branch is written to refs when all files of its commit are there, and not before: whoever is
// offline afterwards finds the last commit that is whole. huggingface_hub writes it first.
//
// # Downloads
//
// A blob is downloaded to ETAG.weir.incomplete, a file of the blob's size whose parts come over
// several connections. ETAG.weir.parts.incomplete is its journal: a line for each part that has
// been written. A process that was killed has left both, and the next one goes on with what the
// journal lacks. The names end in .incomplete, so that huggingface_hub's tools know them for
// what they are, and they differ from those of its own unfinished files, which have no holes.
// Such a file of an old version (ETAG.incomplete) is taken over as the first part.
//
// A blob gets its name only after its SHA-256 (files in large file storage) or the SHA-1 of git's
// object (all others) has been compared with what the hub says. The hash follows the download
// through the file, so there is no wait at its end. A wrong hash is answered with one download
// from the beginning, and a second one is an error.
//
// The lock makes two processes that want a blob download it once. On a file system that has no
// locks each downloads it into a file of its own, as huggingface_hub does everywhere.
//
// # Outlines
//
// [Hub.Outline] is for somebody who only looks at a model, such as weir inspect: it makes a folder
// with the small files and those bytes of the others that are asked for, by ranges. The files have
// their size, and holes where nothing was read, so that whoever maps a model can open them, and a
// caller that knows the formats says what headers are. They are in a folder of the caller's and
// never in the cache, where a file with holes would be taken for a whole one.
//
// # What a hub may do
//
// A hub is not trusted beyond its answers. Names of files, etags and commits are checked before a
// path is made of them, sizes of answers, lists and redirects are bounded, and the token is sent
// to the scheme, host and port that it is for, and to no other: not after a redirect and not to
// the address of a file. Waits that Retry-After asks for are bounded. Files of a safetensors index
// have to be files of the repository.
//
// # What was tried
//
//   - One file for each part, put together at the end: it needs the space twice and writes all
//     bytes twice.
//   - HTTP/2: all parts share one connection then, and with it the rate that the network or the hub
//     allows for one connection.
//   - Waiting for the connection with a deadline for all of a part: a slow line is no stall. A
//     stall is that nothing comes for the timeout.
package hub
