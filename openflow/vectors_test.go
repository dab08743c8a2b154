package openflow_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"baton/openflow"
)

// vector is a message that someone else wrote down.
type vector struct {
	name  string
	bytes []byte
	// refused is the error that Open vSwitch decodes it to, if it does, as in "OFPBRC_BAD_LEN".
	refused string
}

// oskenPackets returns os-ken's golden packets of OpenFlow 1.3, from the Python environment that packaging/python.sh makes.
func oskenPackets(t testing.TB) []vector {
	t.Helper()
	files, err := filepath.Glob("../bin/python/lib/python3*/site-packages/os_ken/tests/packet_data/of13/*.packet")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("os-ken is not installed in bin/python (packaging/python.sh)")
	}
	var all []vector
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, vector{name: strings.TrimSuffix(filepath.Base(f), ".packet"), bytes: b})
	}
	return all
}

// Debian 12 has the source as an archive, Debian 13 as files.
const (
	ovsArchive = "/usr/src/openvswitch/openvswitch.tar.gz"
	ovsPrint   = "/usr/src/openvswitch/tests/ofp-print.at"
)

var (
	printed     = regexp.MustCompile(`(?s)ofp-print(?: +-\S+)* +("[^"]*"|'[^']*'|[0-9a-f]+)`)
	decodeError = regexp.MustCompile(`\*\*\*decode error: (\w+)\*\*\*`)
)

// ovsCases returns the messages of version 0x04 that Open vSwitch's tests of ofp-print hold, from Debian's openvswitch-source.
func ovsCases(t testing.TB) []vector {
	t.Helper()
	if src, err := os.ReadFile(ovsPrint); err == nil {
		return parseCases(t, string(src))
	}
	f, err := os.Open(ovsArchive)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("Debian's openvswitch-source is not installed (make deps)")
	} else if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if err != nil {
			t.Fatalf("%s: no ofp-print.at: %v", ovsArchive, err)
		}
		if !strings.HasSuffix(h.Name, "/tests/ofp-print.at") {
			continue
		}
		src, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		return parseCases(t, string(src))
	}
}

func parseCases(t testing.TB, src string) []vector {
	var all []vector
	for _, setup := range strings.Split(src, "AT_SETUP([")[1:] {
		name, rest, _ := strings.Cut(setup, "])")
		checks := strings.Split(rest, "AT_CHECK([")
		for _, check := range checks[1:] {
			m := printed.FindStringSubmatch(check)
			if m == nil {
				continue
			}
			digits := strings.NewReplacer(`"`, "", "'", "", `\`, "", " ", "", "\n", "", "\t", "").Replace(m[1])
			b, err := hex.DecodeString(digits)
			if err != nil {
				continue // a test that computes its bytes
			}
			v := vector{name: name, bytes: b}
			if e := decodeError.FindStringSubmatch(check); e != nil {
				v.refused = e[1]
			}
			if len(b) >= openflow.HeaderSize && b[0] == openflow.Version {
				all = append(all, v)
			}
		}
	}
	return all
}

// roundTrip requires that decoding and encoding give the same bytes.
func roundTrip(t *testing.T, b []byte) openflow.Message {
	t.Helper()
	h, m, err := openflow.Decode(b)
	if err != nil {
		t.Fatalf("decode: %v\n%s", err, hex.Dump(b))
	}
	again, err := openflow.Append(nil, h.XID, m)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	again[0] = b[0]
	if !bytes.Equal(again, b) {
		t.Fatalf("%T: got\n%swant\n%s", m, hex.Dump(again), hex.Dump(b))
	}
	return m
}

func TestOSKenPackets(t *testing.T) {
	for _, v := range oskenPackets(t) {
		t.Run(v.name, func(t *testing.T) { roundTrip(t, v.bytes) })
	}
}

func TestOpenVSwitchCases(t *testing.T) {
	all := ovsCases(t)
	if len(all) < 40 {
		t.Errorf("only %d cases were found", len(all))
	}
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) { roundTrip(t, v.bytes) })
	}
}
