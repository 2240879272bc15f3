// Package ui holds the page that a browser gets: HTML, modules of JavaScript, a style sheet, and the
// libraries that they use. The files are in the binary as they are here. There is no build step: what a
// browser runs is what stands in files/.
//
//	index.html       the frame: navigation, the place of a view
//	app.js           the router by the fragment of the address, the key, the color scheme
//	api.js           requests with the key, errors, streams of server-sent events
//	dom.js           elements without HTML in strings, dialogs, messages, copying
//	text.js          Markdown, mathematics and code of models, sanitized
//	project.js       the project that feedback belongs to
//	chat/            what the view of conversations consists of
//	chart.js         charts by uPlot in the colors of the page
//	steps.js         the strip of the engine's steps
//	views/NAME.js    one view each; "#/NAME/rest" leads to it
//	vendor/NAME      libraries as they were published, each with its license
//
// # A view
//
// A view is a module that exports title and mount:
//
//	export const title = 'Live'
//	export function mount(root, { rest, query, signal }) { … }
//
// mount fills root and may be asynchronous. signal is aborted when the user leaves the view; requests
// and listeners of a view take it, so nothing of a view goes on unseen. A view asks the server only
// through api.js, and only for functions that are documented, so that a page of somebody else can do
// whatever this one does. A view is loaded when it is first shown.
//
// # What texts of others can do
//
// Nothing: dom.js sets texts, never HTML. Where Markdown of a model becomes HTML, DOMPurify makes it a
// fragment of allowed elements. The policy that the server sends with the page (Policy) forbids inline scripts, inline styles,
// other servers and frames, and has the browser refuse any HTML in a string that did not come from DOMPurify
// (Trusted Types), so that a mistake in a view is an error and not a hole.
//
// # Tried and rejected
//
// A framework: the smallest ones are readable, but appending text to one node at 500 tokens per second
// is what a framework is in the way of. KaTeX: it places glyphs by inline styles, which the
// policy forbids; Temml writes MathML, which browsers set themselves. Compressed copies beside the files in the repository: they would
// have to be kept in step, and compressing a file once, when it is first asked for, takes a few milliseconds.
package ui
