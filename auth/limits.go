package auth

import (
	"errors"
	"fmt"
	"math"
)

// Limits bound what may be done with a key. In each field 0 means that there is no limit.
// Package ratelimit counts and enforces them.
type Limits struct {
	RequestsPerMinute int64
	TokensPerMinute   int64 // of prompts and outputs
	TokensPerDay      int64 // of prompts and outputs, in a day of UTC
	Concurrency       int64 // requests that have not ended
	MaxTokens         int64 // of output, for each choice of a request
}

// fileLimits are limits as they are written in the file; nil: absent. They are read as numbers of any
// kind, because the decoder cuts off what an integer does not have.
type fileLimits struct {
	RequestsPerMinute *float64 `yaml:"requests_per_minute"`
	TokensPerMinute   *float64 `yaml:"tokens_per_minute"`
	TokensPerDay      *float64 `yaml:"tokens_per_day"`
	Concurrency       *float64 `yaml:"concurrency"`
	MaxTokens         *float64 `yaml:"max_tokens"`
}

// mostLimit bounds limits, so that sums of them are exact in floating point.
const mostLimit = 1 << 50

// fixedKey is the name that all keys of the command line have.
const fixedKey = "api-key"

// limits checks the limits of a key.
func (f *fileLimits) limits(key string) (*Limits, error) {
	if f == nil {
		return nil, nil
	}
	if key == fixedKey {
		return nil, fmt.Errorf("the id %s is that of the keys of --api-key, and limits are counted by id; give the key another", fixedKey)
	}
	l, any := &Limits{}, false
	for _, one := range []struct {
		name string
		from *float64
		to   *int64
	}{
		{"requests_per_minute", f.RequestsPerMinute, &l.RequestsPerMinute}, {"tokens_per_minute", f.TokensPerMinute, &l.TokensPerMinute},
		{"tokens_per_day", f.TokensPerDay, &l.TokensPerDay}, {"concurrency", f.Concurrency, &l.Concurrency}, {"max_tokens", f.MaxTokens, &l.MaxTokens},
	} {
		if one.from == nil {
			continue
		}
		if v := *one.from; !(v >= 1 && v <= mostLimit) || v != math.Trunc(v) {
			return nil, fmt.Errorf("limits: %s is %v, and has to be a whole number from 1 to %d", one.name, v, int64(mostLimit))
		}
		*one.to, any = int64(*one.from), true
	}
	if !any {
		return nil, errors.New("limits is empty; leave it out, or say what they are")
	}
	return l, nil
}

// limitsByKey returns the limits of those keys that have some.
func limitsByKey(entries []entry) map[string]*Limits {
	var all map[string]*Limits
	for i := range entries {
		if l := entries[i].Limits; l != nil {
			if all == nil {
				all = make(map[string]*Limits)
			}
			all[entries[i].Key] = l
		}
	}
	return all
}

// Limits returns the limits of a key as the credentials file has them now; nil: it has none. It is
// asked by the name of the key, because a request that is computed later, in the background,
// knows no more of its key than that.
func (k *Keyring) Limits(key string) *Limits {
	all := k.limits.Load()
	if all == nil {
		return nil
	}
	return (*all)[key]
}
