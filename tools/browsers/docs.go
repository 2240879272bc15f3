package main

import (
	"fmt"
	"strings"
)

// useDocs uses the page /docs as a reader does: looks for functions, opens one, and says
// what is there.
const useDocs = `(async () => {
	const shown = () => [...document.querySelectorAll('details')]
	for (let i = 0; i < 100 && shown().length === 0; i++) await new Promise(done => setTimeout(done, 50))
	const all = shown().length, filter = document.getElementById('filter')
	filter.value = 'CHAT'; filter.dispatchEvent(new Event('input'))
	const some = shown()
	some[0].open = true
	const text = some[0].innerText
	return [all > 20, some.length > 0 && some.length < all, some.every(d => d.innerText.includes('/chat/')), /messages/.test(text), /max_tokens/.test(text),
		getComputedStyle(document.body).maxWidth !== 'none', document.getElementById('title').textContent].join(' ')
})()`

// docs opens the page that describes the interface.
func (r *runner) docs() error {
	if !strings.Contains("docs", r.only) {
		return nil
	}
	p, err := r.browser.open("http://localhost:" + r.server.port + "/docs")
	if err != nil {
		return err
	}
	defer p.close()
	got, err := p.eval(useDocs)
	if err != nil {
		return err
	}
	var differs error
	if !strings.HasPrefix(got, "true true true true true true weir") {
		differs = fmt.Errorf("its list, filter, fields and style are %s", got)
	}
	if problems := p.console(); len(problems) > 0 {
		differs = fmt.Errorf("the console has %s", strings.Join(problems, "\n"))
	}
	r.verdict("the page /docs", differs, nil)
	if r.picture != "" {
		return p.picture(r.picture)
	}
	return nil
}
