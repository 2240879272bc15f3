package weaveapi

var objectRoutes = []route{}
