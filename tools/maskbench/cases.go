package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"weir/internal/jsontext"
)

// testCase is a schema with its instances, as prepare.py wrote it.
type testCase struct {
	id     string
	schema []byte // as it is given to weir
	tests  []instance
	line   []byte // all of it, as it is given to llguidance
}

// instance is a text that a schema allows or forbids.
type instance struct {
	text   string
	tokens []int32
	valid  bool
}

// deepest is how deeply the cases may be nested. Some schemas of MaskBench are about that.
const deepest = 1000

// readCases reads the cases whose id has match in it, or about sample of them, evenly spread,
// if sample is not 0.
func readCases(path, match string, sample int) (cases []testCase, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 256<<20)
	for n := 1; lines.Scan(); n++ {
		c, err := readCase(append([]byte(nil), lines.Bytes()...))
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		if strings.Contains(c.id, match) {
			cases = append(cases, c)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("%s has no case that matches", path)
	}
	return spread(cases, sample), nil
}

// spread returns sample of the cases, or all of them if sample is 0.
func spread(cases []testCase, sample int) (some []testCase) {
	if sample == 0 || sample >= len(cases) {
		return cases
	}
	for i := range sample {
		some = append(some, cases[i*len(cases)/sample])
	}
	return some
}

func readCase(line []byte) (c testCase, err error) {
	if err := jsontext.Check(line, deepest); err != nil {
		return c, err
	}
	v := jsontext.Trim(line)
	c = testCase{id: v.Member("id").Text(), schema: v.Member("schema"), line: line}
	for _, t := range v.Member("tests").Elements() {
		i := instance{text: t.Member("text").Text(), valid: t.Member("valid")[0] == 't'}
		for _, id := range t.Member("tokens").Elements() {
			x, _ := id.Float()
			i.tokens = append(i.tokens, int32(x))
		}
		c.tests = append(c.tests, i)
	}
	return c, nil
}
