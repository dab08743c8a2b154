package kernels

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
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

// TestConditions: on a host that forbids or lacks something the router serves, or says in one line what is in its way.
func TestConditions(t *testing.T) {
	needGuests(t)
	s := makeStage(t, runtime.GOARCH, nil)
	for _, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			g, err := bootGuest(t, s, guest.Suite, guest.Spec{Append: c.append})
			if err != nil {
				t.Fatal(err)
			}
			script := fmt.Sprintf(`set -e
%s
%s
cat > /tmp/router.yaml <<'END'
%sEND
cd /tmp
%s /srv/programs/baton router run -c /tmp/router.yaml > /tmp/router.log 2>&1 </dev/null &
n=0
while kill -0 $! 2>/dev/null; do
	[ "$(ip netns exec client curl -sm 5 http://10.9.9.9/ || true)" != welcome ] || { echo SERVES; exit; }
	n=$((n+1)); [ $n -lt 60 ] || { echo HANGS; cat /tmp/router.log; exit; }
	sleep 1
done
cat /tmp/router.log`, conditionsNetwork, c.before, conditionsConfig, c.wrap)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			r, err := g.Run(ctx, guest.Command{Script: script})
			if err != nil || r.Status != 0 {
				t.Fatalf("exit status %d, %v\n%s%s", r.Status, err, r.Output, r.Errors)
			}
			said := strings.TrimSpace(r.Output)
			switch {
			case c.says == "" && said != "SERVES":
				t.Errorf("the router does not serve:\n%s", said)
			case c.says != "" && (strings.Contains(said, "\n") || !regexp.MustCompile(c.says).MatchString(said)):
				t.Errorf("the router does not say in one line what is in its way (%s):\n%s", c.says, said)
			}
			t.Log(said)
		})
	}
}
