package anycastflashcrowd

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"

	"baton/lab"
)

// limit bounds what an interface sends, with a queue of 100 ms.
func limit(n *lab.Interface, megabits int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rate, queue := fmt.Sprintf("%dmbit", megabits), fmt.Sprint(megabits*1_000_000/8/10)
	out, err := n.Host.Exec(ctx, "tc", "qdisc", "replace", "dev", n.Name, "root", "tbf", "rate", rate, "burst", "5000", "limit", queue)
	if err != nil {
		return fmt.Errorf("limit %s: %w %s", n.Name, err, out)
	}
	return nil
}

// unlimit takes that away.
func unlimit(n *lab.Interface) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if out, err := n.Host.Exec(ctx, "tc", "qdisc", "del", "dev", n.Name, "root"); err != nil {
		return fmt.Errorf("unlimit %s: %w %s", n.Name, err, out)
	}
	return nil
}

// sent is how many bytes an interface has sent.
func sent(n *lab.Interface) (bytes uint64, err error) {
	link, err := n.Host.Netlink().LinkByName(n.Name)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", n.Name, err)
	}
	return link.Attrs().Statistics.TxBytes, nil
}

// waiting is how many packets are in its queue.
func waiting(n *lab.Interface) (packets uint32, err error) {
	link, err := n.Host.Netlink().LinkByName(n.Name)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", n.Name, err)
	}
	all, err := n.Host.Netlink().QdiscList(link)
	if err != nil {
		return 0, fmt.Errorf("ask for the queue of %s: %w", n.Name, err)
	}
	for _, q := range all {
		if q.Type() == "tbf" && q.Attrs().Parent == netlink.HANDLE_ROOT && q.Attrs().Statistics != nil {
			return q.Attrs().Statistics.Queue.Qlen, nil
		}
	}
	return 0, fmt.Errorf("%s has no queue", n.Name)
}
