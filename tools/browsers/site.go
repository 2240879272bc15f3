package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// site serves the pages from which the browser calls weir. It stands for all origins: the
// page is the same whatever name it is called by.
type site struct {
	port string
	http *http.Server
}

func blank(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprint(w, "<!doctype html><title>a page</title><link rel=icon href=data:,><body>")
}

func startSite() (*site, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{}
	_, s.port, _ = net.SplitHostPort(ln.Addr().String())
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		for _, name := range []string{"Referrer-Policy", "Content-Security-Policy"} {
			if value := query.Get(name); value != "" {
				w.Header().Set(name, value)
			}
		}
		blank(w)
	})
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "*")
		if r.Method != http.MethodOptions {
			w.Header().Set("Location", r.URL.Query().Get("url"))
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	mux.HandleFunc("/worker.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = fmt.Fprint(w, "onmessage = async m => { try { const r = await fetch(...m.data); postMessage(r.type + ' ' + r.status) } catch (e) { postMessage(e.name) } }")
	})
	s.http = &http.Server{Handler: mux}
	go func() { _ = s.http.Serve(ln) }()
	return s, nil
}

// helpers are JavaScript that all programs of the checks begin with. weir is the server's
// address; %PORT%, %SITE% and %ID% are replaced.
const helpers = `
const weir = 'http://localhost:%PORT%', site = 'http://localhost:%SITE%', id = '%ID%'
const json = { 'Content-Type': 'application/json' }
const question = { model: 'weir-tiny', messages: [{ role: 'user', content: 'What is the capital of France?' }], max_tokens: 8, temperature: 0 }
const chat = JSON.stringify(question), streamed = JSON.stringify({ ...question, stream: true })
const query = JSON.stringify({ project_id: 'acme/app', query: { $expr: { $eq: [{ $literal: 1 }, { $literal: 1 }] } } })
const written = JSON.stringify({ project_id: 'acme/app', weave_ref: 'weave:///acme/app/call/x', feedback_type: 'note', payload: { x: '=' } })
const purge = JSON.stringify({ project_id: 'acme/app', query: { $expr: { $in: [{ $getField: 'id' }, [id, '='].map($literal => ({ $literal }))] } } })
const chats = weir + '/v1/chat/completions', feedback = weir + '/feedback/', agent = weir + '/v1/preview/models/agent'

// said is what a page learns of an answer.
const said = async (f) => { try { const r = await f(); return r.type + ' ' + r.status } catch (e) { return e.name } }
const get = (url, init) => said(() => fetch(url, init))
const post = (url, body, init) => get(url, { method: 'POST', body, headers: json, ...init })

// put adds an element to the page, and says whether it was loaded.
const put = (name, attributes) => new Promise(done => {
  const e = document.createElement(name)
  e.onload = () => done('loaded'); e.onerror = () => done('failed'); setTimeout(() => done('nothing'), 3000)
  Object.assign(e, attributes); document.body.append(e)
})

// submit sends a body as a form does: the text before the first = is the name of a field.
const submit = (url, enctype, body, target) => new Promise(done => {
  const form = document.createElement('form'), field = document.createElement('input'), at = body.indexOf('=')
  Object.assign(field, { type: 'hidden', name: body.slice(0, at), value: body.slice(at + 1) })
  Object.assign(form, { method: 'post', action: url, enctype })
  if (target !== undefined) form.target = target
  else {
    const frame = document.createElement('iframe')
    frame.name = form.target = 'frame' + Math.random(); document.body.append(frame)
    frame.onload = () => done('loaded')
  }
  form.append(field); document.body.append(form); form.submit()
  if (target !== undefined) done('sent')
})

// inFrame runs a program in a frame and says what it said.
const inFrame = (program, attributes) => new Promise(done => {
  addEventListener('message', m => done(m.data), { once: true })
  const text = '<script>(async () => { let v; try { const r = await ' + program + '; v = r.type + " " + r.status } catch (e) { v = e.name }; parent.postMessage(v, "*") })()<\/script>'
  const e = document.createElement('iframe')
  if (attributes.blob) e.src = URL.createObjectURL(new Blob([text], { type: 'text/html' })); else if (attributes.data) e.src = 'data:text/html,' + encodeURIComponent(text); else e.srcdoc = text
  if (attributes.sandbox) e.setAttribute('sandbox', attributes.sandbox)
  document.body.append(e)
})
const asText = (url, body) => 'fetch(' + JSON.stringify(url) + ', ' + JSON.stringify({ method: 'POST', body }) + ')'
`

// program is a program with the helpers and the places.
func (s *site) program(before, text, port string) string {
	return "(async () => { " + strings.NewReplacer("%PORT%", port, "%SITE%", s.port, "%ID%", recordID).Replace(helpers+before+"\nreturn "+text) + " })()"
}
