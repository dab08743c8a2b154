package forwarder_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"baton/lab"
	of "baton/openflow"
)

// TestRoles: of two controllers one becomes master; the other is a slave then, may ask and may not change, and hears of ports alone.
func TestRoles(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	one, two := s.connect(), s.connect()
	s.commit(one, add(5, of.Match{}.Port(1), output(of.PortController)), add(5, of.Match{}.Port(2), output(1)))
	role := func(r of.Role, generation uint64) *of.RoleRequest {
		return &of.RoleRequest{Role: r, Generation: generation}
	}
	reply, err := one.Request(s.within(), role(of.RoleMaster, 1))
	s.must(err)
	if got := reply.(*of.RoleReply); got.Role != of.RoleMaster || got.Generation != 1 {
		t.Errorf("answered %+v", got)
	}
	_, err = two.Request(s.within(), role(of.RoleMaster, 2))
	s.must(err)
	for _, m := range []of.Message{
		add(7, nil), &of.GroupMod{Group: 1}, &of.PortMod{Port: 1, MAC: s.port(two, 1).MAC},
		packetOut(of.PortController, make([]byte, 60), output(1)),
		&of.MeterMod{Command: of.MeterDelete, Meter: of.MeterAll}, &of.TableMod{Table: of.TableAll},
	} {
		refused(t, one.Commit(s.within(), m), of.BadRequestIsSlave)
	}
	if n := aggregate(s, one).Flows; n != 2 {
		t.Errorf("a slave sees %d flow entries", n)
	}
	_, err = one.Request(s.within(), role(of.RoleMaster, 1))
	refused(t, err, of.RoleRequestFailedStale)

	inject(t, s.outside(1), frame(nobody, somebody, localType, 60, 1))
	receive(s, two, "packet-in for the master", func(*of.PacketIn) bool { return true })
	s.outside(2).SetDown()
	receive(s, two, "port status for the master", func(m *of.PortStatus) bool { return m.Port.No == 2 })
	for {
		r, err := one.Receive(s.within())
		s.must(err)
		if m, ok := r.Message.(*of.PacketIn); ok {
			t.Errorf("a slave got %+v", m)
		}
		if m, ok := r.Message.(*of.PortStatus); ok && m.Port.No == 2 {
			break
		}
	}
	two.Close() // the master goes: the slave may take its place
	_, err = one.Request(s.within(), role(of.RoleMaster, 3))
	s.must(err)
	s.commit(one, add(7, nil))
}

// TestEndpoints: the forwarder is reached, and reaches, over TCP, a unix socket and TLS, with Open vSwitch's tools and certificates at the
// other end. A certificate of another authority is none.
func TestEndpoints(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.Need("ovs-pki", "ovs-ofctl", "ovs-testcontroller", "openssl")
	pki := func(dir, who string) string {
		base := s.path(dir)
		if _, err := s.exec("ovs-pki", "--dir="+base, "-l", "/dev/null", "-B", "2048", "init", "--force"); err != nil {
			t.Fatal(err)
		}
		sign := fmt.Sprintf("cd %s && ovs-pki --dir=%s -l /dev/null -B 2048 -u req+sign %s switch", base, base, who)
		if _, err := s.exec("sh", "-c", sign); err != nil {
			t.Fatal(err)
		}
		return base
	}
	ours, theirs := pki("pki", "both"), pki("other", "other")
	files := func(base, who string) []string {
		return []string{"--private-key=" + base + "/" + who + "-privkey.pem", "--certificate=" + base + "/" + who + "-cert.pem",
			"--ca-cert=" + ours + "/switchca/cacert.pem"}
	}
	socket := s.path("openflow.sock")
	s.configure(fmt.Sprintf(`listen: [%q, "unix:%s", "tls:127.0.0.1:6655"]
controllers: ["tls:127.0.0.1:6656"]
retry: {min: 50ms, max: 200ms}
tls: {certificate: %[3]s/both-cert.pem, key: %[3]s/both-privkey.pem, authority: %[3]s/switchca/cacert.pem}`, endpoint, socket, ours))
	s.run()
	show := func(args ...string) error {
		out, err := s.exec("ovs-ofctl", append([]string{"-O", "OpenFlow13", "--timeout=20"}, args...)...)
		if err == nil && !strings.Contains(out, "dpid:0000000000000007") {
			err = errors.New(out)
		}
		return err
	}
	s.must(show("show", endpoint))
	s.must(show("show", "unix:"+socket))
	s.must(s.process.Kill()) // which leaves the socket
	s.run()
	s.must(show("show", "unix:"+socket))
	s.must(show(append(files(ours, "both"), "show", "ssl:127.0.0.1:6655")...))
	if show(append(files(theirs, "other"), "show", "ssl:127.0.0.1:6655")...) == nil {
		t.Error("a certificate of another authority was taken")
	}
	_, err := s.node.Start(lab.Program{Path: "ovs-testcontroller",
		Args: append(files(ours, "both"), "pssl:6656:127.0.0.1", "-O", "OpenFlow13", "--unixctl=none")})
	s.must(err)
	lab.Eventually(t, patience, func() error { return s.ping(1, 2) }) // as the controller makes it a switch
}
