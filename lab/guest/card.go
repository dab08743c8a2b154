package guest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"baton/lab"
)

// Card is a network card of a guest: eth0, eth1, … in their order. Its other end is a TAP device on a lab's host.
type Card struct {
	Host   *lab.Host
	Name   string           // of the TAP device
	Model  string           // QEMU's: virtio-net-pci, e1000e; default: virtio-net-pci
	MAC    net.HardwareAddr // default: one that no other card of this process has
	Queues int              // default: 1
	Plain  bool             // without offloads between guest and device
}

var cardsMade atomic.Uint32

func (c *Card) setDefaults() {
	if c.Model == "" {
		c.Model = "virtio-net-pci"
	}
	if c.MAC == nil {
		n, id := cardsMade.Add(1), os.Getpid()
		c.MAC = net.HardwareAddr{0x02, 0xba, byte(id >> 8), byte(id), byte(n >> 8), byte(n)} // 02: local
	}
}

// nameCards loads the drivers of the cards and names them in their order, which is not that in which drivers find them.
func (g *Guest) nameCards(ctx context.Context, cards []Card) error {
	if len(cards) == 0 {
		return nil
	}
	var script strings.Builder
	script.WriteString("set -e\ncat /sys/bus/pci/devices/*/modalias | xargs modprobe -aqb || true\ncat /sys/bus/virtio/devices/*/modalias | xargs modprobe -aqb || true\n")
	for i, c := range cards {
		fmt.Fprintf(&script, "n=0; until d=$(grep -lxi %s /sys/class/net/*/address); do n=$((n+1)); [ $n -lt 100 ] || { echo 'no driver for %s' >&2; exit 1; }; sleep 0.1; done\n", c.MAC, c.Model)
		fmt.Fprintf(&script, "d=${d%%/address}; ip link set ${d##*/} name card%d\n", i)
	}
	for i := range cards {
		fmt.Fprintf(&script, "ip link set card%d name eth%d\n", i, i)
	}
	if _, err := g.Output(ctx, script.String()); err != nil {
		return fmt.Errorf("name the network cards of guest %s: %w", g.Name, err)
	}
	return nil
}

// openCards makes the devices and returns QEMU's arguments and the descriptors that they name.
func openCards(cards []Card) (args []string, files []*os.File, err error) {
	for i, c := range cards {
		queues := max(c.Queues, 1)
		taps, err := c.Host.Tap(c.Name, queues)
		if err != nil {
			return nil, files, err
		}
		var fds []string
		for _, f := range taps {
			fds = append(fds, fmt.Sprint(3+len(files)))
			files = append(files, f)
		}
		device := fmt.Sprintf("%s,netdev=card%d,mac=%s", c.Model, i, c.MAC)
		if queues > 1 {
			device += fmt.Sprintf(",mq=on,vectors=%d", 2*queues+2)
		}
		if c.Plain && c.Model == "virtio-net-pci" {
			device += ",csum=off,guest_csum=off,gso=off"
		}
		args = append(args, "-netdev", fmt.Sprintf("tap,id=card%d,fds=%s", i, strings.Join(fds, ":")), "-device", device)
	}
	return args, files, nil
}
