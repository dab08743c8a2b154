package guest

import (
	"fmt"
	"net"
	"os"
	"strings"

	"baton/lab"
)

// Card is a network card of a guest: eth0, eth1, … in their order. Its other end is a TAP device on a lab's host.
type Card struct {
	Host   *lab.Host
	Name   string // of the TAP device
	Model  string // QEMU's: virtio-net-pci, e1000e; default: virtio-net-pci
	MAC    net.HardwareAddr
	Queues int  // default: 1
	Plain  bool // without offloads between guest and device
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
		model, mac := c.Model, c.MAC
		if model == "" {
			model = "virtio-net-pci"
		}
		if mac == nil {
			mac = net.HardwareAddr{0x02, 0xba, 0, 0, byte(os.Getpid()), byte(i)}
		}
		device := fmt.Sprintf("%s,netdev=card%d,mac=%s", model, i, mac)
		if queues > 1 {
			device += fmt.Sprintf(",mq=on,vectors=%d", 2*queues+2)
		}
		if c.Plain && model == "virtio-net-pci" {
			device += ",csum=off,guest_csum=off,gso=off"
		}
		args = append(args, "-netdev", fmt.Sprintf("tap,id=card%d,fds=%s", i, strings.Join(fds, ":")), "-device", device)
	}
	return args, files, nil
}
