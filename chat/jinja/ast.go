package jinja

// The syntax tree. Nodes are made by the parser, completed by the resolver
// (which variable a name means) and then only read: expressions are evaluated
// and statements executed by their own methods.

type expr interface {
	eval(m *machine) Value
}

type stmt interface {
	exec(m *machine) signal
}

// target is what an assignment can assign to.
type target interface {
	assign(m *machine, v Value)
}

// signal tells how a statement ended.
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

// variable is where a name lives: slot of the activation hops functions out.
type variable struct{ hops, slot int }

type (
	constExpr struct{ value Value }

	// nameExpr reads a variable, or assigns it where it is a target.
	nameExpr struct {
		name string
		use  nameUse
		variable
		// export says that an assignment is seen by blocks too.
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
		op      tokenKind // tokEOF stands for in
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

// frame is what entering a scope does: give each of its variables a first value.
type frame struct{ loads []load }

type loadKind uint8

const (
	loadUnset   loadKind = iota
	loadContext          // from what the caller of Render passed, and the globals
	loadOuter            // from the variable of the same name further out
	loadParam            // set by other means
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
	// loopFilter is the condition of a for statement, a function of its own
	// that is called for one item after the other.
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
	}
	filterBlockStmt struct {
		filter *filterExpr
		body   []stmt
		frame  frame
		line   int
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
	// generationStmt marks the assistant's text for training; its body is a
	// function, as in the reference, so its assignments stay inside.
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

	// templateStmt is include, import, from or extends: there is no other
	// template, so it parses and fails when it is reached.
	templateStmt struct{ line int }
)

// macroDef is the body of a macro, of a call block or of a generation block.
type macroDef struct {
	name     string // "" where the reference has None
	params   []*nameExpr
	defaults []expr // of the last len(defaults) parameters
	body     []stmt
	line     int

	fn    *function
	frame frame
	// The slots of the implicit parameters, -1 where the body reads none.
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
	self, over int // slots of self and super, -1 where the body reads none
}

// children calls f for every node directly below n: expressions, statements
// and targets, in the order of the source.
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
