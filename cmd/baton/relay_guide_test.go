package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"baton/api"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// block is a configuration or some commands of a guide.
var block = regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```")

const relayGuideFile = "../../docs/relay.md"

// relayGuide is the network of the relay's guide, in which its commands run: each machine has an interface, eth0, and the way between them
// is a router's.
type relayGuide struct {
	*testing.T
	text           string
	dir            string // for everybody to read: what is to be installed, and the files of the machine of one's own
	internet       *lab.Host
	client, server *lab.Host
	relays         map[string]*lab.Host
	running        map[string]*lab.Process
	calls          []int // that the unit allows
}

// TestRelayGuide does all that the guide shows, on machines of these names and addresses.
func TestRelayGuide(t *testing.T) {
	lab.NeedRoot(t)
	g := newRelayGuide(t)
	g.firewalls()
	ran := 0
	for _, m := range block.FindAllStringSubmatch(g.text, -1) {
		first, _, _ := strings.Cut(m[2], "\n")
		where, _, _ := strings.Cut(strings.TrimPrefix(first, "# "), ",")
		if m[1] == "yaml" {
			g.configure(where, m[2])
			continue
		}
		ran++
		switch where {
		case "on a machine of your own":
			g.must(g.internet, m[2])
		case "on frankfurt", "on mumbai":
			g.await()
			name := strings.TrimPrefix(where, "on ")
			out := g.must(g.relays[name], m[2])
			switch {
			case strings.Contains(m[2], "relay status"):
				g.headings(out)
			case strings.Contains(m[2], "systemctl restart"):
				g.stop(name)
				g.launch(name)
			case strings.Contains(m[2], "stop --graceful --wait"):
				if err := g.running[name].Wait(t.Context()); err != nil {
					t.Errorf("a relay that was to stop: %v", err)
				}
				g.launch(name)
			}
		case "on both":
			if strings.Contains(m[2], "systemctl enable") {
				g.start(m[2])
			} else {
				g.sameFlow(m[2])
			}
		case "on a client":
			g.fetch(m[2])
		default:
			t.Fatalf("where is this to be run?\n%s", m[2])
		}
	}
	if ran < 10 {
		t.Errorf("only %d blocks of commands were found", ran)
	}
	for name := range g.running {
		g.stop(name)
	}
}

// TestRelayGuideSecret has the two relays of the guide trust each other by a secret instead.
func TestRelayGuideSecret(t *testing.T) {
	lab.NeedRoot(t)
	g := newRelayGuide(t)
	line := regexp.MustCompile("`(plaintext: \\{[^`]*\\})`").FindStringSubmatch(g.text)
	if line == nil {
		t.Fatal("the guide has no credentials with a secret")
	}
	g.must(g.internet, regexp.MustCompile(`(?m)^\(umask .*openssl rand .*$`).FindString(g.text))
	for _, m := range block.FindAllStringSubmatch(g.text, -1) {
		switch {
		case strings.HasPrefix(m[2], "# mumbai\n"), strings.HasPrefix(m[2], "# frankfurt\n"):
			name, _, _ := strings.Cut(strings.TrimPrefix(m[2], "# "), "\n")
			g.configure(name, regexp.MustCompile(`(?m)^tls: .*$`).ReplaceAllString(m[2], line[1]))
		case strings.Contains(m[2], "systemctl enable"):
			g.start(strings.ReplaceAll(m[2], "*-key.pem", "relays-secret"))
		case strings.Contains(m[2], "time_starttransfer"):
			g.fetch(m[2])
		}
	}
	for _, w := range g.status("mumbai").Workers {
		if w.BadTrunkHeaders > 0 || w.BadHandshakes > 0 {
			t.Errorf("mumbai: %+v", w)
		}
	}
}

func newRelayGuide(t *testing.T) *relayGuide {
	t.Helper()
	text, err := os.ReadFile(relayGuideFile)
	if err != nil {
		t.Fatal(err)
	}
	l := lab.New(t)
	l.Need("openssl", "curl", "nft", "ip", "useradd")
	g := &relayGuide{
		T: t, text: string(text), internet: l.Host("internet"), client: l.Host("client"), server: l.Host("server"),
		relays:  map[string]*lab.Host{"frankfurt": l.Host("frankfurt"), "mumbai": l.Host("mumbai")},
		running: make(map[string]*lab.Process), calls: systemCalls(t, unitSetting(t, "SystemCallFilter")),
	}
	g.internet.Forward()
	for _, m := range []struct {
		host          *lab.Host
		address, next string
	}{
		{g.client, "192.0.2.20/29", "192.0.2.17"}, {g.relays["frankfurt"], "192.0.2.10/29", "192.0.2.9"},
		{g.relays["mumbai"], "203.0.113.7/24", "203.0.113.1"}, {g.server, "198.51.100.5/24", "198.51.100.1"},
	} {
		_, length, _ := strings.Cut(m.address, "/")
		l.Link(lab.End{Host: m.host, Name: "eth0", Addrs: []string{m.address}},
			lab.End{Host: g.internet, Addrs: []string{m.next + "/" + length}}, lab.LinkOptions{})
		m.host.Route("default", m.next)
	}
	// What clients send to the servers leads over frankfurt, once something there takes it.
	g.must(g.internet, "ip rule add from 192.0.2.20 lookup 7\nip route add 198.51.100.0/24 via 192.0.2.10 table 7")

	if g.dir, err = os.MkdirTemp("", "baton-guide-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(g.dir) })
	if err := os.Chmod(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"bin", "sbin", "packaging"} {
		if err := os.Mkdir(filepath.Join(g.dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyProgram(t, experimentstest.Program(t), filepath.Join(g.dir, "bin", "baton"))
	copyProgram(t, "/proc/self/exe", filepath.Join(g.dir, "sbin", "tester"))
	copyProgram(t, relayUnit, filepath.Join(g.dir, "packaging", "baton-relay.service"))
	// The lab's machines have no systemd: what starts the unit is [relayGuide.start].
	if err := os.WriteFile(filepath.Join(g.dir, "sbin", "systemctl"), []byte(`#!/bin/sh
case $* in
daemon-reload) ;;
"enable --now baton-relay") grep -q '^ExecStart=' /etc/systemd/system/baton-relay.service ;;
"restart baton-relay") ;;
"reload baton-relay")
	exec setpriv --reuid baton-relay --regid baton-relay --clear-groups $(sed -n 's/^ExecReload=//p' /etc/systemd/system/baton-relay.service) ;;
*) echo "systemctl $*: what is that?" >&2; exit 1 ;;
esac
`), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, h := range g.relays {
		g.privateFolders(name, h)
	}
	g.serve()
	return g
}

// privateFolders has a machine see its own changes of the folders where things are installed, and no other machine.
func (g *relayGuide) privateFolders(name string, h *lab.Host) {
	g.Helper()
	own := filepath.Join(g.dir, name)
	if err := os.Mkdir(own, 0o755); err != nil {
		g.Fatal(err)
	}
	g.must(h, "mount -t tmpfs none "+own+`
for folder in etc run usr/local; do
	mkdir -p `+own+`/$folder/upper `+own+`/$folder/work
	mount -t overlay none -o lowerdir=/$folder,upperdir=`+own+`/$folder/upper,workdir=`+own+`/$folder/work /$folder
done
rm -rf /etc/baton /usr/local/bin/baton /run/baton /run/baton-relay
mkdir /etc/baton
if getent passwd baton-relay; then userdel baton-relay; fi`)
}

func (g *relayGuide) serve() {
	g.Helper()
	l, err := g.server.Listen("tcp", "198.51.100.5:80")
	if err != nil {
		g.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 100_000))
		if r.URL.Path == "/long" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})}
	go server.Serve(l)
	g.Cleanup(func() { server.Close() })
}

// firewalls lets in what the guide's table says, and nothing else.
func (g *relayGuide) firewalls() {
	g.Helper()
	machines := map[string]*lab.Host{"frankfurt": g.relays["frankfurt"], "mumbai": g.relays["mumbai"], "server": g.server}
	addresses := map[string]string{"frankfurt": "192.0.2.10", "mumbai": "203.0.113.7", "clients": "192.0.2.16/29"}
	rows := regexp.MustCompile(`(?m)^\| (?:the )?(\w+) \| TCP (\d+) \| (?:the )?(\w+)`).FindAllStringSubmatch(g.text, -1)
	if len(rows) != len(machines) {
		g.Fatalf("%d rows of what firewalls let in: %v", len(rows), rows)
	}
	for _, row := range rows {
		h, from := machines[row[1]], addresses[row[3]]
		if h == nil || from == "" {
			g.Fatalf("who is who in %q?", row[0])
		}
		g.must(h, `nft add table ip cloud
nft add chain ip cloud input '{ type filter hook input priority -10; policy drop; }'
nft add rule ip cloud input ct state established,related accept
nft add rule ip cloud input iif lo accept
nft add rule ip cloud input ip saddr `+from+` tcp dport `+row[2]+` accept`)
	}
}

// run runs commands on a machine, in the folder of what is to be installed.
func (g *relayGuide) run(h *lab.Host, script string) (string, error) {
	p, err := h.Start(lab.Program{
		Path: "sh", Args: []string{"-eux"}, Stdin: strings.NewReader(script), Dir: g.dir, Unlogged: true,
		Env: []string{"PATH=" + filepath.Join(g.dir, "sbin") + ":/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"},
	})
	if err != nil {
		return "", err
	}
	select {
	case <-p.Done():
	case <-g.Context().Done():
	}
	if err := p.Wait(g.Context()); err != nil {
		return "", fmt.Errorf("on %s: %w\n%s", h.Name(), err, p.Log())
	}
	return p.Stdout(), nil
}

func (g *relayGuide) must(h *lab.Host, script string) string {
	g.Helper()
	out, err := g.run(h, script)
	if err != nil {
		g.Fatal(err)
	}
	return out
}

// configure writes a relay's file, and what keys and secrets there are beside it.
func (g *relayGuide) configure(name, text string) {
	g.Helper()
	h := g.relays[name]
	if h == nil {
		g.Fatalf("whose is this?\n%s", text)
	}
	g.must(h, "cat > /etc/baton/relay.yaml <<'END'\n"+text+"END\n"+
		`for f in relays-ca.pem relays-secret `+name+`.pem `+name+`-key.pem; do
	if [ -e $f ] && [ ! -e /etc/baton/$f ]; then cp -p $f /etc/baton; fi
done`)
}

// start runs the commands that install a relay, and does what systemd does then.
func (g *relayGuide) start(script string) {
	g.Helper()
	for _, name := range []string{"mumbai", "frankfurt"} {
		g.must(g.relays[name], script)
		g.launch(name)
	}
	g.await()
}

// launch does what systemd does to start the unit.
func (g *relayGuide) launch(name string) {
	g.Helper()
	h := g.relays[name]
	g.must(h, "install -d -o baton-relay -m 755 /run/"+unitSetting(g.T, "RuntimeDirectory")[0])
	user, err := strconv.Atoi(strings.TrimSpace(g.must(h, "id -u "+unitSetting(g.T, "User")[0])))
	if err != nil {
		g.Fatal(err)
	}
	g.running[name] = startConfined(g.T, h, user, unitSetting(g.T, "AmbientCapabilities"), g.calls, filepath.Join(g.dir, "sbin", "tester"),
		unitSetting(g.T, "ExecStart")...)
}

// stop is systemd's, too.
func (g *relayGuide) stop(name string) {
	g.Helper()
	p := g.running[name]
	if err := p.Stop(long); err != nil {
		g.Fatalf("stop: %v\n%s", err, p.Log())
	}
	if err := p.Wait(g.Context()); err != nil {
		g.Fatalf("a relay that was stopped: %v\n%s", err, p.Log())
	}
}

func (g *relayGuide) status(name string) (s api.RelayStatus) {
	g.Helper()
	if err := json.Unmarshal([]byte(g.must(g.relays[name], "baton relay status -o json")), &s); err != nil {
		g.Fatal(err)
	}
	return s
}

// await returns when frankfurt, if it has been started, can take flows.
func (g *relayGuide) await() {
	g.Helper()
	if g.running["frankfurt"] == nil {
		return
	}
	lab.Eventually(g, long, func() error {
		out, err := g.run(g.relays["frankfurt"], "baton relay status -o json")
		if err != nil {
			return err
		}
		var s api.RelayStatus
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			return err
		}
		for _, e := range s.Entries {
			if !e.Open {
				return fmt.Errorf("%s is not open:\n%s", e.Name, g.running["frankfurt"].Log())
			}
		}
		if s.Peers[0].Ready == 0 {
			return fmt.Errorf("no trunk is ready: %s\n%s", s.Peers[0].Failure, g.running["mumbai"].Log())
		}
		return nil
	})
}

// fetch runs a client's commands, each of which is a flow over both relays.
func (g *relayGuide) fetch(script string) {
	g.Helper()
	g.await()
	// A configuration that has other entries counts anew.
	before, far := g.status("frankfurt").Entries[0].Flows, g.status("mumbai").Trunks.Flows
	g.must(g.client, script)
	if s := g.status("frankfurt"); s.Entries[0].Flows != before+1 {
		g.Errorf("%d flows at frankfurt, %d before, after\n%s%s", s.Entries[0].Flows, before, script,
			g.must(g.relays["frankfurt"], "baton relay status; baton relay flows"))
	}
	if s := g.status("mumbai"); s.Trunks.Flows != far+1 {
		g.Errorf("%d flows at mumbai, %d before, after\n%s", s.Trunks.Flows, far, script)
	}
}

// headings looks for those of the guide's status in one that was printed.
func (g *relayGuide) headings(status string) {
	g.Helper()
	spaces := regexp.MustCompile(` +`)
	status = spaces.ReplaceAllString(status, " ")
	all := regexp.MustCompile(`(?m)^(?:ENTRY|PEER|TRUNKS) .*$`).FindAllString(g.text, -1)
	if len(all) < 3 {
		g.Fatalf("headings of the guide's status: %q", all)
	}
	for _, heading := range all {
		if !strings.Contains(status, spaces.ReplaceAllString(heading, " ")) {
			g.Errorf("no %q in\n%s", heading, status)
		}
	}
}

// sameFlow runs commands that tell of flows on both relays, while there is one.
func (g *relayGuide) sameFlow(script string) {
	g.Helper()
	c, err := g.client.Dial(g.Context(), "tcp", "192.0.2.10:80")
	if err != nil {
		g.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /long HTTP/1.1\r\nHost: www.example.net\r\n\r\n")
	if _, err := io.ReadFull(c, make([]byte, 100_000)); err != nil {
		g.Fatal(err)
	}
	id := make(map[string]bool)
	for name, h := range g.relays {
		out := g.must(h, script)
		if !strings.Contains(out, "192.0.2.20:") || !strings.Contains(out, "198.51.100.5:80") {
			g.Errorf("%s does not show the flow:\n%s", name, out)
		}
		var f api.RelayFlow
		if err := json.Unmarshal([]byte(out[strings.LastIndexByte(strings.TrimSpace(out), '\n')+1:]), &f); err != nil {
			g.Fatalf("%v in\n%s", err, out)
		}
		id[f.ID] = true
	}
	if len(id) != 1 || id[""] {
		g.Errorf("the flow is %v", id)
	}
}
