package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// limitsDocument has the table of limits.
const limitsDocument = "../../docs/interface/operations.md"

// limitedPackages are those in which a client can ask for something.
var limitedPackages = []string{"api", "auth", "calls", "chat", "cmd/weir", "engine", "feedback", "internal/form", "internal/query", "grammar", "internal/plainfile", "metrics", "objects", "queues", "scheduler", "server", "spans", "store", "tokenizer", "trajectory", "usage"}

// limitName is what the names of bounds begin with.
var limitName = regexp.MustCompile(`^([mM]ax|[mM]ost|[lL]imit|[lL]argest|[lL]ongest|[dD]eepest)([A-Z].*)?$`)

// TestLimitsAreDocumented: every constant that bounds something has a row in the table of limits,
// which has its value; or it is among those that bound nothing of a client's.
func TestLimitsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(limitsDocument)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), `id="section-6"`)
	section, _, _ = strings.Cut(section, `id="section-7"`)
	found := limitConstants(t)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		row, documented := limitRows[name]
		_, none := notLimits[name]
		switch {
		case documented == none:
			t.Errorf("%s = %d has to be either in the table of limits of docs/interface/operations.md, and in limitRows of this test, or in its notLimits", name, found[name])
		case documented:
			checkLimit(t, section, name, row, found[name])
		}
	}
	for _, names := range []map[string]string{limitRows, notLimits} {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if _, ok := found[name]; !ok {
				t.Errorf("there is no constant %s", name)
			}
		}
	}
}

// checkLimit looks for a value in the row that begins with a text.
func checkLimit(t *testing.T, section, name, row string, value int64) {
	t.Helper()
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| "+row) {
			continue
		}
		if !slices.ContainsFunc(spellings(value), func(s string) bool {
			return regexp.MustCompile(`(^|[^0-9,])` + regexp.QuoteMeta(s) + `([^0-9,]|,[^0-9]|$)`).MatchString(line)
		}) {
			t.Errorf("%s is %d (%s), which its row does not say: %s", name, value, strings.Join(spellings(value), ", "), line)
		}
		return
	}
	t.Errorf("%s: the table of limits has no row %q", name, row)
}

// spellings are the ways in which the table writes a value: a number, bytes, or a time.
func spellings(n int64) []string {
	plain := strconv.FormatInt(n, 10)
	for i := len(plain) - 3; i > 0; i -= 3 {
		plain = plain[:i] + "," + plain[i:]
	}
	all := []string{plain}
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {60e9, "min"}, {1e9, "s"}} {
		if n%unit.size == 0 {
			all = append(all, fmt.Sprintf("%d %s", n/unit.size, unit.name))
		}
	}
	return all
}

// limitConstants returns the constants with the names of bounds, and the numbers in what
// functions named Default… return, by package and name.
func limitConstants(t *testing.T) map[string]int64 {
	found := map[string]int64{}
	eachFile(t, func(pkg, path string, _ *token.FileSet, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") || pkg == "server/servertest" || !slices.ContainsFunc(limitedPackages, func(p string) bool { return under(pkg, p) }) {
			return
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Default") {
				addDefaults(found, pkg, fn)
			} else {
				addConstants(found, pkg, d)
			}
		}
	})
	return found
}

func addConstants(found map[string]int64, pkg string, in ast.Node) {
	ast.Inspect(in, func(n ast.Node) bool {
		d, ok := n.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			return true
		}
		for _, s := range d.Specs {
			spec := s.(*ast.ValueSpec)
			for i, name := range spec.Names {
				if !limitName.MatchString(name.Name) || i >= len(spec.Values) {
					continue
				}
				if v, ok := evaluate(spec.Values[i]); ok {
					found[pkg+"."+name.Name] = v
				}
			}
		}
		return true
	})
}

func addDefaults(found map[string]int64, pkg string, in ast.Node) {
	ast.Inspect(in, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, ok := kv.Key.(*ast.Ident)
		if !ok {
			return true
		}
		if v, ok := evaluate(kv.Value); ok {
			found[pkg+".Default."+key.Name] = v
		}
		return true
	})
}

// evaluate computes an expression of numbers and of units of time.
func evaluate(e ast.Expr) (int64, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 64)
		return n, err == nil
	case *ast.ParenExpr:
		return evaluate(e.X)
	case *ast.SelectorExpr:
		n, ok := map[string]int64{"Microsecond": 1e3, "Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9}[e.Sel.Name]
		return n, ok
	case *ast.BinaryExpr:
		x, okX := evaluate(e.X)
		y, okY := evaluate(e.Y)
		if !okX || !okY {
			return 0, false
		}
		switch e.Op {
		case token.SHL:
			return x << y, true
		case token.MUL:
			return x * y, true
		case token.ADD:
			return x + y, true
		case token.SUB:
			return x - y, true
		}
	}
	return 0, false
}

// limitRows tells what the row of a constant begins with.
var limitRows = map[string]string{
	"server/messagesapi.maxThread":              "threads of messages",
	"server/messagesapi.maxTenantThreads":       "threads of messages",
	"server/messagesapi.maxThreads":             "threads of messages",
	"api.Default.AllowedIDs":                    "`allowed_token_ids`",
	"api.Default.Alternatives":                  "`choice`",
	"api.Default.BadWords":                      "`bad_words`",
	"api.Default.Depth":                         "nesting of JSON",
	"api.Default.LogitBias":                     "`logit_bias`",
	"api.Default.Messages":                      "messages",
	"api.Default.Parts":                         "content parts",
	"api.Default.Prompts":                       "prompts of",
	"api.Default.Repetition":                    "`repetition_detection`",
	"api.Default.Stop":                          "stop strings",
	"api.Default.StopBytes":                     "stop strings",
	"server/openai.maxEdits":                    "logits that",
	"api.Default.StopTokenIDs":                  "`stop_token_ids`",
	"api.Default.ToolBytes":                     "definitions of tools",
	"chat/jinja.MaxSource":                      "a template: a request's own",
	"chat/jinja.maxField":                       "a template: a request's own",
	"chat/jinja.maxRange":                       "a template: a request's own",
	"engine.maxScored":                          "logits from which a step takes",
	"engine.maxWork":                            "work of a step",
	"engine.mostForced":                         "tokens that a step takes over",
	"server/openai.mostStrings":                 "preparing a body",
	"feedback.Default.MaxPayload":               "a payload of feedback",
	"feedback.Default.MaxRows":                  "rows of an answer",
	"feedback.MaxBatch":                         "a batch of feedback",
	"queues.maxQueues":                          "annotation queues of a project",
	"queues.maxItems":                           "annotation queues of a project",
	"queues.maxProgress":                        "annotation queues of a project",
	"queues.maxAdd":                             "a request about annotation queues",
	"queues.maxAddBytes":                        "a request about annotation queues",
	"queues.maxFields":                          "a request about annotation queues",
	"queues.maxStats":                           "a request about annotation queues",
	"queues.maxName":                            "names in annotation queues",
	"queues.maxDescription":                     "names in annotation queues",
	"queues.maxScorers":                         "names in annotation queues",
	"queues.maxRef":                             "names in annotation queues",
	"queues.maxField":                           "names in annotation queues",
	"queues.maxID":                              "names in annotation queues",
	"queues.maxExtra":                           "members of annotation queues",
	"queues.maxOffset":                          "`limit` and `offset` of a query for annotation queues",
	"queues.maxDepth":                           "nesting of JSON about annotation queues",
	"spans.maxSpans":                            "a request with spans",
	"spans.maxBytes":                            "a request with spans",
	"spans.maxReasons":                          "reasons in an answer about spans",
	"spans.maxDepth":                            "nesting of an attribute of a span",
	"spans.maxNesting":                          "nesting of an attribute of a span",
	"spans.maxJSONDepth":                        "nesting of an attribute of a span",
	"spans.maxPath":                             "levels that a key with dots makes",
	"calls.MaxBatch":                            "a request with calls",
	"calls.maxDelete":                           "a deletion of calls",
	"calls.maxDeleted":                          "a deletion of calls",
	"calls.maxDepth":                            "nesting of JSON with calls",
	"calls.MaxID":                               "names in calls",
	"calls.MaxName":                             "names in calls",
	"calls.MaxOpName":                           "names in calls",
	"calls.MaxRecord":                           "a request with calls",
	"calls.maxColumns":                          "a query of calls",
	"calls.maxExpand":                           "references that a query of calls follows",
	"calls.maxExpanded":                         "references that a query of calls follows",
	"calls.maxFilter":                           "a query of calls",
	"calls.maxSorted":                           "calls that are sorted",
	"calls.maxSortBytes":                        "calls that are sorted",
	"feedback.maxGroups":                        "sums of scores",
	"feedback.maxGroupNames":                    "sums of scores",
	"feedback.maxNames":                         "sums of scores",
	"feedback.maxUnknown":                       "members that only a later version knows",
	"objects.maxRows":                           "a table",
	"objects.maxListed":                         "lists in a request about objects",
	"objects.maxDeleted":                        "lists in a request about objects",
	"objects.maxDepth":                          "nesting of JSON of objects",
	"objects.maxRefs":                           "references that are read",
	"objects.maxSteps":                          "references that are read",
	"objects.maxRefsAnswer":                     "references that are read",
	"objects.maxSorted":                         "rows of tables that are sorted",
	"objects.maxObjectID":                       "the name of an object",
	"objects.maxFormText":                       "a form with a file",
	"feedback.maxAggregations":                  "statistics: metrics",
	"feedback.maxBuckets":                       "statistics: buckets",
	"feedback.maxCreator":                       "names in feedback",
	"internal/query.maxExprDepth":               "a query: levels",
	"internal/query.maxExprIn":                  "a query: levels",
	"internal/query.maxExprInAll":               "a query: levels",
	"internal/query.maxExprNodes":               "a query: levels",
	"internal/query.maxExprSubstr":              "a query: `fields`",
	"internal/form.maxSortBy":                   "fields of an order",
	"feedback.maxFields":                        "a query: `fields`",
	"feedback.maxID":                            "names in feedback",
	"feedback.maxMetrics":                       "statistics: metrics",
	"feedback.maxNote":                          "names in feedback",
	"internal/query.MaxPathBytes":               "a query: `fields`",
	"internal/query.MaxPathParts":               "a query: `fields`",
	"feedback.maxPaths":                         "paths in a payload schema",
	"feedback.maxPercentiles":                   "statistics: metrics",
	"feedback.maxQueue":                         "names in feedback",
	"feedback.maxRef":                           "names in feedback",
	"feedback.maxSortBytes":                     "a query that sorts",
	"feedback.maxSorted":                        "a query that sorts",
	"feedback.maxStatsAnswer":                   "statistics: buckets",
	"feedback.maxType":                          "names in feedback",
	"grammar.Default.CacheBytes":                "compiled constraints",
	"grammar.Default.Deadline":                  "a constraint: states",
	"grammar.Default.MaxStates":                 "a constraint: states",
	"grammar.Default.MaxWork":                   "a constraint: states",
	"grammar.maxAlternatives":                   "a constraint: nesting",
	"grammar.maxContains":                       "a constraint: nesting",
	"grammar.maxDemands":                        "a constraint: nesting",
	"grammar.maxDepth":                          "a constraint: nesting",
	"grammar.maxDigits":                         "a constraint: nesting",
	"grammar.maxDistinct":                       "a constraint: nesting",
	"grammar.maxRepeat":                         "a constraint: nesting",
	"grammar.maxMaskVisits":                     "ways to read a constraint",
	"grammar.maxStacks":                         "ways to read what",
	"grammar.maxStepVisits":                     "ways to read a constraint",
	"internal/plainfile.Most":                   "a file of a model",
	"metrics.maxProjects":                       "projects with counts",
	"scheduler.maxShares":                       "tenants with series",
	"scheduler.MaxRepetition":                   "`repetition_detection`",
	"server.Default.Heartbeat":                  "silence of a stream",
	"server.Default.MaxLogprobs":                "`top_logprobs`",
	"server/openai.maxBadWordTokens":            "`bad_words`",
	"server/openai.longestWait":                 "`X-Max-Queue-Time`",
	"server/openai.maxID":                       "a request's id",
	"server/openai.maxLogprobTokens":            "`logprob_token_ids`",
	"server/openai.maxMetadata":                 "the header `metadata`",
	"server/openai.maxPromptScores":             "log-probabilities of prompt tokens",
	"server/openai.maxWaiting":                  "what `stream_interval` gathers",
	"server/recording.maxHeld":                  "completions and rewards",
	"server/recording.maxInput":                 "a member of a chat request",
	"server/recording.maxInputs":                "such members",
	"server/recording.maxRecordings":            "completions that wait",
	"server/trajectoryapi.Default.Idle":         "silence within a body",
	"server/trajectoryapi.Default.MaxBody":      "a body of trajectories",
	"server/trajectoryapi.Default.MaxRatio":     "a compressed body",
	"server/trajectoryapi.Default.MaxUploads":   "log requests",
	"server/trajectoryapi.maxName":              "names of such a model",
	"server/responsesapi.maxIDLength":           "an id of a response",
	"server/responsesapi.maxIgnored":            "names in `X-Ignored-Fields`",
	"server/responsesapi.maxIgnoredSize":        "names in `X-Ignored-Fields`",
	"server/responsesapi.maxMetadataName":       "`metadata` of a response",
	"server/responsesapi.maxMetadataValue":      "`metadata` of a response",
	"server/responsesapi.maxPageItems":          "items of an input in a page",
	"server/responsesapi.maxPairs":              "`metadata` of a response",
	"server/batchesapi.maxBatches":              "batches of a project |",
	"server/batchesapi.maxErrors":               "errors that a batch",
	"server/batchesapi.maxFiles":                "files of a project",
	"server/batchesapi.maxFormText":             "a text in the form",
	"server/batchesapi.maxIDLength":             "an id of a file or batch",
	"server/batchesapi.maxLines":                "requests of a batch",
	"server/batchesapi.maxMembers":              "members of the form of a file",
	"server/batchesapi.maxUploads":              "files that are received",
	"server/batchesapi.maxUpload":               "a file that is sent",
	"server/batchesapi.maxPart":                 "a part of a file",
	"server/batchesapi.maxParts":                "parts of a file that",
	"server/batchesapi.maxPending":              "uploads of a project",
	"server/batchesapi.maxName":                 "the name of a file that",
	"server/batchesapi.maxOpen":                 "batches of a project that",
	"server/batchesapi.maxPage":                 "batches in a page",
	"server/batchesapi.maxPageFiles":            "files in a page",
	"server/batchesapi.maxPairName":             "`metadata` of a batch",
	"server/batchesapi.maxPairValue":            "`metadata` of a batch",
	"server/batchesapi.maxPairs":                "`metadata` of a batch",
	"server/batchesapi.maxRequest":              "a request for a batch",
	"server/batchesapi.maxRunning":              "batches that are computed",
	"server/batchesapi.maxSeconds":              "seconds of `expires_after`",
	"server/trajectoryapi.maxSteps":             "checkpoints that a request deletes",
	"trajectory/archive.MaxModels":              "models that a tenant has created",
	"server/benchapi.maxPoints":                 "points of a run of `/v1/bench`",
	"server/benchapi.maxConcurrency":            "points of a run of `/v1/bench`",
	"server/benchapi.maxRequests":               "points of a run of `/v1/bench`",
	"server/benchapi.maxPrompt":                 "tokens of a request of `/v1/bench`",
	"server/benchapi.maxOutput":                 "tokens of a request of `/v1/bench`",
	"server/benchapi.maxRunSeconds":             "seconds of a run of `/v1/bench`",
	"server/benchapi.maxRuns":                   "runs of `/v1/bench` that are kept",
	"server/benchapi.maxNameLength":             "the name of a run",
	"server/benchapi.maxBody":                   "the body of `/v1/bench`",
	"server/benchapi.maxReport":                 "the report of a point",
	"server/liveapi.maxViewers":                 "streams of `/v1/live`",
	"server/liveapi.maxOfTenant":                "streams of `/v1/live`",
	"server/liveapi.mostRequests":               "requests in a state",
	"server/liveapi.maxCount":                   "`count` of `/v1/live`",
	"server/trajectoryapi.maxPage":              "a split of trajectories",
	"server/trajectoryapi.maxRewards":           "rewards in a request",
	"server/transport.mostWindow":               "the window of a body of trajectories",
	"server/transport.Default.Begun":            "of these, those of a tenant that have begun",
	"server/transport.Default.BodyTimeout":      "time for a body",
	"server/transport.Default.BodyWindow":       "least rate",
	"server/transport.Default.HandshakeTimeout": "time for a TLS handshake",
	"server/transport.Default.MaxHandshakes":    "TLS handshakes",
	"server/transport.Default.IdleTimeout":      "time between two requests",
	"server/transport.Default.MaxBodies":        "bodies in memory, shared",
	"server/transport.Default.MaxBody":          "a body |",
	"server/transport.Default.MaxConnections":   "connections, shared",
	"server/transport.Default.MaxHeader":        "request line",
	"server/transport.Default.MemoryWait":       "memory for bodies",
	"server/transport.Default.Places":           "queries, exports",
	"server/transport.Default.PrepareQueue":     "requests that wait to be prepared",
	"server/transport.Default.ReadTimeout":      "time for the headers",
	"server/transport.Default.WriteTimeout":     "time for a client",
	"server/transport.maxExtensions":            "extensions of the chunks",
	"server/transport.maxAffinity":              "headers of session affinity",
	"server/transport.maxProject":               "the name of a project",
	"store.Default.MaxQueue":                    "writes that wait",
	"store.Default.MinFree":                     "free space",
	"trajectory.Default.Depth":                  "nesting of JSON",
	"trajectory.Default.Trajectories":           "a trajectory; trajectories",
	"trajectory.Default.Trajectory":             "a trajectory; trajectories",
	"trajectory.MaxSplit":                       "a split of trajectories",
	"trajectory.maxNameBytes":                   "metrics of a selection",
	"trajectory.maxNames":                       "metrics of a selection",
	"usage.Default.MaxProjects":                 "projects with counts",
}

// notLimits are constants of the same kinds that are no bounds of what clients can ask for,
// with what they are.
var notLimits = map[string]string{
	"api.maxIgnored":                      "of a header",
	"api.maxIgnoredBytes":                 "of a header",
	"cmd/weir.mostQueued":                 "of the log",
	"server/openai.mostIgnored":           "of the log",
	"server/openai.mostNamed":             "of a header",
	"server/openai.mostRefused":           "of a cache",
	"api.Default.Choices":                 "the server sets another one",
	"api.maxDepth":                        "of a setting",
	"api.maxListed":                       "of an error's text",
	"api.most":                            "of an error's text, and of exponents that make sense",
	"server/responsesapi.maxDepth":        "of what a model has written",
	"server/benchapi.maxDepth":            "of a request that is small",
	"server/batchesapi.maxDepth":          "of a request that is small",
	"server/batchesapi.maxWindow":         "of a setting, as batches.md has it",
	"server/responsesapi.maxDropped":      "of an update",
	"chat.maxCached":                      "of a cache",
	"chat.maxCachedBytes":                 "of a cache",
	"chat/jinja.maxBits":                  "within the steps of a template",
	"chat/jinja.maxDepth":                 "within the source of a template",
	"chat/jinja.maxDigits":                "as Python has it",
	"chat/jinja.maxErrorRepr":             "of an error's text",
	"chat/jinja.maxHeight":                "within the source of a template",
	"chat/jinja.maxJSONDepth":             "within the nesting of JSON",
	"chat/jinja.maxJSONValues":            "within the memory of a template",
	"chat/jinja.maxKept":                  "of a pool",
	"chat/jinja.maxNesting":               "within the depth of a template",
	"chat/reasoning.maxBlanks":            "of what counts as a tag",
	"chat/toolcall.deepest":               "of references that are followed; beyond it a text is a string",
	"chat/toolcall.longestName":           "of what counts as a name",
	"cmd/weir.maxRetentionDays":           "of a flag",
	"cmd/weir.maxSocketPath":              "of the system",
	"server/jsonfields.MaxDepth":          "that of the API",
	"server/jsonfields.most":              "of an error's text",
	"engine.largestPiece":                 "of a pool",
	"engine.maxDisplaced":                 "of a schedule",
	"engine.maxPromptTop":                 "of a step; the prompt takes more of them",
	"engine.mostItems":                    "of one call; there is another one",
	"engine.mostTop":                      "of one call; there is another one",
	"queues.maxProject":                   "the same as in the header",
	"calls.maxProject":                    "the same as in the header",
	"objects.maxProject":                  "the same as in the header",
	"objects.maxSeparate":                 "of objects that are read one by one",
	"calls.maxMerged":                     "of values that indexes are read for",
	"calls.maxSets":                       "of indexes that a query reads",
	"calls.maxSeconds":                    "of times that are understood",
	"feedback.maxBlocks":                  "of a cache",
	"feedback.maxCountedPlans":            "of a cache",
	"feedback.maxDeletions":               "of a cache",
	"feedback.maxDepth":                   "the same as for all JSON",
	"feedback.maxInt":                     "of numbers that are taken as they are",
	"internal/form.maxIssues":             "of an error's text",
	"feedback.maxListed":                  "of a plan; a query takes another one",
	"feedback.maxMerged":                  "of a plan; a query takes another one",
	"feedback.maxNewest":                  "of a cache",
	"feedback.maxProject":                 "the same as in the header",
	"feedback.maxSameTime":                "of a plan; a query takes another one",
	"feedback.maxSets":                    "of a plan; a query takes another one",
	"feedback.maxStatsValues":             "each value counts twice; the table says for how many that is enough",
	"feedback.most":                       "of an error's text",
	"grammar.Default.GrammarBytes":        "of a cache",
	"grammar.longestCompared":             "of texts that are written; longer ones are valid too",
	"grammar.maxFold":                     "of states that are looked at to save work",
	"grammar.maxForced":                   "of a step; the next one goes on",
	"grammar.maxIndent":                   "of the white space that a model may write",
	"grammar.maxWarnings":                 "of an answer's text",
	"grammar.maxKey":                      "of a cache",
	"grammar.maxOutline":                  "of a cache",
	"grammar.maxTokenLen":                 "of a vocabulary",
	"auth.mostLimit":                      "of a limit that an operator sets",
	"metrics.maxBounds":                   "of the code",
	"scheduler.maxIdle":                   "of a memory of who had how much",
	"auth.MostWeight":                     "in hundredths of what the page says",
	"scheduler.MaxWeight":                 "in hundredths, as auth.MostWeight",
	"scheduler.maxPassed":                 "of a schedule",
	"scheduler.maxSat":                    "of a schedule",
	"server.Default.RecordEvery":          "of a schedule",
	"server.Default.RewardWait":           "of a schedule",
	"server.Default.StallAfter":           "of health",
	"server/transport.Default.BodyRate":   "for each second; the table says for how many in a window",
	"server/transport.Default.MaxAge":     "of what browsers remember",
	"server/transport.Default.Memory":     "of tests; the program measures it",
	"server/transport.Default.Rest":       "of a schedule",
	"server/transport.Default.RetryAfter": "of an answer",
	"server/transport.Default.Slice":      "of a schedule",
	"server/transport.most":               "of numbers that are taken as they are",
	"store.Default.CompactEvery":          "of a schedule",
	"store.Default.MaintainEvery":         "of a schedule",
	"store.Default.MaxUpdate":             "more than the largest request comes to",
	"store.Default.MemTable":              "of a file",
	"store.Default.ValueLogFile":          "of a file",
	"store.Default.ValueThreshold":        "of a file",
	"store.longest":                       "of a file",
	"store.maxBlock":                      "of a file",
	"store.maxChecked":                    "of a file",
	"store.maxGroup":                      "of a group of writes; the rest is in the next one",
	"store.maxKey":                        "of a file; keys that clients choose are shorter",
	"store.maxVarint32":                   "of a file",
	"store.mostPause":                     "of a schedule",
	"tokenizer.maxAround":                 "of a model's file",
	"tokenizer.maxClasses":                "of a model's file",
	"tokenizer.maxCode":                   "of a model's file",
	"tokenizer.maxDepth":                  "of a model's file",
	"tokenizer.maxFile":                   "of a model's file",
	"tokenizer.maxFrames":                 "of a model's regular expressions; those of published models never come to it",
	"tokenizer.maxNesting":                "of a model's file",
	"tokenizer.maxReplacement":            "of a model's file",
	"tokenizer.maxWordPiece":              "of a model's file",
	"tokenizer.maxPattern":                "of a model's file",
	"tokenizer.maxPiece":                  "of a model's file",
	"tokenizer.maxRepeat":                 "of a model's file",
	"tokenizer.maxScratch":                "of a pool",
	"server/weaveapi.maxFieldName":        "of an error's text",
	"server/weaveapi.maxQueryDepth":       "of the few members around a query",
	"trajectory.MaxDetails":               "of an error's text",
	"trajectory.maxFinish":                "of what is told of a trajectory",
	"trajectory/archive.maxCall":          "of an index; a longer id is not in it",
	"usage.MaxName":                       "the same as in the header",
	"usage.maxLine":                       "of a file",
	"usage.most":                          "of a wait for a file",
}
