// Package tlsfiles reads the certificate, the key and the authorities that a server speaks TLS
// with, and reads them again when their files change.
//
//	f, err := tlsfiles.Open(tlsfiles.Names{Cert: "cert.pem", Key: "key.pem"})
//	go f.Watch(ctx, time.Second, log)
//	conn := tls.Server(socket, f.Config()) // for each connection anew
//
// # Versions
//
// Each version of the files has a [tls.Config] of its own, which never changes. A connection
// keeps the one that it began with. A version has its own keys for session tickets too, so that
// a session which began with an authority that was removed since cannot be resumed. This is why
// tls.Config.GetConfigForClient is not used: the keys of the configuration that has this
// function are those of all that it returns.
//
// # Files that are wrong
//
// A certificate and its key are two files, and whoever replaces them writes one after the other.
// So a version that is wrong is never used: the one before stays, the error is logged once, and
// [Files.Stale] tells metrics. The files are then read again every second, whether they have
// changed or not. A certificate that has expired, or is not valid yet, is such an error, but not
// at the start, where there is none before it.
package tlsfiles
