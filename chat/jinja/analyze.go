package jinja

// iteratesContent looks for {% for part in message.content %} where message is the
// variable of a loop over messages, or over a variable that was set to messages, to a slice
// of it or to a filtered form of it. By these rules vLLM (vllm/renderers/hf.py) decides
// which content format a template wants. Scopes are ignored, and the answer is no if a loop
// or an assignment unpacks such a value.
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

// variableOf returns the name of the variable that e reads, or if key is given, of the
// variable whose attribute key it reads. Filters, tests and slices around it are ignored.
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
