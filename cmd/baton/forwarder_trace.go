package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/forwarder/trace"
)

func forwarderTraceCommand(p *part.Part, e cli.Env) *cobra.Command {
	var datapath, inPort, pcap string
	c := &cobra.Command{
		Use:   "trace [PACKET]",
		Short: "Trace a packet through the current flow entries",
		Long: `Trace a packet: the tables it passes, the flow entries it matches, their actions, and where it leaves.
The running forwarder simulates it; nothing is sent or counted.

PACKET is a frame in hexadecimal, or fields by their OpenFlow names, with defaults for the rest: eth_src, eth_dst, eth_type, vlan_vid, vlan_pcp,
arp_*, ipv4_src, ipv4_dst, ipv6_src, ipv6_dst, ipv6_flabel, ip_proto, ip_dscp, ip_ecn, tcp_src, tcp_dst, tcp_flags, udp_src, udp_dst,
icmpv4_type, icmpv4_code, icmpv6_type, icmpv6_code. With --pcap it is the first packet of a capture.`,
		Example: `  baton forwarder trace --in-port 1 ipv4_dst=10.8.0.2,tcp_dst=80
  baton forwarder trace --in-port eth1 --pcap one.pcap   # from: tcpdump -i eth1 -c 1 -w one.pcap`,
	}
	p.Ask(c, func(ctx context.Context, client *api.Client, format *cli.Format, args []string) error {
		frame, err := tracedFrame(args, pcap)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		t, err := client.ForwarderTrace(ctx, api.ForwarderTraceRequest{Datapath: datapath, InPort: inPort, Frame: frame})
		if err != nil {
			return err
		}
		return format.Print(e.Out, t, func(out io.Writer, _ bool) error {
			printTrace(out, frame, &t)
			return nil
		})
	})
	c.Flags().StringVar(&inPort, "in-port", "", "the input `port`: number, LOCAL or interface (required)")
	c.Flags().StringVar(&datapath, "datapath", "", "`name` of one of several datapaths of the forwarder")
	c.Flags().StringVar(&pcap, "pcap", "", "trace the first packet of this capture `file`")
	_ = c.MarkFlagRequired("in-port")
	return c
}

func tracedFrame(args []string, pcap string) ([]byte, error) {
	if (len(args) == 1) == (pcap != "") {
		return nil, errors.New("want one packet: PACKET, such as ipv4_dst=10.8.0.2,tcp_dst=80, or --pcap FILE")
	}
	if pcap == "" {
		return trace.Frame(args[0])
	}
	f, err := os.Open(pcap)
	if err != nil {
		return nil, fmt.Errorf("--pcap: %w", err)
	}
	defer f.Close()
	frame, err := firstFrame(f)
	if err != nil {
		return nil, fmt.Errorf("--pcap %s: %w", pcap, err)
	}
	return frame, nil
}

// firstFrame reads the first packet of a capture in the format of tcpdump -w (draft-ietf-opsawg-pcap).
func firstFrame(r io.Reader) ([]byte, error) {
	const (
		micros, nanos = 0xa1b2c3d4, 0xa1b23c4d
		section       = 0x0a0d0d0a // of pcapng
		ethernet      = 1
		longest       = 1 << 18
	)
	var head [24 + 16]byte // of the file, and of the packet
	if _, err := io.ReadFull(r, head[:4]); err != nil {
		return nil, errors.New("not a capture")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if magic := binary.BigEndian.Uint32(head[:]); magic == micros || magic == nanos {
		order = binary.BigEndian
	}
	switch order.Uint32(head[:]) {
	case micros, nanos:
	case section:
		return nil, errors.New("a capture of format pcapng: tcpdump -r FILE -w FILE.pcap makes one of format pcap")
	default:
		return nil, errors.New("not a capture of format pcap")
	}
	if _, err := io.ReadFull(r, head[4:]); err != nil {
		return nil, errors.New("no packet in it")
	}
	if link := order.Uint32(head[20:]) & 0xffff; link != ethernet {
		return nil, fmt.Errorf("packets of link type %d, not Ethernet", link)
	}
	n := order.Uint32(head[24+8:])
	if n > longest {
		return nil, fmt.Errorf("a packet of %d bytes", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, errors.New("the first packet is cut off")
	}
	return frame, nil
}

func printTrace(out io.Writer, frame []byte, t *api.ForwarderTrace) {
	for _, s := range t.Steps {
		fmt.Fprintf(out, "%s%s\n", strings.Repeat("  ", s.Depth), s.Text)
	}
	fmt.Fprintln(out)
	changed := func(b []byte) string {
		if string(b) == string(frame) {
			return "unchanged"
		}
		return hex.EncodeToString(b)
	}
	maybe := func(m bool) string {
		if m {
			return " for some flows"
		}
		return ""
	}
	for _, s := range t.Sent {
		fmt.Fprintf(out, "out of port %s (%s)%s: %s\n", s.Port, s.Interface, maybe(s.Maybe), changed(s.Frame))
	}
	for _, p := range t.Upcalls {
		fmt.Fprintf(out, "to the controllers%s, %s in table %d, %d bytes: %s\n", maybe(p.Maybe), p.Reason, p.Table, p.Bytes, changed(p.Frame))
	}
	if t.Stack != nil {
		fmt.Fprintf(out, "to the host's stack: %s\n", changed(t.Stack))
	}
	switch {
	case t.Bridged:
		fmt.Fprintln(out, "to the learning bridge")
	case len(t.Sent)+len(t.Upcalls) == 0 && t.Stack == nil:
		fmt.Fprintln(out, "dropped")
	}
}
