package weaveapi

var callRoutes = []route{}
