package jinja

// This is the syntax tree. The parser makes its nodes, and the resolver fills in which
// variable a name means. After that they are only read: expressions have a method that
// evaluates them and statements one that executes them.

type expr interface {
	eval(m *machine) Value
}

type stmt interface {
	exec(m *machine) signal
}

// target is a node that can be assigned to.
type target interface {
	assign(m *machine, v Value)
}

// signal says how a statement ended.
type signal uint8

const (
	sigNone signal = iota
	sigBreak
	sigContinue
)

type nameUse uint8

const (
	useLoad nameUse = iota
	useStore
	useFor   // target of a loop
	useParam // parameter of a macro, target of with
)

// variable says where the value of a name is: in this slot of the activation that is hops
// functions further out.
type variable struct{ hops, slot int }

type (
	constExpr struct{ value Value }

	// nameExpr reads a variable, or assigns to it if it is used as a target.
	nameExpr struct {
		name string
		use  nameUse
		variable
		// export says that blocks see the assigned value too.
		export  bool
		unknown *undefined // its value while it is unset
	}

	tupleExpr struct{ items []expr }
	listExpr  struct{ items []expr }
	dictExpr  struct{ keys, values []expr }

	condExpr struct {
		test, then, otherwise expr // otherwise may be nil
		line                  int
	}
	andExpr struct{ left, right expr }
	orExpr  struct{ left, right expr }
	notExpr struct{ operand expr }

	signExpr struct {
		operand  expr
		negative bool
	}
	binaryExpr struct {
		op          tokenKind
		left, right expr
	}
	concatExpr  struct{ parts []expr }
	compareExpr struct {
		first expr
		rest  []comparison
	}
	comparison struct {
		op      tokenKind // tokEOF for the operator in
		negated bool      // not in
		operand expr
	}

	attributeExpr struct {
		object expr
		name   string
	}
	itemExpr  struct{ object, key expr }
	sliceExpr struct{ start, stop, step expr } // any may be nil; only as an itemExpr's key

	callExpr struct {
		callee expr
		args   *arguments
	}
	// filterExpr applies a filter; input is nil in {% filter %} and in
	// {% set %}...{% endset %}, where the block's text is the input.
	filterExpr struct {
		input  expr
		name   string
		args   *arguments
		filter *filterDef // nil: unknown
		line   int
	}
	testExpr struct {
		input expr
		name  string
		args  *arguments
		test  *testDef // nil: unknown
		line  int
	}
)

// arguments are the arguments of a call, as written.
type arguments struct {
	pos        []expr
	names      []string
	values     []expr // of names
	star, dict expr   // *star, **dict; nil if absent
}

type (
	// nsTarget is ns.attr in {% set ns.attr = ... %}.
	nsTarget struct {
		name *nameExpr
		attr string
	}
	tupleTarget struct{ items []target }
)

// frame lists the initial values of a scope's variables.
type frame struct{ loads []load }

type loadKind uint8

const (
	loadUnset   loadKind = iota
	loadContext          // from the variables passed to Render, and the globals
	loadOuter            // from the variable of the same name further out
	loadParam            // not set here: it is a parameter
)

type load struct {
	kind   loadKind
	slot   int
	global int      // loadContext: index into Template.globals
	outer  variable // loadOuter
}

// function is a part of the template with an activation of its own.
type function struct {
	parent *function
	depth  int // number of functions around it
	size   int // slots
	slots  map[slotKey]int
}

type slotKey struct {
	level int
	name  string
}

type (
	dataStmt struct{ text string }

	printStmt struct {
		value expr
		line  int
		cost  int64 // steps: at least 1
	}

	ifStmt struct {
		branches  []ifBranch
		otherwise []stmt
	}
	ifBranch struct {
		test expr
		cost int64
		line int
		body []stmt
	}

	forStmt struct {
		target    target
		source    expr
		filter    *loopFilter // nil without if
		body      []stmt
		otherwise []stmt
		line      int
		cost      int64

		loopSlot  int // of the variable loop, -1 if nothing reads it
		frame     frame
		elseFrame frame
		recursive *function // the loop's function if it is recursive
	}
	// loopFilter is the condition of a for statement. It is a function of its own, which
	// is called for each item.
	loopFilter struct {
		fn     *function
		target target
		test   expr
		cost   int64
		frame  frame
	}

	setStmt struct {
		target     target
		value      expr
		namespaces []*nameExpr // that must hold namespaces
		line       int
		cost       int64
	}
	setBlockStmt struct {
		target target
		filter *filterExpr // the outermost of the chain; nil without
		body   []stmt
		frame  frame
		line   int
		cost   int64
	}
	filterBlockStmt struct {
		filter *filterExpr
		body   []stmt
		frame  frame
		line   int
		cost   int64
	}
	withStmt struct {
		targets []target
		values  []expr
		body    []stmt
		frame   frame
		line    int
		cost    int64
	}

	macroStmt struct {
		def    *macroDef
		target *nameExpr
	}
	callStmt struct {
		def  *macroDef
		call *callExpr
		line int
		cost int64
	}
	// generationStmt marks the assistant's text for training. Its body is a function, as
	// in transformers, so its assignments are not seen outside.
	generationStmt struct {
		def *macroDef
	}

	blockStmt struct {
		block *blockDef
		// locals are the variables that a scoped block sees.
		locals   []blockLocal
		scoped   bool
		required bool
		line     int
	}
	blockLocal struct {
		name string
		variable
	}

	breakStmt    struct{ line int }
	continueStmt struct{ line int }

	// templateStmt is include, import, from or extends. As there is no other template, it
	// is parsed and fails when it is executed.
	templateStmt struct{ line int }
)

// macroDef is the body of a macro, of a call block or of a generation block.
type macroDef struct {
	name     string // "" where Jinja2 has None
	params   []*nameExpr
	defaults []expr // of the last len(defaults) parameters
	cost     int64  // steps of the defaults
	body     []stmt
	line     int

	fn    *function
	frame frame
	// The slots of the implicit parameters, -1 for those that the body does not read.
	caller, kwargs, varargs int
	explicitCaller          bool // caller is among params
	readsCaller             bool
}

func (d *macroDef) displayName() string {
	if d.name == "" {
		return "anonymous"
	}
	return repr(d.name)
}

type blockDef struct {
	name       string
	body       []stmt
	fn         *function
	frame      frame
	self, over int // slots of self and super, -1 if the body does not read them
}

// children calls f for every child of n: expressions, statements and targets, in the order
// of the source.
func children(n any, f func(any)) {
	switch n := n.(type) {
	case *tupleExpr:
		each(n.items, f)
	case *listExpr:
		each(n.items, f)
	case *dictExpr:
		for i := range n.keys {
			f(n.keys[i])
			f(n.values[i])
		}
	case *condExpr:
		f(n.test)
		f(n.then)
		visit(n.otherwise, f)
	case *andExpr:
		f(n.left)
		f(n.right)
	case *orExpr:
		f(n.left)
		f(n.right)
	case *notExpr:
		f(n.operand)
	case *signExpr:
		f(n.operand)
	case *binaryExpr:
		f(n.left)
		f(n.right)
	case *concatExpr:
		each(n.parts, f)
	case *compareExpr:
		f(n.first)
		for _, c := range n.rest {
			f(c.operand)
		}
	case *attributeExpr:
		f(n.object)
	case *itemExpr:
		f(n.object)
		f(n.key)
	case *sliceExpr:
		visit(n.start, f)
		visit(n.stop, f)
		visit(n.step, f)
	case *callExpr:
		f(n.callee)
		n.args.children(f)
	case *filterExpr:
		visit(n.input, f)
		n.args.children(f)
	case *testExpr:
		f(n.input)
		n.args.children(f)
	case *nsTarget:
		f(n.name)
	case *tupleTarget:
		each(n.items, f)
	default:
		stmtChildren(n, f)
	}
}

func stmtChildren(n any, f func(any)) {
	switch n := n.(type) {
	case *printStmt:
		f(n.value)
	case *ifStmt:
		for _, b := range n.branches {
			f(b.test)
			each(b.body, f)
		}
		each(n.otherwise, f)
	case *forStmt:
		f(n.target)
		f(n.source)
		each(n.body, f)
		each(n.otherwise, f)
		if n.filter != nil {
			f(n.filter.test)
		}
	case *setStmt:
		f(n.target)
		f(n.value)
	case *setBlockStmt:
		f(n.target)
		if n.filter != nil {
			f(n.filter)
		}
		each(n.body, f)
	case *filterBlockStmt:
		each(n.body, f)
		f(n.filter)
	case *withStmt:
		each(n.targets, f)
		each(n.values, f)
		each(n.body, f)
	case *macroStmt:
		n.def.children(f)
	case *callStmt:
		f(n.call)
		n.def.children(f)
	case *generationStmt:
		n.def.children(f)
	case *blockStmt:
		each(n.block.body, f)
	}
}

func (d *macroDef) children(f func(any)) {
	each(d.params, f)
	each(d.defaults, f)
	each(d.body, f)
}

func (a *arguments) children(f func(any)) {
	if a == nil {
		return
	}
	each(a.pos, f)
	each(a.values, f)
	visit(a.star, f)
	visit(a.dict, f)
}

func each[T any](nodes []T, f func(any)) {
	for _, n := range nodes {
		f(n)
	}
}

func visit(e expr, f func(any)) {
	if e != nil {
		f(e)
	}
}
