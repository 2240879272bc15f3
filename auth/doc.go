// Package auth knows who may do what. A [Keyring] has the keys of the command line and of
// one credentials file, which may change while it is in use. [Keyring.Token] and
// [Keyring.Password] return the [Identity] that credentials belong to, and the identity
// answers what it may do:
//
//	keys, err := auth.New(apiKeys, "credentials.yaml")
//	go keys.Watch(ctx, 2*time.Second, log)
//	scheme, user, secret := auth.Parse(header) // of "Authorization"
//	id := keys.Token(secret)                   // nil if no key matches
//	ok := id.May(auth.Write, "acme/support")
//
// The package knows the syntax of credentials, but not HTTP.
//
// # The credentials file
//
// The file is YAML (or JSON, which is YAML):
//
//	keys:
//	  - id: ci                      # the name in logs
//	    hash: sha256:2bb80d53…      # printf %s "$KEY" | sha256sum
//	    user: u-17                  # the user in records; default: id
//	    tenant: acme                # keys of a tenant share its records, its part of the
//	                                # machine and its prefixes; default: user
//	    username: alice             # then hash is of this user's password
//	    projects: ["acme/*", "lab/evals"]   # "*" is all, and the default
//	    default_project: acme/support    # of requests that name none; default: they have none
//	    models: ["*"]               # default: all
//	    rights: [read, write]       # and admin, transfer; default: read and write
//	    weight: 3                   # the tenant's part of the machine beside others; default: 1
//	    project_weights: {acme/chat: 3, "acme/*": 1}   # and those of its projects
//	    max_priority: 5             # the most urgent priority; default: any
//	    expires: 2027-01-01T00:00:00Z
//	    limits:                     # default: none; see Limits
//	      requests_per_minute: 60
//	      tokens_per_minute: 100000
//	      tokens_per_day: 5000000
//	      concurrency: 8
//	      max_tokens: 4096
//	# end
//
// A user may have several keys, so that a key can be replaced without a gap. If a changed
// file has any error, the keys before the change stay valid, the error is logged, and
// [Keyring.Stale] tells metrics. A file without a list of keys is such an error, because a
// program that writes the file, or a full disk, may leave it empty; "keys: []" revokes all.
//
// The last line is optional. It tells a whole file from one that was cut between two lines,
// which would be valid and have fewer keys, or a last key without its bounds. Once a file in
// use had the line, one without it is an error.
//
// Weights are those of the tenant ([Keyring.Weights]): what one of its keys says counts for
// all, and two keys that contradict each other are an error. So a key can be replaced by one
// that says the same, and no request changes what the one before it has set.
//
// Limits are counted by the id of a key, so that keys with limits need ids of their own. They are
// enforced by package ratelimit and the server.
//
// Keys are stored as plain SHA-256, so that a request costs a hash and not the milliseconds
// of bcrypt. That is safe for keys that are long and random, 128 bits and more. Passwords
// that people choose are not.
//
// # Files
//
// auth.go has identities, the keyring and the syntax of credentials, file.go the file, limits.go
// the limits of keys, and weights.go what the file says of shares of the machine.
package auth
