package transport

import (
	"net"
	"testing"

	"weir/auth"
)

// A client's tenant is that of its key, else its address: one IPv4 address, or one /64
// network of IPv6.
func TestTenant(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 4711, Zone: "eth0"} }
	for _, c := range []struct {
		addr net.Addr
		want string
	}{
		{tcp("192.0.2.7"), "address 192.0.2.7"},
		{tcp("::ffff:192.0.2.7"), "address 192.0.2.7"},
		{tcp("2001:db8:1:2:3:4:5:6"), "address 2001:db8:1:2::/64"},
		{tcp("2001:db8:1:2:ffff::1"), "address 2001:db8:1:2::/64"},
		{tcp("2001:db8:1:3::1"), "address 2001:db8:1:3::/64"},
		{tcp("fe80::1"), "address fe80::/64"},
		{&net.UnixAddr{Name: "/run/weir.sock", Net: "unix"}, "local"},
		{&net.UnixAddr{Name: "127.0.0.1:80", Net: "unix"}, "local"},
		{&net.TCPAddr{}, "local"},
		{nil, "local"},
	} {
		call := &Call{Who: auth.Anonymous, conn: &conn{address: clientAddress(c.addr)}}
		if got := call.Tenant(); got != c.want {
			t.Errorf("%v: tenant %q, want %q", c.addr, got, c.want)
		}
	}

	keys, err := auth.New([]string{"one", "two"}, "")
	if err != nil {
		t.Fatal(err)
	}
	one, two := &Call{Who: keys.Token("one"), conn: &conn{address: "x"}}, &Call{Who: keys.Token("two"), conn: &conn{address: "x"}}
	if one.Tenant() == two.Tenant() || one.Tenant() == "x" {
		t.Errorf("keys of the command line: tenants %q and %q", one.Tenant(), two.Tenant())
	}
	if one.Who.Tenant != two.Who.Tenant {
		t.Error("keys of the command line store as different tenants")
	}
}
