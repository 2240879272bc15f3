package jinja

// iteratesContent looks for {% for part in message.content %} where message is
// the variable of a loop over messages, or over a variable set to messages (or
// to a slice or a filtered form of it). These are the rules by which vLLM
// (vllm/renderers/hf.py) tells the two content formats apart; scopes are
// ignored, and a loop or assignment that unpacks such a value ends the search
// with no.
func iteratesContent(body []stmt) bool {
	var loops []*forStmt
	sets := map[string][]target{} // what is assigned from a variable, by its name
	var look func(any)
	look = func(n any) {
		switch n := n.(type) {
		case *forStmt:
			loops = append(loops, n)
		case *setStmt:
			if name := variableOf(n.value, ""); name != "" {
				sets[name] = append(sets[name], n.target)
			}
		}
		children(n, look)
	}
	each(body, look)

	lists := map[string]bool{"messages": true}
	for queue := []string{"messages"}; len(queue) > 0; queue = queue[1:] {
		for _, t := range sets[queue[0]] {
			n, ok := t.(*nameExpr)
			if !ok {
				return false
			}
			if !lists[n.name] {
				lists[n.name] = true
				queue = append(queue, n.name)
			}
		}
	}
	items := map[string]bool{}
	for _, l := range loops {
		if lists[variableOf(l.source, "")] {
			n, ok := l.target.(*nameExpr)
			if !ok {
				return false
			}
			items[n.name] = true
		}
	}
	for _, l := range loops {
		if items[variableOf(l.source, "content")] {
			_, ok := l.target.(*nameExpr)
			return ok
		}
	}
	return false
}

// variableOf returns the name of the variable that e reads, or reads the
// attribute key of if that is given; through filters, tests and slices.
func variableOf(e expr, key string) string {
	for {
		switch n := e.(type) {
		case *filterExpr:
			e = n.input
			continue
		case *testExpr:
			e = n.input
			continue
		case *itemExpr:
			if _, ok := n.key.(*sliceExpr); ok {
				e = n.object
				continue
			}
			if c, ok := n.key.(*constExpr); ok && key != "" && c.value == key {
				return nameOf(n.object)
			}
		case *attributeExpr:
			if key != "" && n.name == key {
				return nameOf(n.object)
			}
		case *nameExpr:
			if key == "" {
				return n.name
			}
		}
		return ""
	}
}

func nameOf(e expr) string {
	if n, ok := e.(*nameExpr); ok && n.use == useLoad {
		return n.name
	}
	return ""
}
