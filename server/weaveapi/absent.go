package weaveapi

import (
	"weir/feedback"
	"weir/server/transport"
)

// absent are the functions of Weave that weir does not have, by the sentence that they are
// answered with (status 501). docs/interface/weave.md, section 8, lists them, too.
var absent = []struct {
	why   string
	paths []string
}{
	{"weir has no views of agents; their spans are calls, which /calls/stream_query finds", []string{
		"/agents/agent-versions/query", "/agents/conversations/chat", "/agents/conversations/spans", "/agents/query", "/agents/search", "/agents/spans/custom-attrs/schema",
		"/agents/spans/query", "/agents/spans/stats", "/agents/traces/chat",
	}},
	{"weir has no tags of objects, and no alias but latest", []string{
		"/aliases", "/tags", "/objs/{object_id}/aliases", "/objs/{object_id}/aliases/remove", "/objs/{object_id}/versions/{digest}/tags", "/objs/{object_id}/versions/{digest}/tags/remove",
	}},
	{"weir does not sum up calls; /calls/stream_query has them", []string{"/calls/stats", "/calls/usage", "/trace/usage", "/threads/stream_query", "/project/stats"}},
	{"weir runs no scorers and evaluations; run them with Weave's client, which records them", []string{
		"/actions/execute_batch", "/calls/score", "/evaluations/evaluate_model", "/evaluations/rescore", "/evaluations/status",
	}},
	{"weir calls no other providers; its own completions are at /v1/chat/completions", []string{"/completions/create", "/completions/create_stream", "/image/create"}},
	{"weir keeps no prices", []string{"/cost/create", "/cost/purge", "/cost/query"}},
	{"weir keeps no sources of datasets and has no registry", []string{
		"/dataset_sources/link", "/dataset_sources/link_delete", "/dataset_sources/query", "/dataset_sources/source_datasets_query", "/link_to_registry",
	}},
	{"weir's files have no addresses of their own; /file/content has their bytes", []string{"/files/resolve_url"}},
	{"weir has no settings of projects; --feedback-retention says how long records are kept", []string{
		"/project/ingest_sampling_settings/read", "/project/sensitive_data_settings", "/project/ttl_settings/read", "/project/ttl_settings/update",
	}},
	{"weir knows projects by their names alone", []string{"/service/projects_info"}},
	{"weir has these as objects and calls alone: /obj/create, /objs/query, /calls/stream_query", []string{
		"/v2/{entity}/{project}/datasets", "/v2/{entity}/{project}/datasets/{object_id}", "/v2/{entity}/{project}/datasets/{object_id}/versions/{digest}",
		"/v2/{entity}/{project}/eval_results/query", "/v2/{entity}/{project}/evaluation_runs", "/v2/{entity}/{project}/evaluation_runs/{evaluation_run_id}",
		"/v2/{entity}/{project}/evaluation_runs/{evaluation_run_id}/finish", "/v2/{entity}/{project}/evaluations", "/v2/{entity}/{project}/evaluations/{object_id}",
		"/v2/{entity}/{project}/evaluations/{object_id}/versions/{digest}", "/v2/{entity}/{project}/models", "/v2/{entity}/{project}/models/{object_id}",
		"/v2/{entity}/{project}/models/{object_id}/versions/{digest}", "/v2/{entity}/{project}/ops", "/v2/{entity}/{project}/ops/{object_id}",
		"/v2/{entity}/{project}/ops/{object_id}/versions/{digest}", "/v2/{entity}/{project}/predictions", "/v2/{entity}/{project}/predictions/{prediction_id}",
		"/v2/{entity}/{project}/predictions/{prediction_id}/finish", "/v2/{entity}/{project}/runtimes/{runtime_name}", "/v2/{entity}/{project}/scorers",
		"/v2/{entity}/{project}/scorers/{object_id}", "/v2/{entity}/{project}/scorers/{object_id}/versions/{digest}", "/v2/{entity}/{project}/scores",
		"/v2/{entity}/{project}/scores/{score_id}",
	}},
}

// absentRoutes answer with any method.
var absentRoutes = func() (list []route) {
	for _, a := range absent {
		answer := func(_ *Handlers, c *transport.Call) { c.Fail(&feedback.Refusal{Status: 501, Reason: a.why}) }
		for _, path := range a.paths {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
				list = append(list, route{method, path, answer})
			}
		}
	}
	return list
}()
