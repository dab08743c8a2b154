package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"baton/lab"
	"baton/router/discover/discovertest"
)

// TestDiscoverController: clients go to the surrogates that a controller says are near, in the kernel, and go on to do so without it, whatever it said last,
// and after a restart. A controller that is wrong takes nothing away.
func TestDiscoverController(t *testing.T) {
	const (
		token      = "7c3a"
		at         = "10.2.1.1:8080" // of the router's host
		surrogates = `{"name":"s1","address":"10.2.1.2:80","up":true,"state":"in-service","weight":1},{"name":"s2","address":"10.2.2.2:80","up":true,"state":"in-service","weight":1}`
	)
	n := newNetwork(t)
	far, front := n.clientHost("far", lab.LinkOptions{})
	n.nginxes("s1", "s2")
	file := filepath.Join(n.Dir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(near, far string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"surrogates":[%s],"zones":[{"prefix":"10.1.0.0/24","surrogates":[%s]},{"prefix":"10.1.1.0/24","surrogates":[%s]}]}`, surrogates, near, far))
	}
	begin := func(token string, said json.RawMessage) (*discovertest.Controller, func()) {
		l, err := n.router.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		return discovertest.ServeController(l, token, said)
	}
	goesTo := func(from *lab.Host, want string) {
		t.Helper()
		lab.Eventually(t, answersWithin, func() error {
			for range 4 { // as in no zone, it would go to each in turn
				if got, err := answeredBy(t, from); err != nil || got != want {
					return fmt.Errorf("%s is answered by %q, %v, want %s", from.Name(), got, err, want)
				}
			}
			return nil
		})
	}

	controller, stop := begin(token, says(`"s1","s2"`, `"s2","s1"`))
	pool := fmt.Sprintf("    policy: nearest\n    discover: {controller: {url: \"ws://%s\", token_file: %s}, prefix: near/}\n", at, file)
	r := n.start(strings.Replace(n.discovering(pool), "["+n.front.Name+"]", "["+n.front.Name+", "+front.Name+"]", 1))
	r.has(t, "near/s1", "near/s2")
	goesTo(n.client, "s1")
	goesTo(far, "s2")
	if out, err := n.baton(t.Context(), "router", "explain", "http://10.9.9.9/x", "--client", "10.1.1.2", "--control", r.socket); err != nil ||
		!strings.Contains(out, "zone 10.1.1.0/24") || !strings.Contains(out, "kernel") {
		t.Errorf("explain: %v\n%s", err, out)
	}

	l := n.load(t)
	controller.Say(says(`"s2","s1"`, `"s1","s2"`)) // the network has changed
	goesTo(n.client, "s2")
	goesTo(far, "s1")
	maintained := strings.Replace(string(says(`"s2","s1"`, `"s1","s2"`)), `"state":"in-service"`, `"state":"maintenance"`, 1) // s1
	controller.Say(json.RawMessage(maintained))
	goesTo(far, "s2")
	controller.Say(says(`"s2","s1"`, `"s1","s2"`))
	goesTo(far, "s1")
	for _, wrong := range []struct{ said, kind string }{{`{"surrogates":[],"zones":[]}`, "nodata"}, {`"what"`, "malformed"}} {
		controller.Say(json.RawMessage(wrong.said))
		r.fails(t, wrong.kind)
	}
	controller.Say(json.RawMessage(`{"surrogates":[` + surrogates + `],"zones":[]}`)) // it has begun anew, and has seen no clients
	lab.Eventually(t, answersWithin, func() error {
		if d := r.status().Pools[0].Discover[0]; d.Error != "" {
			return fmt.Errorf("source %+v", d)
		}
		return nil
	})
	goesTo(n.client, "s2")
	goesTo(far, "s1")
	stop()
	r.fails(t, "lost")
	r.fails(t, "unreachable")
	goesTo(n.client, "s2")
	goesTo(far, "s1")
	r.has(t, "near/s1", "near/s2")

	l.end(t)
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	r.restart(t)
	r.has(t, "near/s1", "near/s2")
	goesTo(n.client, "s2")
	goesTo(far, "s1")

	_, stop = begin("other", says(`"s1"`, `"s2"`))
	r.fails(t, "refused")
	stop()
	goesTo(n.client, "s2")
	_, stop = begin(token, says(`"s1","s2"`, `"s2","s1"`))
	defer stop()
	goesTo(n.client, "s1")
	goesTo(far, "s2")
	if d := r.status().Pools[0].Discover[0]; d.Error != "" || d.Surrogates != 2 {
		t.Errorf("the source with a controller again: %+v", d)
	}
}

// answeredBy is the surrogate that answers a new connection.
func answeredBy(t *testing.T, from *lab.Host) (string, error) {
	c, err := dial(t.Context(), from, vip4)
	if err != nil {
		return "", err
	}
	defer c.Close()
	got, err := c.get("h", "/128")
	return got.surrogate, err
}
