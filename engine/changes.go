package engine

// watch has the changes of a new prefix cache listed, if somebody asks for them.
func (e *Engine) watch() {
	if e.cfg.Changes != nil && e.cfg.Caching {
		e.kv.Watch(e.cfg.MostChanges)
	}
}

// handChanges gives out what has changed in the prefix cache.
func (e *Engine) handChanges() {
	if c := e.kv.Changes(); c != nil && (c.Lost || len(c.List) > 0) {
		e.cfg.Changes(c)
		c.Reset()
	}
}
