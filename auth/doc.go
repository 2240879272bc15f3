// Package auth will hold keys, projects, rights and limits of one credentials
// file. Nothing is here yet.
package auth
