// Package auth knows who may do what: the keys of the command line and of one
// credentials file, which may change while it is in use. It knows the syntax of
// credentials, but no HTTP.
//
// The file is YAML (or JSON, which is YAML):
//
//	keys:
//	  - id: ci                      # what logs call it
//	    hash: sha256:2bb80d53…      # printf %s "$KEY" | sha256sum
//	    user: u-17                  # whom records name; default: id
//	    tenant: acme                # default: user
//	    username: alice             # hash is of a password that goes with this name
//	    projects: ["acme/*", "lab/evals"]   # "*" is all, and the default
//	    models: ["*"]               # default: all
//	    rights: [read, write]       # and admin; default: read and write
//	    expires: 2027-01-01T00:00:00Z
//	    limits: {requests_per_minute: 600, tokens_per_minute: 100000, concurrency: 32}
//	    weight: 2                   # share of the machine, default 1
//	    max_priority: 0             # the most urgent priority it may ask for
//
// A name may have several keys, which is how they are changed. Keys are stored as
// SHA-256, so they have to be long and random, which no password is: 128 bits and
// more.
package auth
