package weaveapi

var queueRoutes = []route{}
