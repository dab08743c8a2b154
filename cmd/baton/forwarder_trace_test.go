package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"baton/api"
)

// capture is a file of tcpdump -w with one packet.
func capture(order binary.AppendByteOrder, magic, link uint32, frame []byte) []byte {
	b := order.AppendUint32(nil, magic)
	b = append(b, make([]byte, 16)...) // version to snapshot length
	b = order.AppendUint32(b, link)
	b = append(b, make([]byte, 8)...) // time
	b = order.AppendUint32(b, uint32(len(frame)))
	b = order.AppendUint32(b, 9999) // length on the wire
	return append(append(b, frame...), 0xff)
}

func TestFirstFrame(t *testing.T) {
	frame := []byte("twenty bytes of it..")
	little, big := binary.LittleEndian, binary.BigEndian
	tests := []struct {
		name string
		file []byte
		want string // of the error
	}{
		{"little endian", capture(little, 0xa1b2c3d4, 1, frame), ""},
		{"big endian", capture(big, 0xa1b2c3d4, 1, frame), ""},
		{"nanoseconds", capture(little, 0xa1b23c4d, 1, frame), ""},
		{"with checksums of frames", capture(big, 0xa1b23c4d, 0xf0000001, frame), ""},
		{"empty", nil, "not a capture"},
		{"text", []byte("hello, world"), "not a capture of format pcap"},
		{"pcapng", []byte{0x0a, 0x0d, 0x0d, 0x0a, 0, 0}, "pcapng"},
		{"no packet", capture(little, 0xa1b2c3d4, 1, frame)[:24], "no packet"},
		{"cut off", capture(little, 0xa1b2c3d4, 1, frame)[:50], "cut off"},
		{"not Ethernet", capture(little, 0xa1b2c3d4, 101, frame), "link type 101"},
		{"too long", slices.Replace(capture(little, 0xa1b2c3d4, 1, frame), 32, 36, 0xff, 0xff, 0xff, 0xff), "4294967295 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := firstFrame(bytes.NewReader(tt.file))
			if tt.want == "" && (err != nil || !bytes.Equal(got, frame)) {
				t.Errorf("got %q, %v", got, err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestTracedFrame(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.pcap")
	if err := os.WriteFile(file, capture(binary.LittleEndian, 0xa1b2c3d4, 1, []byte("frame")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		pcap string
		want string // or the error
	}{
		{nil, file, hex.EncodeToString([]byte("frame"))},
		{[]string{"0200000000020200000000018 8b5"}, "", "02000000000202000000000188b5"},
		{nil, "", "want one packet"},
		{[]string{"tcp_dst=80"}, file, "want one packet"},
		{nil, file + "x", "no such file"},
		{[]string{"zz=80"}, "", `"zz" is not a field`},
	} {
		b, err := tracedFrame(tt.args, tt.pcap)
		if got := hex.EncodeToString(b); got != tt.want && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v %q: %s, %v; want %s", tt.args, tt.pcap, got, err, tt.want)
		}
	}
}

func TestPrintTrace(t *testing.T) {
	var out bytes.Buffer
	frame := []byte{1, 2}
	printTrace(&out, frame, &api.ForwarderTrace{
		Steps: []api.ForwarderTraceStep{{Depth: 0, Text: "table 0"}, {Depth: 2, Text: "out"}},
		Sent:  []api.ForwarderTraceSent{{Port: "2", Interface: "eth2", Frame: frame}, {Port: "3", Interface: "eth3", Frame: []byte{3}, Maybe: true}},
		Upcalls: []api.ForwarderTraceUpcall{
			{Reason: "no_match", Table: 7, Bytes: 2, Frame: frame}, {Reason: "action", Bytes: 1, Frame: []byte{4}, Maybe: true},
		},
	})
	printTrace(&out, frame, &api.ForwarderTrace{})
	printTrace(&out, frame, &api.ForwarderTrace{Bridged: true})
	printTrace(&out, frame, &api.ForwarderTrace{Stack: frame})
	const want = `table 0
    out

out of port 2 (eth2): unchanged
out of port 3 (eth3) for some flows: 03
to the controllers, no_match in table 7, 2 bytes: unchanged
to the controllers for some flows, action in table 0, 1 bytes: 04

dropped

to the learning bridge

to the host's stack: unchanged
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}
