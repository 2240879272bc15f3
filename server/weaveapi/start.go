package weaveapi

var startRoutes = []route{}
