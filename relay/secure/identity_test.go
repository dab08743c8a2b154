package secure

import (
	"os"
	"strings"
	"testing"

	"baton/relay/config"
	"baton/relay/secure/securetest"
)

func TestIdentities(t *testing.T) {
	a := securetest.NewAuthority(t)
	c1, c2 := a.Issue(t, securetest.Certificate{Names: []string{"r1"}}), a.Issue(t, securetest.Certificate{Names: []string{"r2"}})
	plain := config.Credentials{Security: config.Plaintext}
	cfg := &config.Config{
		Trunks: &config.Trunks{Credentials: c1}, Peers: []config.Peer{{Name: "a", Credentials: c1}, {Name: "b", Credentials: plain}},
	}
	var all Identities
	if _, err := all.Of(&c1); err == nil {
		t.Error("an identity that nobody has loaded")
	}
	if err := all.Load(cfg); err != nil {
		t.Fatal(err)
	}
	first, err := all.Of(&c1)
	if err != nil || len(all.known) != 1 {
		t.Fatalf("%d identities, %v, want one", len(all.known), err)
	}
	had := first.now.Load()

	// A fault anywhere changes nothing.
	a.Replace(t, c1, securetest.Certificate{Names: []string{"changed"}})
	bad := c2
	bad.Authority = t.TempDir()
	cfg.Peers[1] = config.Peer{Name: "b", Credentials: bad}
	if err := all.Load(cfg); err == nil || !strings.Contains(err.Error(), "credentials of peer b: read authorities: ") {
		t.Errorf("got %v", err)
	}
	if first.now.Load() != had {
		t.Error("a load that has failed has changed an identity")
	}

	cfg.Peers[1].Credentials = c2
	if err := all.Load(cfg); err != nil {
		t.Fatal(err)
	}
	if again, _ := all.Of(&c1); again != first || first.now.Load() == had {
		t.Error("an identity is not what its files are now")
	}
	if _, err := all.Of(&c2); err != nil {
		t.Error(err)
	}
	cfg.Peers = cfg.Peers[:1]
	if err := all.Load(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Of(&c2); err == nil {
		t.Error("files that are not named any more are known")
	}
	if err := os.Remove(c1.Key); err != nil {
		t.Fatal(err)
	}
	if err := all.Load(cfg); err == nil || !strings.Contains(err.Error(), "credentials of trunks: read certificate: ") {
		t.Errorf("got %v", err)
	}
}

// A second trunk to a peer resumes the first one's session, and does not when the files were read anew: by then somebody may not be
// trusted any more.
func TestSessions(t *testing.T) {
	a := securetest.NewAuthority(t)
	files := a.Issue(t, securetest.Certificate{Names: []string{"r2"}})
	cfg := &config.Config{Trunks: &config.Trunks{Credentials: files}}
	var all Identities
	if err := all.Load(cfg); err != nil {
		t.Fatal(err)
	}
	r2, err := all.Of(&files)
	if err != nil {
		t.Fatal(err)
	}
	r1 := identity(t, a.Issue(t, securetest.Certificate{Names: []string{"r1"}}))
	trunk := func() (resumed bool, err error) {
		p := newPair(t, r1, r2)
		opener, acceptor := p.shake()
		if acceptor == nil {
			err = opener
			if name := p.acceptor.Names("r1"); name != nil {
				t.Errorf("the opener's name: %v", name)
			}
		} else {
			err = acceptor
		}
		write(t, p.acceptor, []byte("hello")) // the ticket is in front of it
		if got, _ := p.pass(p.acceptor, p.opener); err == nil && string(got) != "hello" {
			t.Errorf("got %q", got)
		}
		if a, b := p.opener.tls.ConnectionState().DidResume, p.acceptor.tls.ConnectionState().DidResume; a != b {
			t.Errorf("resumed: opener %t, acceptor %t", a, b)
		}
		return p.opener.tls.ConnectionState().DidResume, err
	}
	expectTrunk := func(when string, want bool) {
		t.Helper()
		if resumed, err := trunk(); err != nil || resumed != want {
			t.Errorf("%s: resumed %t, %v, want %t", when, resumed, err, want)
		}
	}
	expectTrunk("the first trunk", false)
	expectTrunk("the second trunk", true)
	if err := all.Load(cfg); err != nil {
		t.Fatal(err)
	}
	expectTrunk("the first trunk after a reload", false)
	expectTrunk("the second trunk after a reload", true)
	a.Replace(t, files, securetest.Certificate{Names: []string{"r2"}, Trusts: securetest.NewAuthority(t)})
	if err := all.Load(cfg); err != nil {
		t.Fatal(err)
	}
	p := newPair(t, r1, r2)
	if _, err := p.shake(); err == nil {
		t.Error("a session is resumed whose authority is not trusted any more")
	}
}
