package lab

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Lose drops this share (0 to 1) of the packets that come in at the interface, at random and before any program of
// ours could see them. 0 ends it. The packets are those that the interface carries: without NoOffloads at the far
// end one of them may be 64 KiB of a stream.
func (n *Interface) Lose(share float64) {
	t := n.Host.lab.t
	t.Helper()
	n.Host.lab.Need("nft")
	if share < 0 || share > 1 {
		t.Fatalf("lab: loss of %s: %v is no share", n.Name, share)
	}
	const parts = 1_000_000
	rules := fmt.Sprintf("add table netdev %[1]s; delete table netdev %[1]s", n.lossTable())
	if share > 0 {
		chance := fmt.Sprintf("numgen random mod %d < %d", parts, int(math.Round(share*parts)))
		if share == 1 {
			chance = "" // no number that it draws is as large as the modulus
		}
		rules += fmt.Sprintf("; add table netdev %[1]s"+
			"; add chain netdev %[1]s in { type filter hook ingress device %[2]q priority -500; }"+
			"; add rule netdev %[1]s in %[3]s counter drop",
			n.lossTable(), n.Name, chance)
	}
	if _, err := n.nft(rules); err != nil {
		t.Fatalf("lab: loss of %s: %v", n.Name, err)
	}
}

// Lost returns how many packets Lose has dropped since its last call.
func (n *Interface) Lost() (int, error) {
	out, err := n.nft("list table netdev " + n.lossTable())
	if err != nil {
		return 0, fmt.Errorf("count losses of %s: %w", n.Name, err)
	}
	m := regexp.MustCompile(`counter packets (\d+)`).FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("count losses of %s: no counter in %q", n.Name, out)
	}
	return strconv.Atoi(m[1])
}

func (n *Interface) lossTable() string { return "loss_" + strconv.Itoa(n.Index) }

func (n *Interface) nft(rules string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.Host.Exec(ctx, "nft", rules)
}
