// Package jinja renders chat templates. It implements the part of Jinja2 that they are
// written in, with the behaviour of the Python underneath. It sees nothing but the
// template, its variables and a clock.
//
//	t, err := jinja.Compile(source)
//	vars := jinja.NewDict(2)
//	vars.Set("messages", messages) // values as FromJSON makes them
//	vars.Set("add_generation_prompt", true)
//	text, err := t.Render(vars, jinja.Options{})
//
// A [Template] does not change and any number of goroutines may render it. Values are
// plain Go values, [List] and [Dict] (see [Value]).
//
// # What is the same as in Jinja2
//
// The model is Jinja2 3.1.6 on Python 3.11, set up as transformers does for chat
// templates: ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks, loop
// controls (break, continue), the generation tag, the functions raise_exception and
// strftime_now, and a tojson that is json.dumps with its arguments. The output is the
// same byte for byte, and where Jinja2 raises an exception there is an error of the same
// class and text. That takes more than the syntax: dicts keep their order, 1 and 1.0
// differ, ints are of any size, lengths count characters, str has Python's methods, map
// and select are lazy, and variables have the scopes of the Python code that Jinja2
// compiles a template to.
//
// # How a template is rendered
//
//	source   lexer (lexer.go)   parser (parse*.go)   resolver (resolve*.go)   machine
//	 text  ───────────────▶ tokens ──────────▶ tree ──────────▶ tree with slots ───▶ text
//
// The resolver finds out which variable each name means, with Jinja2's own algorithm. A
// variable becomes a slot in the activation of a function: the template itself, a macro,
// a block or a recursive loop. So rendering looks no name up. For example:
//
//	{% set n = 1 %}{% for m in messages %}{{ n }}{% set n = n + m.size %}{% endfor %}{{ n }}
//
//	slot 0   messages, from the variables passed to Render
//	slot 1   n of the template
//	slot 2   m
//	slot 3   n of the loop; each round begins with the value of slot 1
//
// With two messages of size 5 it writes 111: what a loop sets is lost after the round, as
// in Jinja2. Expressions have a method eval and statements a method exec, which are called
// down the tree (eval.go, exec.go). A chat of three messages takes about ten microseconds.
//
// # Safety
//
// A template may come from a request, so it is treated as hostile. Every render is under
// [Limits]. Nesting is bounded wherever something recurses, since a Go program cannot
// survive an overflow of its stack: in the parser (150 levels, an expression 350 high), in
// macros (Limits.Depth), in printing, comparing, hashing and tojson (900), and in FromJSON
// (501). Compile refuses more than MaxSource bytes.
//
// Limits.Steps counts statements, rounds of loops, calls, filters and items. Expressions
// of more than eight nodes count more, and so does every operation that touches a long text
// or many items: comparing, hashing and searching a text count a step for each 64 or 128
// bytes, what looks at every character a step for each 8. A step thus takes about 100 ns,
// whatever the template does. meter_test.go holds every filter, test, method and operator
// to that. After each slice of 16,384 steps the render looks at Options.Done, so that it
// ends a few milliseconds after the client has left. With the templates in
// circulation, a conversation of 1,000 messages takes five thousand to a hundred thousand
// steps, and a little over a million where a template searches all messages for each of
// them.
//
// # What differs from Jinja2
//
//   - {% autoescape %} and the escape \N{...} are syntax errors. The filters random,
//     pprint, urlize and wordwrap, the function lipsum and the methods encode, translate
//     and maketrans of str fail. None of them has a use in a prompt.
//   - include, import, from and extends are parsed and fail when they are executed, as
//     they do in Jinja2 without a loader.
//   - {% set x.y %}...{% endset %} needs a namespace, as {% set x.y = z %} does. Jinja2
//     lacks the check and would write into a dict.
//   - A constant expression that fails, fails when it is executed. Jinja2 evaluates it
//     while compiling, and makes some of them, such as ("a")[1:] of a wrong type,
//     undefined instead.
//   - Lone surrogates become U+FFFD, because strings are UTF-8 here.
//   - Nesting stops earlier than in Python in some places and later in others.
//   - Unicode properties are those of the Go release (15.0); Python 3.11 has 14.0.
//
// # Tests
//
// Expected outputs and errors come from Jinja2 itself (tools/golden): whole templates by
// requests (testdata/templates), small cases by subject (testdata/unit), and random
// templates (testdata/random.jsonl). safety_test.go has hostile templates.
//
// # Files
//
// value.go, dict.go, number.go, unicode.go and compare.go have the values and their
// operations; attribute.go, call.go and iterate.go what can be done with them; repr.go,
// spec.go, format.go, formatter.go and strftime.go how they are printed. filter*.go,
// tests.go, globals.go, method.go and str*.go are the environment. fromjson.go and
// tojson.go are Python's json module. machine.go has the state of a render, analyze.go
// finds out what a template expects of messages.
package jinja
