package feedback

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestExpressions checks every operator with values of every type
// (docs/interface/feedback.md, section 8.3; the rules in comments are those of that section).
func TestExpressions(t *testing.T) {
	s := sample(t)
	field := `{"$getField":"payload.v"}`
	lit := func(v string) string { return `{"$literal":` + v + `}` }
	const everything = "abcdefghijklmnop"
	for _, c := range []struct{ expr, want string }{
		{`{"$eq":[` + field + `,` + lit("1") + `]}`, "a"},
		{`{"$eq":[` + lit("1") + `,` + field + `]}`, "a"},
		{`{"$eq":[` + field + `,` + lit("1.0") + `]}`, "a"},
		{`{"$eq":[` + field + `,` + lit("2") + `]}`, "d"},   // rule 1: text that is a number
		{`{"$eq":[` + field + `,` + lit(`"2"`) + `]}`, "d"}, // rule 1: text
		{`{"$eq":[` + field + `,` + lit(`"1"`) + `]}`, "a"}, // rule 1: the text of a number
		{`{"$eq":[` + field + `,` + lit(`"true"`) + `]}`, "g"},
		{`{"$eq":[` + field + `,` + lit("true") + `]}`, "ag"}, // rule 1: a number as a boolean
		{`{"$eq":[` + field + `,` + lit("false") + `]}`, "h"},
		{`{"$eq":[` + field + `,` + lit("9007199254740993") + `]}`, "l"}, // rule 2: integers exactly
		{`{"$gt":[` + field + `,` + lit("9007199254740992") + `]}`, "l"},
		{`{"$gt":[` + field + `,` + lit("0") + `]}`, "abdlmn"}, // 0.9 too
		{`{"$gte":[` + field + `,` + lit("2.5") + `]}`, "blm"},
		{`{"$lt":[` + field + `,` + lit("1") + `]}`, "cn"},
		{`{"$lte":[` + field + `,` + lit("1") + `]}`, "acn"},
		{`{"$gt":[` + lit("0") + `,` + field + `]}`, "c"},
		{`{"$gt":[` + field + `,` + lit(`"Text"`) + `]}`, "efgh"}, // rule 6: code points; true and false as text
		{`{"$eq":[` + field + `,` + lit("null") + `]}`, "ip"},     // rule 3
		{`{"$not":[{"$eq":[` + field + `,` + lit("null") + `]}]}`, "abcdefghjklmno"},
		{`{"$not":[{"$gt":[` + field + `,` + lit("0") + `]}]}`, "cefghijkop"},
		{`{"$lt":[` + field + `,` + lit("null") + `]}`, ""},
		{`{"$in":[` + field + `,[` + lit("1") + `,` + lit(`"text"`) + `,` + lit("null") + `]]}`, "aeip"},
		{`{"$in":[` + field + `,[]]}`, ""},
		{`{"$in":[` + field + `,[` + lit("true") + `,` + lit("9") + `]]}`, "ag"},
		{`{"$in":[` + lit("1") + `,[` + lit("true") + `]]}`, ""}, // constants are what they are
		{`{"$gt":[` + field + `,` + lit("false") + `]}`, "ag"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"string"}},` + lit("false") + `]}`, "h"}, // rule 1: a text as a boolean
		{`{"$in":[{"$convert":{"input":` + field + `,"to":"string"}},[` + lit("false") + `]]}`, "h"},
		{`{"$and":[{"$gt":[` + field + `,` + lit("0") + `]},{"$lt":[` + field + `,` + lit("3") + `]}]}`, "abdn"},
		{`{"$or":[{"$eq":[` + field + `,` + lit("1") + `]},{"$eq":[` + field + `,` + lit("2.5") + `]}]}`, "ab"},
		{`{"$or":[{"$eq":[` + field + `,` + lit("1") + `]}]}`, "a"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"exists"}},` + lit("true") + `]}`, "abcdefghijklmno"}, // rule 5: null is there
		{`{"$convert":{"input":` + field + `,"to":"exists"}}`, "abcdefghijklmno"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"int"}},` + lit("2") + `]}`, "bd"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"int"}},` + lit(`"9007199254740993"`) + `]}`, "l"}, // the text of an integer has all its digits
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"double"}},` + lit("1") + `]}`, "ag"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"string"}},` + lit(`"2.5"`) + `]}`, "b"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"bool"}},` + lit("true") + `]}`, "abcglmn"},
		{`{"$contains":{"input":` + field + `,"substr":` + lit(`"ext"`) + `}}`, "ef"},
		{`{"$contains":{"input":` + field + `,"substr":` + lit(`"TEXT"`) + `}}`, ""},
		{`{"$contains":{"input":` + field + `,"substr":` + lit(`"TEXT"`) + `,"case_insensitive":true}}`, "ef"},
		{`{"$containsToken":{"input":` + field + `,"substr":` + lit(`"two"`) + `}}`, "f"},
		{`{"$containsToken":{"input":` + field + `,"substr":` + lit(`"wo"`) + `}}`, ""},
		{`{"$contains":{"input":` + field + `,"substr":` + lit(`",2]"`) + `}}`, "k"}, // rule 6: JSON text
		{`{"$contains":{"input":{"$getField":"payload"},"substr":` + lit(`"\"v\":0.9"`) + `}}`, "n"},
		{`{"$containsToken":{"input":{"$getField":"payload.deep"},"substr":` + lit(`"two"`) + `}}`, "f"},
		{`{"$eq":[{"$size":` + field + `},` + lit("2") + `]}`, "k"},
		{`{"$eq":[{"$size":` + field + `},` + lit("0") + `]}`, "j"},
		{`{"$eq":[{"$size":` + field + `},` + lit("null") + `]}`, "abcdefghilmnop"},
		{`{"$in":[{"$size":{"$getField":"payload"}},[` + lit("1") + `,` + lit("9") + `]]}`, "p"},
		{`{"$contains":{"input":{"$getField":"scorer_tags"},"substr":` + lit(`"slow"`) + `}}`, "c"},
		{`{"$contains":{"input":{"$getField":"scorer_tags"},"substr":` + lit(`"low"`) + `}}`, ""},
		{`{"$contains":{"input":{"$getField":"scorer_tags"},"substr":` + lit(`"RUDE"`) + `,"case_insensitive":true}}`, "c"},
		{`{"$gt":[{"$getField":"scorer_ratings.tone"},` + lit("0.4") + `]}`, "c"},
		{`{"$eq":[{"$getField":"scorer_ratings.v1.2"},` + lit("1") + `]}`, "c"}, // a key, not a path
		{`{"$contains":{"input":{"$getField":"scorer_tag_reasons.slow"},"substr":` + lit(`"long"`) + `}}`, "c"},
		{`{"$gt":[{"$getField":"scorer_ratings.nope"},` + lit("0") + `]}`, ""},
		{`{"$eq":[{"$getField":"payload.deep.list.0"},` + lit("1") + `]}`, "a"},
		{`{"$eq":[{"$getField":"payload.deep.list.1.x\\.y"},` + lit("7") + `]}`, "h"},
		{`{"$eq":[{"$getField":"payload.deep.list.x"},` + lit("null") + `]}`, everything},
		{`{"$eq":[{"$getField":"payload"},` + lit(`"{}"`) + `]}`, ""},
		{`{"$eq":[{"$getField":"feedback_type"},` + lit(`"odd"`) + `]}`, "bdfhjln"},
		{`{"$eq":[{"$getField":"creator"},` + lit("null") + `]}`, "acegikmop"},
		{`{"$eq":[{"$getField":"queue_id"},` + lit(`"q"`) + `]}`, "bdfhjln"},
		{`{"$eq":[{"$getField":"platform_user_id"},` + lit(`"u"`) + `]}`, everything},
		{`{"$eq":[{"$getField":"project_id"},` + lit(`"acme/other"`) + `]}`, ""},
		{`{"$eq":[{"$getField":"trace_ref"},` + lit(`"weave:///acme/support/call/other"`) + `]}`, "p"},
		{`{"$eq":[{"$getField":"payload.k"},{"$getField":"payload.k"}]}`, everything},
		// Rule 4: the first record is of 10:15:27.412, and each following one an hour later.
		{`{"$gte":[{"$getField":"created_at"},` + lit(`"2026-03-04T23:15:27.412Z"`) + `]}`, "nop"},
		{`{"$gt":[{"$getField":"created_at"},` + lit(`"2026-03-04T23:15:27.412Z"`) + `]}`, "op"},
		{`{"$lt":[{"$getField":"created_at"},` + lit(`"2026-03-04 11:15:27.412"`) + `]}`, "a"},
		{`{"$eq":[{"$getField":"created_at"},` + lit(`"2026-03-04T12:15:27.412+01:00"`) + `]}`, "b"},
		{`{"$gte":[{"$getField":"created_at"},` + lit(`"2026-03-05"`) + `]}`, "op"},
		{`{"$lt":[` + lit("1772668800") + `,{"$getField":"created_at"}]}`, "op"},
		{`{"$in":[{"$getField":"created_at"},[` + lit(`"2026-03-04T10:15:27.412Z"`) + `]]}`, "a"},
		{`{"$and":[{"$gte":[{"$getField":"created_at"},` + lit(`"2026-03-05"`) + `]},{"$eq":[{"$getField":"feedback_type"},` + lit(`"custom"`) + `]}]}`, "op"},
	} {
		if got := letters(t, s, `,"query":{"$expr":`+c.expr+`}`); got != c.want {
			t.Errorf("%s: %s, want %s", c.expr, got, c.want)
		}
		// Neither the index that answers the query nor its direction changes the answer.
		wrapped := `{"$not":[{"$not":[` + c.expr + `]}]}`
		if got := letters(t, s, `,"query":{"$expr":`+wrapped+`}`); got != c.want {
			t.Errorf("without an index %s: %s, want %s", c.expr, got, c.want)
		}
		back := []byte(c.want)
		slices.Reverse(back)
		if got := letters(t, s, `,"query":{"$expr":`+c.expr+`},"sort_by":[{"field":"created_at","direction":"desc"},{"field":"id","direction":"desc"}]`); got != string(back) {
			t.Errorf("backwards %s: %s, want %s", c.expr, got, back)
		}
	}
}

// TestMalformedQueries checks what is wrong with a query, and the bounds of rule 7.
func TestMalformedQueries(t *testing.T) {
	cfg := DefaultConfig()
	nest := func(n int) string {
		return strings.Repeat(`{"$not":[`, n) + `{"$literal":true}` + strings.Repeat(`]}`, n)
	}
	elements := func(n int) string { return strings.Repeat(`{"$literal":1},`, n-1) + `{"$literal":1}` }
	for _, c := range []struct {
		rest string
		want string // "" is accepted; 422 has a type, 400 a reason
	}{
		{`,"query":{"$expr":{}}`, "422 value_error"},
		{`,"query":{"$expr":{"$literal":1,"$getField":"id"}}`, "422 value_error"},
		{`,"query":{"$expr":{"$what":1}}`, "422 value_error"},
		{`,"query":{"$expr":[]}`, "422 model_attributes_type"},
		{`,"query":{}`, "422 missing"},
		{`,"query":{"$expr":{"$literal":true},"x":1}`, "422 extra_forbidden"},
		{`,"query":{"$expr":{"$literal":[]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$getField":1}}`, "422 string_type"},
		{`,"query":{"$expr":{"$eq":[{"$literal":1}]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$eq":[{"$literal":1},{"$literal":1},{"$literal":1}]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$eq":5}}`, "422 list_type"},
		{`,"query":{"$expr":{"$eq":[1,2]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$not":[]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$in":[{"$literal":1}]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$in":[{"$literal":1},{"$literal":1}]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$convert":{"input":{"$literal":1},"to":"date"}}}`, "422 literal_error"},
		{`,"query":{"$expr":{"$convert":{"to":"int"}}}`, "422 missing"},
		{`,"query":{"$expr":{"$contains":{"input":{"$literal":"a"}}}}`, "422 missing"},
		{`,"query":{"$expr":{"$contains":{"input":{"$literal":"a"},"substr":{"$literal":"a"},"case_insensitive":1}}}`, "422 bool_type"},
		{`,"query":{"$expr":{"$contains":{"input":{"$literal":"a"},"substr":{"$literal":1}}}}`, "400 $contains: substr"},
		{`,"query":{"$expr":{"$contains":{"input":{"$literal":"a"},"substr":{"$getField":"id"}}}}`, "400 $contains: substr"},
		{`,"query":{"$expr":{"$and":[]}}`, "400 $and needs"},
		{`,"query":{"$expr":{"$or":[]}}`, "400 $or needs"},
		{`,"query":{"$expr":{"$eq":[{"$getField":"created_at"},{"$literal":"x"}]}}`, "400 created_at"},
		{`,"query":{"$expr":{"$eq":[{"$getField":"what"},{"$literal":"x"}]}}`, "400 Unknown field: what"},
		{`,"query":{"$expr":{"$eq":[{"$getField":"payload."},{"$literal":"x"}]}}`, "400 Unknown field: payload."},
		{`,"query":{"$expr":` + nest(31) + `}`, ""},
		{`,"query":{"$expr":` + nest(32) + `}`, "400 The query is nested"},
		{`,"query":{"$expr":{"$and":[` + elements(999) + `]}}`, ""},
		{`,"query":{"$expr":{"$and":[` + elements(1000) + `]}}`, "400 The query has more"},
		{`,"query":{"$expr":{"$in":[{"$getField":"id"},[` + elements(10000) + `]]}}`, ""},
		{`,"query":{"$expr":{"$in":[{"$getField":"id"},[` + elements(10001) + `]]}}`, "400 $in has more"},
		{`,"query":null,"fields":null,"sort_by":null,"limit":null,"offset":null`, ""},
		{`,"fields":["what"]`, "400 Unknown field: what"},
		{`,"fields":[1]`, "422 string_type"},
		{`,"fields":["count(*)","id"]`, "400 count(*)"},
		{`,"sort_by":[{"field":"what","direction":"asc"}]`, "400 Unknown field: what"},
		{`,"sort_by":[{"field":"id","direction":"up"}]`, "422 literal_error"},
		{`,"sort_by":[{"field":"id"}]`, "422 missing"},
		{`,"limit":-1`, "400 limit"}, {`,"offset":-1`, "400 offset"}, {`,"limit":1.5`, "422 int_type"}, {`,"limit":"1"`, "422 int_type"},
		{`,"limit":99999999999999999999`, ""},
		{`,"what":1`, "422 extra_forbidden"},
		{`,"sort_by":[{"field":"creator","direction":"asc"}],"offset":500000`, "400 offset and limit"},
	} {
		_, err := cfg.DecodeQuery([]byte(`{"project_id":"a/b"`+c.rest+`}`), ForQuery, false)
		got := ""
		switch e := err.(type) {
		case Invalid:
			got = "422 " + e[0].Type
		case *Refusal:
			got = fmt.Sprint(e.Status, " ", e.Reason)
		}
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%.100s: %s, want %s", c.rest, got, c.want)
		}
	}
	if _, err := cfg.DecodeQuery([]byte(`{}`), ForQuery, false); err.(Invalid)[0].Type != "missing" {
		t.Error(err)
	}
}
