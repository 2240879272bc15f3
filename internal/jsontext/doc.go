// Package jsontext is the one reader of JSON text in weir.
package jsontext
