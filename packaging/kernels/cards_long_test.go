package kernels

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/guest"
)

// ways are how a network card may be set up under a router, as commands in each of the three guests. DEV is the interface that has the
// addresses then.
var ways = []struct {
	name, card, setup, dev string
}{
	{"virtio, offloads on", "eth0", "", "eth0"},
	{"virtio, offloads off", "eth0", "ethtool -K eth0 tx off rx off tso off gso off gro off 2>/dev/null || ethtool -K eth0 tx off tso off gso off gro off", "eth0"},
	{"e1000e, offloads on", "eth1", "", "eth1"},
	{"e1000e, offloads off", "eth1", "ethtool -K eth1 tx off rx off tso off gso off gro off", "eth1"},
	{"VLAN on virtio", "eth0", "ip link add link eth0 name eth0.7 type vlan id 7", "eth0.7"},
	{"VLAN on e1000e", "eth1", "ip link add link eth1 name eth1.7 type vlan id 7", "eth1.7"},
	{"bond of virtio", "eth0", "ip link set eth0 down; ip link add bond0 type bond mode active-backup miimon 100; ip link set eth0 master bond0; ip link set eth0 up", "bond0"},
	{"bridge on e1000e", "eth1", "ip link add br0 type bridge; ip link set eth1 master br0", "br0"},
	{"virtio, MTU 1280", "eth0", "ip link set eth0 mtu 1280", "eth0"},
	{"virtio, MTU 9000", "eth0", "ip link set eth0 mtu 9000", "eth0"},
	{"e1000e, MTU 9000", "eth1", "ip link set eth1 mtu 9000", "eth1"},
}

// cardsNetwork is three guests in line: client, router, surrogate, each with a virtio card of two queues (eth0) and an e1000e one (eth1) to
// each neighbour; the router's second pair is eth2 and eth3. Cables are bridges of two TAP devices. A namespace of this machine is a client too,
// on the first cable.
type cardsNetwork struct {
	t      *testing.T
	guests map[string]*guest.Guest
	beside *lab.Host
}

func newCardsNetwork(t *testing.T, s stage, kernel string) *cardsNetwork {
	t.Helper()
	l := lab.New(t)
	n := &cardsNetwork{t: t, guests: map[string]*guest.Guest{}}
	cables := map[string]*lab.Host{}
	for _, name := range []string{"front-virtio", "front-e1000e", "back-virtio", "back-e1000e"} {
		cables[name] = l.Host(name)
	}
	n.beside = cables["front-virtio"]
	card := func(side, model string, end int) guest.Card {
		c := guest.Card{Host: cables[side+"-"+model], Name: fmt.Sprintf("tap%d", end), MAC: []byte{2, 0xba, side[0], model[0], 0, byte(end)}, Model: "e1000e"}
		if model == "virtio" {
			c.Model, c.Queues = "virtio-net-pci", 2
		}
		return c
	}
	for _, g := range []struct {
		name  string
		cards []guest.Card
	}{
		{"client", []guest.Card{card("front", "virtio", 1), card("front", "e1000e", 1)}},
		{"router", []guest.Card{card("front", "virtio", 2), card("front", "e1000e", 2), card("back", "virtio", 1), card("back", "e1000e", 1)}},
		{"server", []guest.Card{card("back", "virtio", 2), card("back", "e1000e", 2)}},
	} {
		spec := guest.Spec{Name: g.name, Kernel: kernel, Flavour: guest.Plain, Folder: s.dir, Packages: []string{"python3"}, Memory: 1536, Cards: g.cards}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		booted, err := guest.Boot(ctx, l.Host(g.name), spec)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		n.guests[g.name] = booted
	}
	for _, h := range cables {
		bridge := h.Bridge("cable")
		bridge.SetMTU(9000)
		for _, end := range []string{"tap1", "tap2"} {
			tap := h.Interface(end)
			tap.SetMTU(9000)
			tap.Attach(bridge)
		}
		if h == n.beside {
			bridge.Address("10.1.0.9/24")
			h.Route("10.9.9.9/32", "10.1.0.1")
		}
	}
	return n
}

// do runs a script in a guest, which must succeed.
func (n *cardsNetwork) do(name, script string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 5*time.Minute)
	defer cancel()
	out, err := n.guests[name].Output(ctx, script)
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

const cardsConfig = `
vips:
  - {address: "10.9.9.9:80", interfaces: [DEV], routes: [{pool: p4}]}
  - {address: "[fd09::9]:80", interfaces: [DEV], routes: [{pool: p6}]}
pools:
  p4: {surrogates: [{name: s4, address: "10.2.0.2:80"}]}
  p6: {surrogates: [{name: s6, address: "[fd02::2]:80"}]}
`

// set gives the guests' interfaces this way's shape and addresses, and starts the router.
func (n *cardsNetwork) set(setup, dev string) {
	n.t.Helper()
	// On the router the back pair is eth2 and eth3: the same commands with the names moved by two.
	back := strings.NewReplacer("eth0", "eth2", "eth1", "eth3", "bond0", "bond1", "br0", "br1")
	up := func(setup, dev string, addrs ...string) string {
		script := "for d in eth0 eth1 eth2 eth3; do ip link set $d up 2>/dev/null; done\n" + setup + "\nip link set " + dev + " up\n"
		for _, a := range addrs {
			script += "ip addr add " + a + " dev " + dev + " nodad\n"
		}
		return strings.ReplaceAll(script, ".0.2/24 dev "+dev+" nodad", ".0.2/24 dev "+dev)
	}
	n.do("client", up(setup, dev, "10.1.0.2/24", "fd01::2/64")+"ip route replace default via 10.1.0.1; ip -6 route replace default via fd01::1")
	n.do("server", up(setup, dev, "10.2.0.2/24", "fd02::2/64")+"ip route replace default via 10.2.0.1; ip -6 route replace default via fd02::1\n"+
		"(python3 /srv/site.py 80 >/tmp/site.log 2>&1 </dev/null &)")
	n.do("router", "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1\n"+up(setup, dev, "10.1.0.1/24", "fd01::1/64")+
		up(back.Replace(setup), back.Replace(dev), "10.2.0.1/24", "fd02::1/64")+
		"cat > /tmp/router.yaml <<'END'\n"+strings.ReplaceAll(cardsConfig, "DEV", dev)+"END\n"+
		"(/srv/programs/baton router run -c /tmp/router.yaml >/tmp/router.log 2>&1 </dev/null &)\n"+
		"n=0; until /srv/programs/baton router status 2>/dev/null | grep -q s6; do n=$((n+1)); [ $n -lt 60 ] || { cat /tmp/router.log; exit 1; }; sleep 1; done")
	for _, vip := range []string{"10.9.9.9", "[fd09::9]"} {
		script := "n=0; until curl -sfm 5 http://" + vip + "/a/1 >/dev/null; do n=$((n+1)); [ $n -lt 30 ] || exit 1; sleep 1; done"
		if _, err := n.guests["client"].Output(n.t.Context(), script); err != nil {
			n.t.Fatalf("%s does not answer: %s\n%s", vip, n.do("client", "curl -svm 5 http://"+vip+"/a/1 2>&1 || true; ip addr; ip route; ip -6 route"),
				n.do("router", "cat /tmp/router.log; /srv/programs/baton router status; ip addr; ip route; ip neigh; curl -svm 5 10.2.0.2/a/1 2>&1 || true"))
		}
	}
}

// clear takes all of it away again.
func (n *cardsNetwork) clear() {
	n.do("router", "pkill baton; sleep 1; cat /tmp/router.log; /srv/programs/baton router cleanup -c /tmp/router.yaml >/dev/null")
	n.do("server", "pkill python3 || true")
	for name := range n.guests {
		n.do(name, `ip -6 route del default 2>/dev/null; for d in eth0.7 eth1.7 eth2.7 eth3.7 bond0 bond1 br0 br1; do ip link del $d 2>/dev/null; done
			for d in /sys/class/net/eth*; do d=${d##*/}; ip link set $d nomaster 2>/dev/null; ip addr flush dev $d; ip link set $d mtu 1500; ip -6 route flush dev $d
				ethtool -K $d tx on rx on tso on gso on gro on >/dev/null 2>&1; done; true`)
	}
}

// TestCards: one router between three guests; bytes are right over real network cards' drivers, however they are set up, and no checksum is
// wrong at a receiver that computes them itself.
func TestCards(t *testing.T) {
	needGuests(t)
	s := makeStage(t, runtime.GOARCH, nil)
	script, err := os.ReadFile("site.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.dir+"/site.py", script, 0o644); err != nil {
		t.Fatal(err)
	}
	const size = 4_000_000
	block := bytes.Repeat(sequence(), 256)
	pattern := bytes.Repeat(block, size/len(block)+1)[:size]
	want := fmt.Sprintf("%x", sha256.Sum256(pattern))
	for _, kernel := range quickKernels(t) {
		t.Run(kernel, func(t *testing.T) {
			n := newCardsNetwork(t, s, kernel)
			n.do("client", "python3 -c \"open('/tmp/upload','wb').write((bytes(range(256))*256*62)[:4000000])\"")
			for _, w := range ways {
				t.Run(w.name, func(t *testing.T) {
					n.t = t
					defer n.clear()
					n.set(w.setup, w.dev)
					for _, vip := range []string{"10.9.9.9", "[fd09::9]"} {
						get := fmt.Sprintf("curl -sfm 240 http://%s/a/%d | sha256sum", vip, size)
						if got, _, _ := strings.Cut(n.do("client", get), " "); got != want {
							t.Errorf("download from %s: digest %s, want %s", vip, got, want)
						}
						post := fmt.Sprintf("curl -sfm 240 -H Expect: --data-binary @/tmp/upload http://%s/", vip)
						if got := n.do("client", post); got != want {
							t.Errorf("upload to %s: digest %s, want %s", vip, got, want)
						}
					}
					if w.dev == "eth0" {
						out, err := n.beside.Exec(t.Context(), "sh", "-c", fmt.Sprintf("curl -sfm 240 http://10.9.9.9/a/%d | sha256sum", size))
						if got, _, _ := strings.Cut(out, " "); got != want || err != nil {
							t.Errorf("download to a namespace of this machine: digest %s, %v, want %s", got, err, want)
						}
					}
					status := n.do("router", "/srv/programs/baton router status -o json")
					if !strings.Contains(status, `"handoff"`) {
						t.Errorf("nothing was handed off:\n%s", status)
					}
					for name := range n.guests {
						if errs := n.do(name, "nstat -asz | awk '/CsumErrors/ && $2 != 0'"); errs != "" {
							t.Errorf("%s: wrong checksums:\n%s", name, errs)
						}
					}
				})
			}
		})
	}
}

// sequence is all bytes, in order.
func sequence() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
