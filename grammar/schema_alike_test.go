package grammar

import (
	"strconv"
	"strings"
	"testing"
)

// listOf is n times each, with its number for %d.
func listOf(n int, each string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.ReplaceAll(each, "%d", strconv.Itoa(i))
	}
	return strings.Join(list, ",")
}

// TestSchemasAlike: schemas that say the same have one rule, wherever they are. Those that refer
// to different schemas with the same words have not.
func TestSchemasAlike(t *testing.T) {
	each := func(n int) string {
		return listOf(n, `"p%d":{"title":"%d","type":"object","properties":{"a":{"description":"%d","type":"string","pattern":"^[a-z]{3,500}$","maxLength":400},"b":{"enum":["x","y%d"]}}}`)
	}
	states := func(s Spec) int { return len(mustCompile(t, s, testVocabulary).m.net.states) }
	different := states(schema(`{"properties":{` + each(100) + `}}`))
	same := states(schema(`{"properties":{` + strings.ReplaceAll(each(100), `"y`, `"y","z`) + `}}`))
	alike := states(schema(`{"properties":{` + listOf(100, `"p%d":{"title":"%d","type":"object","properties":{"a":{"description":"%d","type":"string","pattern":"^[a-z]{3,500}$","maxLength":400},"b":{"enum":["x","y"]}}}`) + `}}`))
	if alike > different/3 || same < different {
		t.Errorf("%d states for schemas that say the same, %d and %d for others", alike, different, same)
	}
	checkTexts(t, []textCase{
		{"the same words under two bases", schema(`{"prefixItems":[
			{"$id":"http://a/x","$defs":{"d":{"const":1}},"prefixItems":[{"$ref":"#/$defs/d"}]},
			{"$id":"http://b/x","$defs":{"d":{"const":2}},"prefixItems":[{"$ref":"#/$defs/d"}]}],"items":false}`),
			[]string{`[[1],[2]]`}, []string{`[[2],[2]]`, `[[1],[1]]`}},
		{"keywords with the names of annotations", schema(`{"type":"object","properties":{"title":{"type":"object","properties":{"title":{"const":1}},"required":["title"]},"default":{"type":"object","properties":{"title":{"const":2}},"required":["title"]}},"additionalProperties":false}`),
			[]string{`{"title":{"title":1},"default":{"title":2}}`}, []string{`{"title":{"title":2}}`, `{"default":{"title":1}}`}},
		{"names", schema(`{"prefixItems":[{"properties":{"a":{"const":1}},"additionalProperties":false},{"properties":{"b":{"const":1}},"additionalProperties":false}]}`),
			[]string{`[{"a":1},{"b":1}]`}, []string{`[{"b":1}]`, `[{"a":1},{"a":1}]`}},
		{"the order of properties", schema(`{"prefixItems":[{"properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"]},{"properties":{"b":{"const":2},"a":{"const":1}},"required":["a","b"]}]}`),
			[]string{`[{"a":1,"b":2},{"b":2,"a":1}]`}, []string{`[{"b":2,"a":1}]`}},
	})
}
