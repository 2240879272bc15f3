package transport

import (
	"net"
	"net/netip"
)

// Tenant returns the name of those with whom the sender of the request shares its part of
// the machine. With keys it is the tenant of the key, where each key of the command line is
// a tenant of its own ([auth.Identity].Share). Without keys, and on open routes, it is the
// address of the client: an IPv4 address, the /64 network of an IPv6 address, which is what
// one customer usually has, or one name for all clients of Unix sockets. The result is
// bounded: clients cannot choose it, as they choose the name of their project. It may be
// called at any time, from any goroutine that has the call.
func (c *Call) Tenant() string {
	if c.Who != nil && c.Who.Share != "" {
		return c.Who.Share
	}
	return c.conn.address
}

// clientAddress returns the tenant of the clients at an address; see [Call.Tenant].
func clientAddress(a net.Addr) string {
	var ip netip.Addr
	if tcp, ok := a.(*net.TCPAddr); ok {
		ip, _ = netip.AddrFromSlice(tcp.IP)
	}
	switch ip = ip.Unmap().WithZone(""); {
	case !ip.IsValid():
		return "local"
	case ip.Is4():
		return "address " + ip.String()
	}
	return "address " + netip.PrefixFrom(ip, 64).Masked().String()
}

// Weights returns the weights of the tenant of the call and of its project, in hundredths, as
// the credentials file has them now ([auth.Keyring.Weights]).
func (c *Call) Weights() (tenant, project int) {
	t, p := c.server.keys.Weights(c.Tenant(), c.Project)
	return int(t), int(p)
}

// Turn returns whose turn the request takes in a [Queue].
func (c *Call) Turn() Turn {
	t := Turn{Tenant: c.Tenant(), Project: c.Project}
	t.Weight, t.ProjectWeight = c.Weights()
	return t
}
