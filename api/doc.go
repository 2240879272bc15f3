// Package api holds the wire types of weir's HTTP functions: decoding with
// presence and limits, field rules, error bodies and response encoding. It
// knows neither the HTTP library nor the engine.
package api
