package packages_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// installPage is run as it stands, so its addresses are the network's.
const installPage = "../../docs/install.md"

var parts = map[string][]string{
	"baton":     {"router", "forwarder", "relay", "anycast", "balance", "purge"},
	"baton-cdn": {"controller", "nameserver"},
}

// TestDebian: on a clean Debian 12 both packages install, serve a first request by the commands of docs/install.md, are upgraded below a download, are
// removed and purged.
func TestDebian(t *testing.T) { debianLife(t, debian12) }

// site is the network of docs/install.md around a container.
type site struct {
	*container
	client *lab.Host
	host   *lab.Host
	before string // files of the clean root
}

func newSite(t *testing.T, d distribution) *site {
	t.Helper()
	s := newNetwork(t)
	s.host.Lab().Need("mmdebstrap", "nsenter", "unshare", "findmnt")
	s.container = d.start(t, s.host)
	s.before = s.files()
	return s
}

func newNetwork(t *testing.T) *site {
	t.Helper()
	lab.NeedRoot(t)
	l := lab.New(t)
	s := &site{client: l.Host("client"), host: l.Host("router")}
	l.Link(lab.End{Host: s.client, Addrs: []string{"198.51.100.2/24"}}, lab.End{Host: s.host, Name: "eth0", Addrs: []string{"198.51.100.1/24"}}, lab.LinkOptions{})
	s.client.Route("default", "198.51.100.1")
	for i := 1; i <= 2; i++ {
		server := l.Host(fmt.Sprintf("s%d", i))
		l.Link(lab.End{Host: server, Addrs: []string{fmt.Sprintf("10.2.%d.2/24", i)}},
			lab.End{Host: s.host, Name: fmt.Sprintf("eth%d", i), Addrs: []string{fmt.Sprintf("10.2.%d.1/24", i)}}, lab.LinkOptions{})
		peers.Nginx(server, peers.NginxOptions{Workers: 1, NoAccessLog: true, Server: "location = / { return 200 welcome; }"})
	}
	s.host.Forward()
	return s
}

// files lists what is in the container but the package manager's own records, logs and caches.
func (s *site) files() string {
	return s.do(`find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/rpm -o -path /var/lib/systemd -o -path /var/cache -o -path /var/log/journal -o -path /var/tmp \
		-o -path /tmp -o -path /root -o -path /var/log/apt -o -path /var/log/dpkg.log -o -path '/etc/*-' -o -path /etc/.pwd.lock -o -path /proc -o -path /sys -o -path /dev \) -prune -o -print
		ls -d /run/baton* /var/log/baton* /sys/fs/bpf/baton* 2>/dev/null || true`)
}

// get asks for a path from the client, on a connection of its own.
func (s *site) get(path string) error {
	c := s.client.HTTPClient(5 * time.Second)
	defer c.CloseIdleConnections()
	r, err := c.Get("http://192.0.2.10" + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s, %v", r.Status, err)
	}
	return nil
}

type routerStatus struct {
	Version  string
	PID      int
	Sessions int
	Packets  map[string]uint64
}

func (s *site) router() routerStatus {
	s.t.Helper()
	var status routerStatus
	if err := json.Unmarshal([]byte(s.do("baton router status -o json")), &status); err != nil {
		s.t.Fatal(err)
	}
	return status
}

func debianLife(t *testing.T, d distribution) {
	s := newSite(t, d)
	before, after := makePackages(t, older, usual), makePackages(t, newer, "deb")
	s.put(one(t, before, "baton_*.deb"), one(t, before, "baton-cdn_*.deb"))
	steps := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"first request", s.firstRequest},
		{"nothing else is started", s.installed},
		{"upgrade", func(t *testing.T) {
			s.put(one(t, after, "baton_*.deb"), one(t, after, "baton-cdn_*.deb"))
			s.upgrade(t, "dpkg -i /root/*_"+newer+"_*.deb")
		}},
		{"remove", s.remove},
		{"purge", s.purge},
		{"purge with a broken configuration", s.purgeBroken},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { s.t = t; step.run(t) }) {
			t.FailNow() // the others build on it
		}
	}
	s.t = t
}

// firstRequest runs the page's commands: at most ten, in at most ten minutes.
func (s *site) firstRequest(t *testing.T) {
	began := time.Now()
	script := strings.ReplaceAll(block(t, installPage, "The first request", 1), "amd64", runtime.GOARCH)
	ask := block(t, installPage, "The first request", 2)
	if n := commandsIn(script) + commandsIn(ask); n > 10 || n < 3 {
		t.Errorf("%d commands to the first request, 10 at most", n)
	}
	// apt asks nothing where there is nobody to answer.
	out := s.do("set -e; cd /root; ln -s /root/baton_*.deb /tmp; apt() { apt-get -y -q \"$@\"; }\n" + script)
	if !strings.Contains(out, "nothing is started yet") {
		t.Errorf("the commands' output:\n%s", out)
	}
	lab.Eventually(t, 20*time.Second, func() error {
		got, err := s.client.Exec(t.Context(), "sh", "-c", strings.ReplaceAll(ask, "curl ", "curl -sS --max-time 5 "))
		if err != nil || got != "welcome" {
			return fmt.Errorf("%q, %v", got, err)
		}
		return nil
	})
	t.Logf("first request after %.1f s and %d commands", time.Since(began).Seconds(), commandsIn(script)+commandsIn(ask))
	if out := s.do(block(t, installPage, "The first request", 3)); !strings.Contains(out, "VIP 192.0.2.10:80") || !strings.Contains(out, "in the kernel") {
		t.Errorf("status and explain:\n%s", out)
	}
	if s.router().Packets["handoff"] == 0 {
		t.Error("the request was not handed off")
	}
	s.do("cd /root; apt-get -y -q install ./baton-cdn_*.deb")
}

// installed: besides the router nothing runs; examples are right, units too.
func (s *site) installed(t *testing.T) {
	active := s.do("systemctl list-units --no-legend --plain --state=active,activating,failed 'baton-*' | cut -d' ' -f1")
	if strings.TrimSpace(active) != "baton-router.service" {
		t.Errorf("units that are active or failed: %q", active)
	}
	for program, all := range parts {
		for _, part := range all {
			if out, err := s.try(fmt.Sprintf("%s %s check && %[1]s %[2]s schema >/dev/null && man %[1]s-%[2]s-run | grep -q 'configuration file'", program, part)); err != nil {
				t.Errorf("%s: %v\n%s", part, err, out)
			}
			if enabled, _ := s.try("systemctl is-enabled baton-" + part); strings.TrimSpace(enabled) != map[bool]string{true: "enabled", false: "disabled"}[part == "router"] {
				t.Errorf("baton-%s is %s", part, enabled)
			}
			if out, err := s.try("systemd-analyze verify --man=no baton-" + part + ".service"); err != nil || strings.Contains(out, "baton") {
				t.Errorf("baton-%s: %v\n%s", part, err, out)
			}
		}
		if out := s.do(program + " version"); out != program+" "+older+"\n" {
			t.Errorf("version: %q", out)
		}
	}
	for _, user := range []string{"relay", "anycast", "purge", "controller", "nameserver"} {
		s.do("getent passwd baton-" + user)
	}
	s.do(`bash -n /usr/share/bash-completion/completions/baton; test -s /usr/share/zsh/vendor-completions/_baton-cdn; test -s /usr/share/fish/vendor_completions.d/baton.fish`)
	if out := s.do("dpkg --verify baton baton-cdn"); strings.TrimSpace(out) != "??5?????? c /etc/baton/router.yaml" {
		t.Errorf("files that differ from the packages: %q", out)
	}
}

// upgrade installs later packages below a download: it goes on, and so does a connection that waits.
func (s *site) upgrade(t *testing.T, command string) {
	s.do("systemctl start baton-relay baton-purge")
	relay := s.do("systemctl show -P MainPID baton-relay")
	was := s.router()
	kept := s.client.HTTPClient(time.Minute)
	ask := func() error {
		r, err := kept.Get("http://192.0.2.10/128")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		return peers.CheckPattern(r.Body, peers.Files["/128"])
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	finish := s.download(t)
	lab.Eventually(t, 10*time.Second, func() error {
		if n := s.router().Sessions; n < 2 {
			return fmt.Errorf("%d sessions", n)
		}
		return nil
	})
	probed := s.probe()
	out := s.do(command)
	s.afterUpgrade(t, was, relay, out)
	if err := ask(); err != nil {
		t.Errorf("a connection of before: %v", err)
	}
	if err := finish(); err != nil {
		t.Errorf("the download: %v", err)
	}
	asked, failed, longest := probed()
	t.Logf("new connections during the upgrade: %d of %d failed, the longest took %d ms", failed, asked, longest.Milliseconds())
	if failed*4 > asked {
		t.Errorf("%d of %d new connections failed", failed, asked)
	}
}

// afterUpgrade checks what runs, and what the operator is told.
func (s *site) afterUpgrade(t *testing.T, was routerStatus, relay, out string) {
	t.Helper()
	if is := s.router(); is.Version != newer || is.PID == was.PID {
		t.Errorf("the router is version %s, process %d; was %s, %d\n%s", is.Version, is.PID, was.Version, was.PID, out)
	}
	if got := s.do("systemctl show -P MainPID baton-relay"); got != relay || !strings.Contains(out, "systemctl restart baton-relay") {
		t.Errorf("the relay's process was %s and is %s; the operator is told:\n%s", strings.TrimSpace(relay), strings.TrimSpace(got), out)
	}
	if got := s.do("baton purge status -o json | grep version"); !strings.Contains(got, newer) {
		t.Errorf("the purge: %s", got)
	}
	if strings.Contains(out, "warning") {
		t.Errorf("the upgrade warns:\n%s", out)
	}
	if got := s.do("grep -c s2 /etc/baton/router.yaml; cat /etc/baton/router.yaml"); strings.Contains(got, "put your addresses in") {
		t.Errorf("the operator's configuration is gone:\n%s", got)
	}
}

// download begins one, which does not end before the function that it returns is called.
func (s *site) download(t *testing.T) (finish func() error) {
	t.Helper()
	r, err := s.client.HTTPClient(time.Minute).Get("http://192.0.2.10/100m")
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowReader{from: r.Body, hurry: make(chan struct{})}
	t.Cleanup(func() { r.Body.Close() })
	ended := make(chan error, 1)
	go func() {
		ended <- peers.CheckPattern(slow, peers.Files["/100m"])
	}()
	return func() error {
		select {
		case err := <-ended:
			return fmt.Errorf("it has ended before the upgrade: %w", err)
		default:
		}
		close(slow.hurry)
		return <-ended
	}
}

// slowReader reads 64 KiB at most in 50 ms until hurry is closed.
type slowReader struct {
	from  io.Reader
	hurry chan struct{}
}

func (r *slowReader) Read(p []byte) (int, error) {
	select {
	case <-r.hurry:
	case <-time.After(50 * time.Millisecond):
	}
	return r.from.Read(p)
}

// probe opens connections until the function that it returns is called.
func (s *site) probe() func() (asked, failed int, longest time.Duration) {
	stop, done := make(chan struct{}), make(chan struct{})
	var asked, failed int
	var longest time.Duration
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			began := time.Now()
			asked++
			if s.get("/128") != nil {
				failed++
			}
			longest = max(longest, time.Since(began))
		}
	}()
	return func() (int, int, time.Duration) {
		close(stop)
		<-done
		return asked, failed, longest
	}
}

// hold opens a connection that stays, and returns what uses it.
func (s *site) hold(t *testing.T) func() error {
	t.Helper()
	c := s.client.HTTPClient(2 * time.Second)
	use := func() error {
		r, err := c.Get("http://192.0.2.10/128")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		return peers.CheckPattern(r.Body, peers.Files["/128"])
	}
	lab.Eventually(t, 20*time.Second, use)
	return use
}

// holdSpliced is hold of a container's router, which must have the session in the kernel.
func (s *site) holdSpliced(t *testing.T) func() error {
	t.Helper()
	use := s.hold(t)
	s.do("timeout 20 sh -c 'until baton router status >/dev/null 2>&1; do sleep 0.1; done'") // clients are served before commands
	if s.router().Sessions == 0 {
		t.Fatal("the router has no session in the kernel")
	}
	return use
}

// remove leaves the configuration, and nothing in the kernel: without the program nobody could look after sessions.
func (s *site) remove(t *testing.T) {
	use := s.holdSpliced(t)
	out := s.do("apt-get -y -q remove baton baton-cdn")
	if strings.Contains(out, "warning: baton") {
		t.Errorf("the removal warns:\n%s", out)
	}
	if use() == nil {
		t.Error("a session goes on without the program")
	}
	if out := s.do("ls -A /sys/fs/bpf | grep -v debug || true; ls /usr/bin/baton* 2>/dev/null || true; ip -br link | grep baton || true; systemctl list-units --no-legend --state=active 'baton*'"); out != "" {
		t.Errorf("left: %s", out)
	}
	s.do("test -e /etc/baton/router.yaml && test -e /etc/baton/controller.yaml")
}

// purge leaves nothing but the users.
func (s *site) purge(t *testing.T) {
	s.do("apt-get -y -q purge baton baton-cdn")
	was := map[string]bool{}
	for line := range strings.Lines(s.before) {
		was[line] = true
	}
	for line := range strings.Lines(s.files()) {
		if !was[line] {
			t.Errorf("left: %s", line)
		}
	}
}

// purgeBroken: where the removal could not clean up, the purge does.
func (s *site) purgeBroken(t *testing.T) {
	s.do("apt-get -y -q install /root/baton_*" + newer + "*.deb; systemctl stop baton-router 2>/dev/null || true")
	s.do(strings.Join(strings.Split(block(t, installPage, "The first request", 1), "\n")[1:], "\n"))
	use := s.holdSpliced(t)
	out := s.do("echo 'nonsense: 1' >>/etc/baton/router.yaml; apt-get -y -q remove baton")
	if !strings.Contains(out, "warning: baton-router may have left state in the kernel") {
		t.Errorf("the removal does not tell what it could not do:\n%s", out)
	}
	if err := use(); err != nil {
		t.Errorf("nothing was left, so that the purge has nothing to do: %v", err)
	}
	s.do("mkdir -p /sys/fs/bpf/baton_quic; apt-get -y -q purge baton") // as of a VIP of QUIC
	if left := s.do("ls -A /sys/fs/bpf | grep -v debug || true; ls -d /etc/baton /var/lib/baton* /run/baton* 2>/dev/null || true"); left != "" {
		t.Errorf("left: %s", left)
	}
	if use() == nil {
		t.Error("a session goes on without programs")
	}
}
