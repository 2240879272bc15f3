package weaveapi

var spanRoutes = []route{}
