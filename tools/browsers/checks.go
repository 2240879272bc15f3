package main

// check is something that a page does, and what has to come of it.
type check struct {
	name   string
	page   string // "" is the page of the check before; %SITE%, %PORT% and %FILE% are replaced
	script string // an expression in JavaScript, see helpers
	want   string // its value
	weir   string // what weir was asked and how it answered, "METHOD path status" separated by ", "; one that is repeated counts once
}

const (
	local = "http://localhost:%SITE%/"
	evil  = "http://evil.example:%SITE%/"

	// The user has opened a record and given the key as the password.
	remembered = "http://api:secret@localhost:%PORT%/feedback/" + recordID + "?project_id=acme/app "

	chatPath     = "/v1/chat/completions"
	preflightBad = "OPTIONS /feedback/purge 403"
	purged       = "POST /feedback/purge 403"
)

// readStream reads an answer as a chat front-end does, and says what it saw.
const readStream = `(async () => {
	const r = await fetch(chats, { method: 'POST', body: streamed, headers: { ...json, ...(typeof key === 'undefined' ? {} : key) } })
	let text = '', pieces = 0
	for (const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();;) {
		const { value, done } = await reader.read()
		if (done) break
		text += value; pieces++
	}
	return [r.type, r.status, r.headers.get('content-type'), !!r.headers.get('x-request-id'), text.includes('Paris'), text.endsWith('data: [DONE]\n\n')].join(' ')
})()`

const streamSeen = "cors 200 text/event-stream; charset=utf-8 true true true"

// withoutKeys is what pages may do and may not do to a server that has no keys and listens
// on this machine alone.
var withoutKeys = []check{
	// Front-ends on this machine.
	{"localhost, another port: an answer", local, `post(chats, chat)`, "cors 200", "OPTIONS " + chatPath + " 204, POST " + chatPath + " 200"},
	{"localhost, another port: a stream", "", readStream, streamSeen, "POST " + chatPath + " 200"},
	{"localhost, another port: an error can be read", "", `post(chats, '{}').then(s => fetch(chats, { method: 'POST', body: '{}', headers: json })).then(r => r.json()).then(e => typeof e.error.message)`, "string", "POST " + chatPath + " 400"},
	{"localhost, another port: feedback", "", `post(feedback + 'query', query)`, "cors 200", "OPTIONS /feedback/query 204, POST /feedback/query 200"},
	{"localhost, another port: with cookies", "", `post(chats, chat, { credentials: 'include' })`, "TypeError", "OPTIONS " + chatPath + " 204"},
	{"127.0.0.1: an answer", "http://127.0.0.1:%SITE%/", `post(chats, chat)`, "cors 200", "OPTIONS " + chatPath + " 204, POST " + chatPath + " 200"},
	{"127.0.0.1: a stream", "", readStream, streamSeen, "POST " + chatPath + " 200"},
	{"127.0.0.1: feedback", "", `post(feedback + 'query', query)`, "cors 200", "OPTIONS /feedback/query 204, POST /feedback/query 200"},
	{"localhost to 127.0.0.1", local, `post('http://127.0.0.1:%PORT%/feedback/query', query)`, "cors 200", "OPTIONS /feedback/query 204, POST /feedback/query 200"},
	{"a worker of localhost", local, `new Promise(done => { const w = new Worker('/worker.js'); w.onmessage = m => done(m.data); w.postMessage([chats, { method: 'POST', body: chat, headers: json }]) })`, "cors 200", "OPTIONS " + chatPath + " 204, POST " + chatPath + " 200"},
	{"a blob of localhost", local, `inFrame('fetch("' + weir + '/v1/models")', { blob: true })`, "cors 200", "GET /v1/models 200"},
	{"a page of weir itself", "http://localhost:%PORT%/version", `post('/v1/chat/completions', chat)`, "basic 200", "POST " + chatPath + " 200"},
	{"a page of weir itself: feedback", "", `post('/feedback/query', query)`, "basic 200", "POST /feedback/query 200"},

	// Pages of other origins: programs.
	{"evil: fetch", evil, `post(feedback + 'purge', purge)`, "TypeError", preflightBad},
	{"evil: a chat", "", `post(chats, chat)`, "TypeError", "OPTIONS " + chatPath + " 403"},
	{"evil: fetch with DELETE", "", `get(agent, { method: 'DELETE' })`, "TypeError", "OPTIONS /v1/preview/models/agent 403"},
	{"evil: fetch as text", "", `post(feedback + 'purge', purge, { headers: { 'Content-Type': 'text/plain' } })`, "TypeError", purged},
	{"evil: fetch without a type", "", `post(feedback + 'purge', new Blob([purge]), { headers: {} })`, "TypeError", purged},
	{"evil: fetch with cookies", "", `post(feedback + 'purge', purge, { headers: {}, credentials: 'include' })`, "TypeError", purged},
	{"evil: no-cors", "", `post(feedback + 'purge', purge, { mode: 'no-cors', headers: {} })`, "opaque 0", purged},
	{"evil: no-cors without a type", "", `post(feedback + 'purge', new Blob([purge]), { mode: 'no-cors', headers: {} })`, "opaque 0", purged},
	{"evil: no-cors, a chat", "", `post(chats, chat, { mode: 'no-cors', headers: {} })`, "opaque 0", "POST " + chatPath + " 403"},
	{"evil: no-cors, keepalive", "", `post(feedback + 'purge', purge, { mode: 'no-cors', headers: {}, keepalive: true })`, "opaque 0", purged},
	{"evil: no-cors, GET", "", `get(feedback + id + '?project_id=acme/app', { mode: 'no-cors' })`, "opaque 0", "GET /feedback/" + recordID + " 403"},
	{"evil: no referrer", "", `post(feedback + 'purge', purge, { mode: 'no-cors', headers: {}, referrerPolicy: 'no-referrer' })`, "opaque 0", purged},
	{"evil: XMLHttpRequest", "", `new Promise(done => { const x = new XMLHttpRequest(); x.open('POST', feedback + 'purge'); x.onloadend = () => done(String(x.status)); x.send(purge) })`, "0", purged},
	{"evil: beacon", "", `String(navigator.sendBeacon(feedback + 'purge', purge))`, "true", purged},
	{"evil: a worker", "", `new Promise(done => { const w = new Worker('/worker.js'); w.onmessage = m => done(m.data); w.postMessage([feedback + 'purge', { method: 'POST', body: purge, mode: 'no-cors' }]) })`, "opaque 0", purged},
	{"evil: a blob", "", `inFrame(asText(feedback + 'purge', purge), { blob: true })`, "TypeError", purged},
	{"evil: WebSocket", "", `new Promise(done => { const s = new WebSocket('ws://localhost:%PORT%/v1/chat/completions'); s.onopen = () => done('open'); s.onerror = () => done('failed') })`, "failed", "GET " + chatPath + " 403"},
	{"evil: EventSource", "", `new Promise(done => { const s = new EventSource(weir + '/metrics'); s.onopen = () => done('open'); s.onerror = () => done('failed ' + s.readyState) })`, "failed 2", "GET /metrics 403"},
	{"evil: redirected by itself", "", `post('/to?url=' + encodeURIComponent(feedback + 'purge'), purge, { headers: {} })`, "TypeError", purged},
	{"evil: redirected by itself, no-cors", "", `post('/to?url=' + encodeURIComponent(feedback + 'purge'), purge, { headers: {}, mode: 'no-cors' })`, "opaque 0", purged},
	{"evil: redirected by localhost", "", `post(site + '/to?url=' + encodeURIComponent(feedback + 'purge'), purge, { headers: {} })`, "TypeError", purged},
	{"evil: redirected by localhost, no-cors", "", `post(site + '/to?url=' + encodeURIComponent(feedback + 'purge'), purge, { headers: {}, mode: 'no-cors' })`, "opaque 0", purged},

	// Elements.
	{"evil: img", evil, `put('img', { src: weir + '/v1/models' })`, "failed", "GET /v1/models 403"},
	{"evil: img with CORS", "", `put('img', { crossOrigin: 'anonymous', src: weir + '/metrics' })`, "failed", "GET /metrics 403"},
	{"evil: script", "", `put('script', { src: weir + '/v1/models' })`, "failed", "GET /v1/models 403"},
	{"evil: module", "", `put('script', { type: 'module', src: weir + '/v1/models' })`, "failed", "GET /v1/models 403"},
	{"evil: stylesheet", "", `put('link', { rel: 'stylesheet', href: weir + '/metrics' })`, "failed", "GET /metrics 403"},
	{"evil: prefetch", "", `put('link', { rel: 'prefetch', href: weir + '/usage' })`, "failed", "GET /usage 403"},
	{"evil: preload", "", `put('link', { rel: 'preload', as: 'image', href: weir + '/usage' })`, "failed", "GET /usage 403"},
	{"evil: audio", "", `put('audio', { src: weir + '/metrics' })`, "failed", "GET /metrics 403"},
	{"evil: object", "", `put('object', { data: weir + '/metrics' })`, "failed", "GET /metrics 403"},
	{"evil: frame", "", `put('iframe', { src: weir + '/docs' })`, "loaded", "GET /docs 403"},
	{"evil: ping of a link", "", `(() => { const a = document.createElement('a'); a.href = '#x'; a.ping = feedback + 'purge'; document.body.append(a); a.click(); return 'clicked' })()`, "clicked", purged},
	{"evil: form as text", "", `submit(feedback + 'purge', 'text/plain', purge)`, "loaded", purged},
	{"evil: form", "", `submit(feedback + 'purge', 'application/x-www-form-urlencoded', purge)`, "loaded", purged},
	{"evil: form with parts", "", `submit(feedback + 'purge', 'multipart/form-data', purge)`, "loaded", purged},
	{"evil: form without a referrer", evil + "?Referrer-Policy=no-referrer", `submit(feedback + 'purge', 'text/plain', purge)`, "loaded", purged},
	{"evil: form in a tab", evil, `submit(feedback + 'purge', 'text/plain', purge, '_blank')`, "sent", purged},
	{"evil: form in its own place", evil, `submit(feedback + 'purge', 'text/plain', purge, '_self')`, "sent", purged},
	{"evil: report of a policy", evil + "?Content-Security-Policy=img-src%20'none'%3Breport-uri%20http://localhost:%PORT%/feedback/create", `put('img', { src: site })`, "failed", "POST /feedback/create 403"},

	// Links: to what needs no key, and to nothing else.
	{"evil: link to a record", evil, `(() => { setTimeout(() => location = feedback + id + '?project_id=acme/app'); return 'left' })()`, "left", "GET /feedback/" + recordID + " 403"},
	{"evil: link to usage", evil, `(() => { setTimeout(() => location = weir + '/usage'); return 'left' })()`, "left", "GET /usage 403"},
	{"evil: link to /version", evil, `(() => { setTimeout(() => location = weir + '/version'); return 'left' })()`, "left", "GET /version 200"},
	{"evil: window with a record", evil, `(() => { open(feedback + id + '?project_id=acme/app'); return 'open' })()`, "open", "GET /feedback/" + recordID + " 403"},

	// A page whose name leads to weir after it was loaded (DNS rebinding). The browser takes
	// weir for the server of that page.
	{"rebound: fetch", "http://rebound.example:%PORT%/", `post('/feedback/purge', purge)`, "basic 403", purged},
	{"rebound: GET", "", `get('/feedback/' + id + '?project_id=acme/app')`, "basic 403", "GET /feedback/" + recordID + " 403"},
	{"rebound: a chat", "", `post('/v1/chat/completions', chat)`, "basic 403", "POST " + chatPath + " 403"},
	{"rebound: DELETE", "", `get('/v1/preview/models/agent', { method: 'DELETE' })`, "basic 403", "DELETE /v1/preview/models/agent 403"},
	{"rebound: form", "", `submit('/feedback/purge', 'text/plain', purge)`, "loaded", purged},
	{"rebound: frame", "", `put('iframe', { src: '/docs' })`, "loaded", "GET /docs 403"},

	// Pages without an origin, whoever made them.
	{"null: sandboxed frame of localhost", local, `inFrame(asText(feedback + 'purge', purge), { sandbox: 'allow-scripts' })`, "TypeError", purged},
	{"null: redirected elsewhere", local, `post('http://127.0.0.1:%SITE%/to?url=' + encodeURIComponent(feedback + 'purge'), purge, { headers: {} })`, "TypeError", purged},
	{"null: file", "file://%FILE%", `post(feedback + 'purge', purge, { headers: {} })`, "TypeError", purged},
	{"null: file, no-cors", "", `post(feedback + 'purge', purge, { headers: {}, mode: 'no-cors' })`, "opaque 0", purged},
	{"null: file, form", "", `submit(feedback + 'purge', 'text/plain', purge)`, "loaded", purged},
	{"null: file, img", "", `put('img', { src: weir + '/metrics' })`, "failed", "GET /metrics 403"},
	{"null: frame with a data URL", local, `inFrame(asText(feedback + 'purge', purge), { data: true })`, "TypeError", purged},
}

// controls are the same as the attacks from a page that may call, after the records were
// found as they were. They show that the attacks failed because of where they came from.
var controls = []check{
	{"control: a link to a record", local, `get(feedback + id + '?project_id=acme/app', { mode: 'no-cors' })`, "opaque 0", "GET /feedback/" + recordID + " 200"},
	{"control: DELETE", "", `get(agent, { method: 'DELETE' })`, "cors 200", "OPTIONS /v1/preview/models/agent 204, DELETE /v1/preview/models/agent 200"},
	{"control: form as text", "", `submit(chats, 'text/plain', chat.replace('France?', 'France=?'))`, "loaded", "POST " + chatPath + " 400"},
	{"control: feedback as text", "", `submit(feedback + 'purge', 'text/plain', purge)`, "loaded", "POST /feedback/purge 415"},
	{"control: fetch without a type", "", `post(feedback + 'purge', new Blob([purge]), { headers: {} })`, "cors 415", "POST /feedback/purge 415"},
	{"control: fetch", "", `post(feedback + 'purge', purge)`, "cors 200", "OPTIONS /feedback/purge 204, POST /feedback/purge 200"},
}

// key is the header of a key.
const key = `const key = { Authorization: 'Bearer secret' }, basic = { Authorization: 'Basic ' + btoa('api:secret') }; `

// withKeys: all pages may call, because the key protects.
var withKeys = []check{
	{"keys: an answer", evil, `post(chats, chat, { headers: { ...json, ...key } })`, "cors 200", "OPTIONS " + chatPath + " 204, POST " + chatPath + " 200"},
	{"keys: a stream", "", readStream, streamSeen, "POST " + chatPath + " 200"},
	{"keys: no key", "", `post(chats, chat)`, "cors 401", "POST " + chatPath + " 401"},
	{"keys: x-api-key", "", `post(chats, chat, { headers: { ...json, 'x-api-key': 'secret' } })`, "cors 200", "OPTIONS " + chatPath + " 204, POST " + chatPath + " 200"},
	{"keys: feedback", "", `post(feedback + 'query', query, { headers: { ...json, ...basic } })`, "cors 200", "OPTIONS /feedback/query 204, POST /feedback/query 200"},
	{"keys: feedback without a key", "", `post(feedback + 'purge', purge, { mode: 'no-cors', headers: {} })`, "opaque 0", "POST /feedback/purge 401"},
	{"keys: form without a key", "", `submit(feedback + 'purge', 'text/plain', purge)`, "loaded", "POST /feedback/purge 401"},
	{"keys: file", "file://%FILE%", `post(chats, chat, { headers: { ...json, ...key } })`, "cors 200", "OPTIONS " + chatPath + " 204, POST " + chatPath + " 200"},
	{"keys: a remembered password, page of the same site", remembered + local, `post(feedback + 'purge', new Blob([purge]), { mode: 'no-cors', headers: {}, credentials: 'include' })`, "opaque 0", "POST /feedback/purge 415"},
	{"keys: a remembered password, CORS", remembered + local, `post(feedback + 'purge', new Blob([purge]), { headers: {}, credentials: 'include' })`, "TypeError", "POST /feedback/purge 415"},
	{"keys: a remembered password, JSON", remembered + local, `post(feedback + 'purge', purge, { credentials: 'include' })`, "TypeError", "OPTIONS /feedback/purge 204"},
	{"keys: a remembered password, form", remembered + local, `submit(feedback + 'purge', 'text/plain', purge, '_blank')`, "sent", "POST /feedback/purge 415"},
	{"keys: a remembered password, foreign page", remembered + evil, `submit(feedback + 'purge', 'text/plain', purge, '_blank')`, "sent", "POST /feedback/purge 415"},
	{"keys: any name", "http://rebound.example:%PORT%/", `get('/v1/models', { headers: key })`, "basic 200", "GET /v1/models 200"},
}

// withList: a server with keys and --allowed-origins 'http://good.example:*,null'.
var withList = []check{
	{"list: a page in it", "http://good.example:%SITE%/", `post(chats, chat, { headers: { ...json, ...key } })`, "cors 200", "OPTIONS " + chatPath + " 204, POST " + chatPath + " 200"},
	{"list: a stream", "", readStream, streamSeen, "POST " + chatPath + " 200"},
	{"list: null", "file://%FILE%", `post(chats, chat, { headers: { ...json, ...key } })`, "cors 200", "OPTIONS " + chatPath + " 204, POST " + chatPath + " 200"},
	{"list: evil", evil, `post(chats, chat, { headers: { ...json, ...key } })`, "TypeError", "OPTIONS " + chatPath + " 403"},
	{"list: evil, no-cors", "", `post(chats, chat, { mode: 'no-cors', headers: {} })`, "opaque 0", "POST " + chatPath + " 403"},
	{"list: localhost", local, `post(chats, chat, { headers: { ...json, ...key } })`, "TypeError", "OPTIONS " + chatPath + " 403"},
	{"list: weir's own", "http://localhost:%PORT%/version", `post('/v1/chat/completions', chat, { headers: { ...json, ...key } })`, "basic 200", "POST " + chatPath + " 200"},
}

// onNetwork: a server without keys that other machines reach, under a name for which a
// browser sends no Sec-Fetch-Site.
var onNetwork = []check{
	{"network: a chat of a foreign page", evil, `post('http://lan.example:%PORT%/v1/chat/completions', chat, { headers: {}, mode: 'no-cors' })`, "opaque 0", "POST " + chatPath + " 403"},
	{"network: a form", "", `submit('http://lan.example:%PORT%/v1/chat/completions', 'text/plain', chat + '=')`, "loaded", "POST " + chatPath + " 403"},
	{"network: a form without a referrer", evil + "?Referrer-Policy=no-referrer", `submit('http://lan.example:%PORT%/v1/chat/completions', 'text/plain', chat + '=')`, "loaded", "POST " + chatPath + " 403"},
	{"network: ping of a link", evil, `(() => { const a = document.createElement('a'); a.href = '#x'; a.ping = 'http://lan.example:%PORT%/v1/chat/completions'; document.body.append(a); a.click(); return 'clicked' })()`, "clicked", "POST " + chatPath + " 403"},
	{"network: report of a policy", evil + "?Content-Security-Policy=img-src%20'none'%3Breport-uri%20http://lan.example:%PORT%/v1/chat/completions", `put('img', { src: site })`, "failed", "POST " + chatPath + " 403"},
	{"network: what a page reads", evil, `get('http://lan.example:%PORT%/metrics')`, "TypeError", "GET /metrics 403"},
	{"network: feedback of a rebound page", "http://rebound.example:%PORT%/", `post('/feedback/purge', purge, { credentials: 'omit' })`, "basic 401", "POST /feedback/purge 401"},
}
