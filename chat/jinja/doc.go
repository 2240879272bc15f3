// Package jinja renders chat templates: the part of Jinja2 that they are
// written in, with the behaviour of Python behind it.
//
// The reference is Jinja2 3.1.6 on Python 3.11, set up as transformers does for
// chat templates: ImmutableSandboxedEnvironment with trim_blocks and
// lstrip_blocks, loop controls (break, continue), the generation tag, the
// functions raise_exception and strftime_now, and a tojson that is json.dumps
// with its arguments. What a template writes is the reference's output byte for
// byte, and where the reference raises an exception there is an error of the
// same class and text. That takes more than the syntax: dicts keep their order,
// 1 and 1.0 differ, ints are of any size, text counts characters, str methods
// are Python's, variables have the scopes of the Python code that Jinja2
// compiles to, map and select are lazy.
//
//	t, err := jinja.Compile(source)
//	vars := jinja.NewDict(2)
//	vars.Set("messages", messages) // values as FromJSON makes them
//	vars.Set("add_generation_prompt", true)
//	text, err := t.Render(vars, jinja.Options{})
//
// # Safety
//
// A template may come from a request, so it is taken as hostile. It reaches
// nothing but its variables and the clock. Every render is under Limits, and
// whatever walks something nested is bounded, since a Go program cannot survive
// an overflow of its stack: the parser (nesting 150, height of an expression
// 350), macros (Limits.Depth), printing, comparing, hashing and tojson (nesting
// 900), FromJSON (500). Compile refuses more than MaxSource bytes.
//
// A step of Limits.Steps is a statement, a round of a loop, a call, a filter or
// an item looked at; expressions of more than eight nodes and work on long
// texts count more. Under the templates in circulation a conversation of 1,000
// messages takes five to a hundred thousand steps, and a little over a million
// where a template looks through all messages for each.
//
// # What differs from the reference
//
//   - {% autoescape %} and the escape \N{...} are syntax errors; the filters
//     random, pprint, urlize and wordwrap and the function lipsum do not exist
//     for a template; str has no encode, translate and maketrans. None of them
//     has a use in a prompt.
//   - include, import, from and extends parse and fail when they are reached, as
//     in the reference, which has no loader.
//   - {% set x.y %}...{% endset %} needs a namespace, as {% set x.y = z %} does.
//     The reference forgets the check and would write into a dict.
//   - A constant expression whose evaluation fails is an error where it is
//     reached; the reference's constant folding makes ("a")[1:] of a wrong type
//     undefined instead.
//   - Lone surrogates, which our strings cannot hold, become U+FFFD.
//   - Nesting stops earlier than in Python in some places and later in others.
//   - Unicode properties are those of the Go release (15.0), Python 3.11 has 14.0.
package jinja
