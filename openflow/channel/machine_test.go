package channel

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/openflow"
)

// TestTranscripts plays the files of testdata. A line is an event or what must follow it, in order and nothing else:
//
//	> HEX    the peer sends the bytes of a message
//	at TIME  the clock stands at TIME
//	< HEX    we send
//	= TEXT   we say: up, or the type and xid of a message that is delivered
//	! TEXT   the channel ends, with an error that contains TEXT
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d transcripts, error %v", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { play(t, f) })
	}
}

func play(t *testing.T, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := machine{idle: 5 * time.Second, dead: 15 * time.Second}
	now, did := time.Duration(0), effects(nil, m.start())
	for number, lines := 1, bufio.NewScanner(f); lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		verb, text, _ := strings.Cut(line, " ")
		if line == "" || verb == "#" {
			continue
		}
		if verb == ">" || verb == "at" {
			if len(did) > 0 {
				t.Fatalf("%s:%d: before this, %q", file, number, did)
			}
			if verb == ">" {
				raw := unhex(t, text)
				did = effects(raw, m.take(now, raw, decode(raw)))
				continue
			}
			if now, err = time.ParseDuration(text); err != nil {
				t.Fatal(err)
			}
			did = effects(nil, m.tick(now))
			continue
		}
		if verb == "<" {
			line = "< " + hex.EncodeToString(unhex(t, text))
		}
		if len(did) == 0 || did[0] != line && (verb != "!" || !strings.Contains(did[0], text) || did[0][0] != '!') {
			t.Fatalf("%s:%d: got %q, want %q", file, number, did, line)
		}
		did = did[1:]
	}
	if len(did) > 0 {
		t.Fatalf("%s: at the end, %q", file, did)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	s, _, _ = strings.Cut(s, "#")
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// effects are the lines that a step would be.
func effects(raw []byte, s step) []string {
	var lines []string
	if s.send != nil {
		b, err := openflow.Append(nil, s.xid, s.send)
		if err != nil {
			panic(err)
		}
		lines = append(lines, "< "+hex.EncodeToString(b))
	}
	if s.up {
		lines = append(lines, "= up")
	}
	if s.deliver != nil {
		h, err := openflow.ParseHeader(raw)
		if err != nil {
			panic(err)
		}
		lines = append(lines, fmt.Sprintf("= %v %d", s.deliver.Type(), h.XID))
	}
	if s.end != nil {
		lines = append(lines, "! "+s.end.Error())
	}
	return lines
}

func TestXIDIsNever0(t *testing.T) {
	m := machine{xid: 0xfffffffe}
	for _, want := range []uint32{0xffffffff, 1, 2} {
		if got := m.nextXID(); got != want {
			t.Errorf("got %#x, want %#x", got, want)
		}
	}
}
