package adversary

import (
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/packet"
)

// wire sends raw frames on one interface.
type wire struct {
	fd      int
	address unix.SockaddrLinklayer
	src     packet.MAC
	router  packet.MAC
	sent    atomic.Int64
}

func newWire(l *lab.Lab, side *lab.Interface, router packet.MAC) *wire {
	w := &wire{address: unix.SockaddrLinklayer{Ifindex: side.Index}, src: packet.MAC(side.MAC), router: router}
	err := side.Host.Do(func() (err error) {
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		l.T().Fatalf("adversary: raw socket: %v", err)
	}
	l.T().Cleanup(func() { unix.Close(w.fd) })
	return w
}

// most bytes of a frame: the MTU and a tagged Ethernet header.
const mostFrame = 1500 + packet.EthernetSize + 4

// put sends a frame to the router. One that is too long, or does not fit into a buffer, is lost.
func (w *wire) put(frame []byte, vlan uint16) {
	e := packet.Ethernet(frame)
	e.SetSrc(w.src)
	e.SetDst(w.router)
	if vlan != 0 {
		tagged := append(make([]byte, 0, len(frame)+4), frame[:12]...)
		tagged = append(tagged, 0x81, 0, byte(vlan>>8), byte(vlan))
		frame = append(tagged, frame[12:]...)
	}
	if len(frame) > mostFrame {
		return
	}
	address := w.address
	if unix.Sendto(w.fd, frame, 0, &address) == nil {
		w.sent.Add(1)
	}
}

// tagMonitor counts the frames with a VLAN tag that come in on an interface.
type tagMonitor struct {
	side *lab.Interface
	fd   int
}

// monitorTags starts counting.
func monitorTags(l *lab.Lab, side *lab.Interface) *tagMonitor {
	m := &tagMonitor{side: side}
	// ldb vlanp; jeq #0, drop; ret #-1; drop: ret #0
	const vlanPresent = 0xfffff000 + 48 // SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT of linux/filter.h
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: vlanPresent},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 64},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
	err := side.Host.Do(func() (err error) {
		if m.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		if err := unix.SetsockoptSockFprog(m.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &fprog); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(m.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return err
		}
		return unix.Bind(m.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: side.Index})
	})
	if err != nil {
		l.T().Fatalf("adversary: watch %s for tags: %v", side.Name, err)
	}
	l.T().Cleanup(func() { unix.Close(m.fd) })
	return m
}

// take returns the count since the last call.
func (m *tagMonitor) take() (frames int) {
	buffer := make([]byte, 64)
	for {
		if _, _, err := unix.Recvfrom(m.fd, buffer, 0); err != nil {
			return frames
		}
		frames++
	}
}

// pathMTU is a host's path MTU to an address, in bytes; 0: none.
func pathMTU(h *lab.Host, to netip.Addr) (int, error) {
	routes, err := h.Netlink().RouteGet(to.AsSlice())
	if err != nil || len(routes) == 0 {
		return 0, err
	}
	return routes[0].MTU, nil
}

// pause is time.Sleep, precise for short times.
func pause(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}
