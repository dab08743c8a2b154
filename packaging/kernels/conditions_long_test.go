package kernels

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/lab/guest"
)

// conditions are hosts that forbid or lack something, and what the router says when it starts there: "" if it serves.
var conditions = []struct {
	name   string
	append string // to the kernel's command line
	before string // commands that make it so
	wrap   string // in front of the program's command
	says   string // a regular expression for the one line
}{
	{name: "as it is"},
	{name: "lockdown=integrity", append: "lockdown=integrity"},
	{name: "lockdown=confidentiality", append: "lockdown=confidentiality"},
	{name: "IPv6 off", append: "ipv6.disable=1"},
	{name: "no JIT", before: "sysctl -qw net.core.bpf_jit_enable=0", says: `net\.core\.bpf_jit_enable`},
	{name: "unprivileged BPF allowed", before: "sysctl -qw kernel.unprivileged_bpf_disabled=0"},
	{name: "unprivileged BPF forbidden for good", before: "sysctl -qw kernel.unprivileged_bpf_disabled=1"},
	{name: "BTF hidden", before: "mkdir /tmp/none; mount --bind /tmp/none /sys/kernel/btf", says: `BTF`},
	{name: "no BPF file system", before: "umount /sys/fs/bpf; mount -t tmpfs none /sys/fs/bpf"}, // it mounts one
	{name: "no tun", before: "rm /dev/net/tun", says: `/dev/net/tun`},
	{name: "cgroup v1", before: "umount /sys/fs/cgroup; mount -t tmpfs none /sys/fs/cgroup; mkdir /sys/fs/cgroup/v1; mount -t cgroup -o none,name=v1 none /sys/fs/cgroup/v1"},
	{name: "no locked memory", wrap: "prlimit --memlock=0"},
	{name: "root without capabilities", wrap: "setpriv --bounding-set=-all --inh-caps=-all", says: `CAP_[A-Z_]+`},
	{name: "a user namespace", wrap: "unshare --user --map-root-user", says: `CAP_[A-Z_]+|bpf\(\)|container`},
}

const conditionsConfig = `
vips: [{address: "10.9.9.9:80", interfaces: [front], routes: [{pool: p}]}]
pools: {p: {surrogates: [{name: s, address: "10.2.0.2:80"}]}}
`

// conditionsNetwork is a client and a surrogate, in namespaces.
const conditionsNetwork = `
cable() { ip netns add $1; ip link add $2 type veth peer name eth0 netns $1; ip addr add $3/24 dev $2; ip link set $2 up
	ip -n $1 link set lo up; ip -n $1 addr add $4/24 dev eth0; ip -n $1 link set eth0 up; ip -n $1 route add default via $3; }
cable client front 10.1.0.1 10.1.0.2
cable s back 10.2.0.1 10.2.0.2
sysctl -qw net.ipv4.ip_forward=1
printf 'pid /run/n.pid; events {}\nhttp { access_log off; server { listen 80; location / { return 200 welcome; } } }\n' > /tmp/n.conf
ip netns exec s nginx -c /tmp/n.conf >/dev/null 2>&1 </dev/null
`

// partConfigs are the smallest configurations of the parts that load programs.
var partConfigs = map[string]string{
	"balance":   "links: [front, back]",
	"forwarder": "ports: [front, back]\nlisten: [tcp:127.0.0.1:6654]",
	"purge":     "dry_run: true\npolicies: [{name: web, ports: [80]}]",
	"relay":     "name: near\nentries: [{listen: 127.0.0.1:8080, destination: 10.2.0.2:80}]",
}

// routerScript starts the router, and says SERVES if it does, else what it said. %[1]s makes the host so, %[2]s stands before the command.
const routerScript = `set -e
` + conditionsNetwork + `
%[1]s
cat > /tmp/router.yaml <<'END'
` + conditionsConfig + `END
cd /tmp
%[2]s /srv/programs/baton router run -c /tmp/router.yaml > /tmp/router.log 2>&1 </dev/null &
n=0
while kill -0 $! 2>/dev/null; do
	[ "$(ip netns exec client curl -sm 5 http://10.9.9.9/ || true)" != welcome ] || { echo SERVES; kill $!; wait $! || true; exit; }
	n=$((n+1)); [ $n -lt 60 ] || { echo HANGS; cat /tmp/router.log; exit; }
	sleep 1
done
cat /tmp/router.log`

// partScript says what check-host does of a part: %[1]s (works, degraded, refused), starts it, and says RUNS when its control socket answers,
// else what it said.
const partScript = `printf '%[3]s\n' > /tmp/%[1]s.yaml
cd /tmp
%[2]s /srv/programs/baton check-host %[1]s 2>/dev/null | awk '/^PART/ { on = 1; next } on { print $2; exit }'
%[2]s /srv/programs/baton %[1]s run -c /tmp/%[1]s.yaml > /tmp/%[1]s.log 2>&1 </dev/null &
n=0
while kill -0 $! 2>/dev/null; do
	if /srv/programs/baton %[1]s status >/dev/null 2>&1; then echo RUNS; kill $!; wait $!; exit 0; fi
	n=$((n+1)); [ $n -lt 60 ] || { echo HANGS; break; }
	sleep 1
done
cat /tmp/%[1]s.log`

// TestConditions: on a host that forbids or lacks something each part serves, or says in one line what is in its way; check-host tells which.
func TestConditions(t *testing.T) {
	needGuests(t)
	s := makeStage(t, runtime.GOARCH, nil)
	for _, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			g, err := bootGuest(t, s, guest.Suite, guest.Spec{Append: c.append})
			if err != nil {
				t.Fatal(err)
			}
			said, status := runScript(t, g, fmt.Sprintf(routerScript, c.before, c.wrap))
			switch {
			case status != 0:
				t.Fatalf("exit status %d: %s", status, said)
			case c.says == "" && said != "SERVES":
				t.Errorf("the router does not serve:\n%s", said)
			case c.says != "" && (strings.Contains(said, "\n") || !regexp.MustCompile(c.says).MatchString(said)):
				t.Errorf("the router does not say in one line what is in its way (%s):\n%s", c.says, said)
			}
			t.Log("router: " + said)
			for _, part := range slices.Sorted(maps.Keys(partConfigs)) {
				out, _ := runScript(t, g, fmt.Sprintf(partScript, part, c.wrap, partConfigs[part]))
				verdict, said, _ := strings.Cut(out, "\n")
				switch runs := strings.HasPrefix(said, "RUNS"); {
				case verdict == "works" && !runs, verdict == "refused" && runs, !slices.Contains([]string{"works", "degraded", "refused"}, verdict):
					t.Errorf("check-host says of %s: %s, and its start says:\n%s", part, verdict, said)
				case !runs && strings.Contains(said, "\n"):
					t.Errorf("%s does not say in one line what is in its way:\n%s", part, said)
				}
				t.Logf("%s: %s: %s", part, verdict, said)
			}
		})
	}
}

func runScript(t *testing.T, g *guest.Guest, script string) (said string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := g.Run(ctx, guest.Command{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(r.Output + r.Errors), r.Status
}
